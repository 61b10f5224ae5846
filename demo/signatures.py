"""The tools of a demo vendor, from the file of its world (demo/worlds).

The file contains each tool once. Later parts state the version that added them (`since`, `widened`,
`reworded`), so that older versions follow from the newest text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

Outputs = dict[str, object]
World = dict[str, Any]


class Backend(Protocol):
    """Executes a vendor's calls: a method for each tool of its world."""

    world: World


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    description: str
    since: int = 1


@dataclass(frozen=True, slots=True)
class ParameterText:
    """The texts of a parameter in one version of a tool. `key` stays the same when `name` changes: it is the
    wire id and the answering function's argument.
    """

    key: str
    name: str
    type: str
    description: str
    required: bool = True
    choices: tuple[Choice, ...] = ()
    low: int | None = None
    high: int | None = None
    max_length: int | None = None
    since: int = 1

    def as_of(self, version: int) -> "ParameterText":
        return replace(self, choices=tuple(c for c in self.choices if c.since <= version))


@dataclass(frozen=True, slots=True)
class Edition:
    """The content of one version of a tool."""

    description: str
    inputs: tuple[ParameterText, ...]
    outputs: tuple[ParameterText, ...]


@dataclass(frozen=True, slots=True)
class DemoTool:
    """A tool of a demo vendor. `run` takes the vendor's backend and arguments by key; it gives the newest
    version's outputs by key.
    """

    id: str
    name: str
    tags: tuple[str, ...]
    editions: tuple[Edition, ...]
    run: Callable[..., Outputs]

    @property
    def current_version(self) -> int:
        return len(self.editions)

    def edition(self, version: int | None) -> Edition | None:
        """The current edition for None; None for a version that never was."""
        number = version or self.current_version
        return self.editions[number - 1] if number <= self.current_version else None

    def revised(self, **changes: Any) -> "DemoTool":
        """Return the tool with one more version: the current one with `changes`."""
        return replace(self, editions=(*self.editions, replace(self.editions[-1], **changes)))

    def overwritten(self, **changes: Any) -> "DemoTool":
        """Return the tool with `changes` made inside the current version, which the protocol forbids."""
        return replace(self, editions=(*self.editions[:-1], replace(self.editions[-1], **changes)))


def key_of(name: str) -> str:
    """Return a wire name as a Python argument name: `lateCheckout` becomes `late_checkout`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()


def parameter_of(declaration: str | dict[str, Any], world: World) -> ParameterText:
    """Read a parameter of a world's file. A text in its place names one of the world's `parameters`, as a
    text in the place of choices names some of its `choices`.
    """
    spec = world["parameters"][declaration] if isinstance(declaration, str) else declaration
    choices = spec.get("choices", {})
    editions = {"1": world["choices"][choices] if isinstance(choices, str) else choices}
    editions |= spec.get("widened", {})
    return ParameterText(
        key=key_of(spec["name"]),
        name=spec["name"],
        type=spec["type"],
        description=spec.get("description", ""),
        required=not spec.get("optional", False),
        choices=tuple(
            Choice(name, text, int(version))
            for version, more in editions.items()
            for name, text in more.items()
        ),
        low=spec.get("low"),
        high=spec.get("high"),
        max_length=spec.get("longest"),
        since=spec.get("since", 1),
    )


def tool_of(name: str, world: World, run: Callable[..., Outputs]) -> DemoTool:
    """Return a tool with all editions. Its specification has the members `id`, `description`, `tags`,
    `inputs`, `outputs`, and `reworded` with the descriptions of later versions.
    """
    spec = world["tools"][name]
    inputs = [parameter_of(parameter, world) for parameter in spec["inputs"]]
    outputs = [parameter_of(parameter, world) for parameter in spec["outputs"]]
    texts = {1: spec["description"]} | {int(v): text for v, text in spec.get("reworded", {}).items()}
    since = [p.since for p in (*inputs, *outputs)] + [c.since for p in (*inputs, *outputs) for c in p.choices]

    def edition(version: int) -> Edition:
        return Edition(
            texts[max(v for v in texts if v <= version)],
            tuple(p.as_of(version) for p in inputs if p.since <= version),
            tuple(p.as_of(version) for p in outputs if p.since <= version),
        )

    editions = tuple(map(edition, range(1, max(*texts, *since, 1) + 1)))
    return DemoTool(spec["id"], name, tuple(spec["tags"]), editions, run)


def tools_of(backend: type[Backend]) -> list[DemoTool]:
    """Return the tools of the vendor. The method of the backend with the tool's name runs it."""
    return [tool_of(name, backend.world, getattr(backend, name)) for name in backend.world["tools"]]


def requirements_of(backend: type[Backend]) -> dict[str, dict[str, Any]]:
    """Return by the tool's id the permissions and secrets that it requires."""
    tools = backend.world["tools"].values()
    return {spec["id"]: spec["requirements"] for spec in tools if "requirements" in spec}


def wire(tool: DemoTool, version: int) -> dict[str, object]:
    """Return the document of one version in A2T."""
    edition = tool.editions[version - 1]
    return {
        "toolId": tool.id,
        "name": tool.name,
        "description": edition.description,
        "version": version,
        "currentVersion": tool.current_version,
        "tags": list(tool.tags),
        "input_parameters": [_wire_parameter(p, "in") | {"required": p.required} for p in edition.inputs],
        "output_parameters": [_wire_parameter(p, "out") for p in edition.outputs],
    }


def _wire_parameter(parameter: ParameterText, side: str) -> dict[str, object]:
    members: dict[str, object] = {
        "id": f"{side}.{parameter.key}",
        "name": parameter.name,
        "type": parameter.type,
        "description": parameter.description,
    }
    limits = {"min": parameter.low, "max": parameter.high, "max-length": parameter.max_length}
    members |= {member: limit for member, limit in limits.items() if limit is not None}
    if parameter.choices:
        members["allowed-values"] = [
            {"name": c.name, "description": c.description} for c in parameter.choices
        ]
    return members
