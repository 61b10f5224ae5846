"""How a demo vendor writes its tools down.

A tool is written once, beside the function that answers it. What came later carries the version
it came with (`since`, `widened`, `reworded`), so older versions follow from the newest text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Outputs = dict[str, object]


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    description: str
    since: int = 1


@dataclass(frozen=True, slots=True)
class Parameter:
    """`key` stays the same when `name` changes: it is the wire id and the answering function's argument."""

    key: str
    name: str
    type: str
    description: str
    required: bool = True
    choices: tuple[Choice, ...] = ()
    low: int | None = None
    high: int | None = None
    longest: int | None = None
    since: int = 1

    def as_of(self, version: int) -> "Parameter":
        return replace(self, choices=tuple(c for c in self.choices if c.since <= version))


@dataclass(frozen=True, slots=True)
class Edition:
    """What one version of a tool says."""

    description: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """`run` takes the vendor's desk and arguments by key; it gives the newest version's outputs by key."""

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

    def revised(self, **changes: Any) -> "Tool":
        """With one more version: the current one with `changes`."""
        return replace(self, editions=(*self.editions, replace(self.editions[-1], **changes)))

    def overwritten(self, **changes: Any) -> "Tool":
        """With `changes` made inside the current version, which the protocol forbids."""
        return replace(self, editions=(*self.editions[:-1], replace(self.editions[-1], **changes)))


def key_of(name: str) -> str:
    """`Temperature in Fahrenheit` and `lateCheckout` as Python argument names."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()


def text(
    name: str, description: str = "", *, optional: bool = False, longest: int | None = None, since: int = 1
) -> Parameter:
    return Parameter(key_of(name), name, "string", description, not optional, longest=longest, since=since)


def whole(
    name: str,
    description: str = "",
    *,
    low: int | None = None,
    high: int | None = None,
    optional: bool = False,
    since: int = 1,
) -> Parameter:
    return Parameter(key_of(name), name, "int", description, not optional, low=low, high=high, since=since)


def flag(name: str, description: str = "", *, optional: bool = False, since: int = 1) -> Parameter:
    return Parameter(key_of(name), name, "boolean", description, not optional, since=since)


def choice(
    name: str,
    description: str,
    choices: Mapping[str, str],
    *,
    widened: Mapping[int, Mapping[str, str]] | None = None,
    optional: bool = False,
    since: int = 1,
) -> Parameter:
    editions = {1: choices, **(widened or {})}
    offered = tuple(Choice(n, d, version) for version, more in editions.items() for n, d in more.items())
    return Parameter(key_of(name), name, "enum", description, not optional, choices=offered, since=since)


def data(name: str, description: str = "", *, since: int = 1) -> Parameter:
    return Parameter(key_of(name), name, "json", description, since=since)


def tool(
    tool_id: str,
    description: str,
    *,
    tags: Sequence[str] = (),
    inputs: Sequence[Parameter] = (),
    outputs: Sequence[Parameter],
    reworded: Mapping[int, str] | None = None,
) -> Callable[[Callable[..., Outputs]], Tool]:
    """Turns the method under it into the tool of the same name."""
    texts = {1: description, **(reworded or {})}
    parameters = (*inputs, *outputs)
    newest = max(*texts, *(p.since for p in parameters), *(c.since for p in parameters for c in p.choices), 1)

    def edition(version: int) -> Edition:
        return Edition(
            texts[max(v for v in texts if v <= version)],
            tuple(p.as_of(version) for p in inputs if p.since <= version),
            tuple(p.as_of(version) for p in outputs if p.since <= version),
        )

    def offer(run: Callable[..., Outputs]) -> Tool:
        return Tool(tool_id, run.__name__, tuple(tags), tuple(map(edition, range(1, newest + 1))), run)

    return offer


def tools_of(desk: type) -> tuple[Tool, ...]:
    """All tools written in a class and the classes it is made of."""
    return tuple(t for part in desk.__mro__ for t in vars(part).values() if isinstance(t, Tool))


def wire(tool: Tool, version: int) -> dict[str, object]:
    """One version as the protocol spells it."""
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


def _wire_parameter(parameter: Parameter, side: str) -> dict[str, object]:
    members: dict[str, object] = {
        "id": f"{side}.{parameter.key}",
        "name": parameter.name,
        "type": parameter.type,
        "description": parameter.description,
    }
    limits = {"min": parameter.low, "max": parameter.high, "max-length": parameter.longest}
    members |= {member: limit for member, limit in limits.items() if limit is not None}
    if parameter.choices:
        members["allowed-values"] = [
            {"name": c.name, "description": c.description} for c in parameter.choices
        ]
    return members
