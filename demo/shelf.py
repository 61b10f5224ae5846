"""What a vendor offers at this moment, and how that moves on when somebody asks for news."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.calls import call
from demo.signatures import Tool, tools_of


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a vendor publishes on request; `change` gives None when the tool is withdrawn.

    `news` is for people; {version} in it stands for the tool's current version after the step.
    """

    tool: str
    news: str
    change: Callable[[Tool], Tool | None]


class StateFileError(Exception):
    """The state file holds something else than what a shelf writes."""


class Shelf:
    """The tools of one vendor by id, and the desk where they are answered.

    With a state file the steps published so far survive a restart, so that no version ever goes
    backwards by accident. Bookings and refills live in memory only.
    """

    def __init__(self, desk: type, *, steps: Sequence[Step] = (), state: Path | None = None) -> None:
        self.steps = tuple(steps)
        self._desk_class = desk
        self._state = state
        self._lock = threading.RLock()
        self._open(_read_published(state, len(self.steps)))

    def _open(self, published: int) -> None:
        self.published = published
        self._desk = self._desk_class()
        self.tools = _tools_after(tools_of(self._desk_class), self.steps[:published])

    @property
    def news(self) -> list[str]:
        """What the steps published so far have changed, for people."""
        versions = {t.name: t.current_version for t in self.tools.values()}
        return [s.news.format(version=versions.get(s.tool)) for s in self.steps[: self.published]]

    def find(self, tool_id: str) -> Tool | None:
        return self.tools.get(tool_id.lower())

    def publish(self) -> str | None:
        """Takes the next step and says what it was; None when there is none left."""
        with self._lock:
            if self.published == len(self.steps):
                return None
            self.published += 1
            self.tools = _tools_after(tools_of(self._desk_class), self.steps[: self.published])
            self._remember()
            return self.news[-1]

    def start_over(self) -> None:
        with self._lock:
            self._open(0)
            self._remember()

    def invoke(
        self, tool: Tool, version: int | None, given: Sequence[tuple[str, object]]
    ) -> dict[str, object]:
        edition = tool.editions[(version or tool.current_version) - 1]
        with self._lock:
            return call(tool, edition, self._desk, given)

    def _remember(self) -> None:
        if self._state is not None:
            fresh = self._state.with_suffix(".new")
            fresh.write_text(json.dumps({"published": self.published}), encoding="utf-8")
            fresh.replace(self._state)


def _tools_after(tools: Sequence[Tool], steps: Sequence[Step]) -> dict[str, Tool]:
    offered = {t.name: t for t in tools}
    for step in steps:
        changed = step.change(offered.pop(step.tool))
        if changed is not None:
            offered[step.tool] = changed
    return {t.id: t for t in sorted(offered.values(), key=lambda t: t.id)}


def _read_published(state: Path | None, steps: int) -> int:
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
