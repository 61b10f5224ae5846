"""The tools that a vendor offers at this moment, and the news that it publishes on request, step by step."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from demo.calls import call
from demo.signatures import Backend, Choice, DemoTool, ParameterText, parameter_of, tools_of


class StateFileError(Exception):
    """The state file has an unknown content."""


class PublishedTools:
    """The tools of one vendor by id, and the backend that answers them.

    With a state file the steps published so far survive a restart, so that no version ever goes
    backwards by accident. Bookings and refills live in memory only.
    """

    def __init__(self, backend: type[Backend], *, state: Path | None = None) -> None:
        self.steps: list[dict[str, Any]] = backend.world.get("news", [])
        self._backend_class = backend
        self._state = state
        self._lock = threading.RLock()
        self._open(_read_step_count(state, len(self.steps)))

    def _open(self, published_count: int) -> None:
        self.steps_taken = published_count
        self._backend = self._backend_class()
        self.tools = _tools_after(self._backend_class, self.steps[:published_count])

    @property
    def news(self) -> list[str]:
        """The changes of the steps published so far, for people."""
        versions = {t.name: t.current_version for t in self.tools.values()}
        return [
            step["says"].format(version=versions.get(step["tool"])) for step in self.steps[: self.steps_taken]
        ]

    def find(self, tool_id: str) -> DemoTool | None:
        # A UUID may come in capital letters.
        return self.tools.get(tool_id.lower())

    def publish(self) -> str | None:
        """Publish the next step and return its description, None if there is none left."""
        with self._lock:
            if self.steps_taken == len(self.steps):
                return None
            self.steps_taken += 1
            self.tools = _tools_after(self._backend_class, self.steps[: self.steps_taken])
            self._remember()
            return self.news[-1]

    def start_over(self) -> None:
        with self._lock:
            self._open(0)
            self._remember()

    def invoke(
        self, tool: DemoTool, version: int | None, arguments: Sequence[tuple[str, object]]
    ) -> dict[str, object]:
        edition = tool.editions[(version or tool.current_version) - 1]
        with self._lock:
            return call(tool, edition, self._backend, arguments)

    def _remember(self) -> None:
        if self._state is not None:
            # Replaced as a whole: a process that is killed while it writes leaves a readable file.
            fresh = self._state.with_suffix(".new")
            fresh.write_text(json.dumps({"published": self.steps_taken}), encoding="utf-8")
            fresh.replace(self._state)


def _tools_after(backend: type[Backend], steps: Sequence[Mapping[str, Any]]) -> dict[str, DemoTool]:
    offered = {tool.name: tool for tool in tools_of(backend)}
    for step in steps:
        before = offered.pop(step["tool"])
        if not step.get("is_withdrawn"):
            offered[step["tool"]] = _change_tool(before, step, backend)
    return {tool.id: tool for tool in sorted(offered.values(), key=lambda tool: tool.id)}


def _change_tool(tool: DemoTool, step: Mapping[str, Any], backend: type[Backend]) -> DemoTool:
    """Return the tool with one more version, or with a change inside one, which the protocol forbids."""
    current, renamed = tool.editions[-1], step.get("renames", {})

    def widened(parameter: ParameterText) -> ParameterText:
        more = step.get("adds_choices", {}).get(parameter.key, {})
        choices = (*parameter.choices, *(Choice(name, text) for name, text in more.items()))
        return replace(parameter, name=renamed.get(parameter.key, parameter.name), choices=choices)

    added = [parameter_of(spec, backend.world) for spec in step.get("adds_inputs", [])]
    changes = {
        "description": step.get("description", current.description),
        "inputs": (*map(widened, current.inputs), *added),
        "outputs": tuple(map(widened, current.outputs)),
    }
    return tool.overwritten(**changes) if step.get("is_in_place") else tool.revised(**changes)


def _read_step_count(state: Path | None, steps: int) -> int:
    if state is None or not state.exists():
        return 0
    try:
        published = json.loads(state.read_text(encoding="utf-8"))["published"]
    except (ValueError, KeyError, TypeError) as exc:
        raise StateFileError(
            f"{state} is not a state file of a demo vendor; delete it to start over."
        ) from exc
    if type(published) is not int or not 0 <= published <= steps:
        raise StateFileError(f"{state} names a step that does not exist; delete it to start over.")
    return published
