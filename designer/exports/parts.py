"""A tool as it stands in an export: where each part is written, and how large each is."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from catalog.token_estimate import tokens_of_size
from designer.exports.wire import Wire

Path = tuple[str, ...]
Kind = Literal["name", "description", "input", "outputs", "rest"]


@dataclass(frozen=True, kw_only=True)
class Places:
    """`tools` leads to the list of tools in what a format writes, the others into one of these. Inputs are a
    JSON Schema, or a list of what has a `name`. None: the format has no place for outputs.
    """

    tools: Path
    inputs: Path
    outputs: Path | None = None
    name: Path = ("name",)
    description: Path = ("description",)


class Part(msgspec.Struct, frozen=True):
    """`rest` is what stands around the others: types of calls, required inputs, rules."""

    kind: Kind
    name: str
    tokens: int


def tools_in(document: object, places: Places) -> list[Any]:
    """The tools in the order of the release, as they are written."""
    found: list[Any] = at(document, places.tools)
    return found


def parts(tool: object, places: Places, wire: Wire) -> list[Part]:
    """Their tokens add up to those of the whole tool."""
    sizes: list[tuple[Kind, str, int]] = [("name", "", _size(at(tool, places.name)))]
    if (description := at(tool, places.description)) is not None:
        sizes.append(("description", "", _size(description)))
    sizes += [("input", name, size) for name, size in _inputs(at(tool, places.inputs), wire)]
    if places.outputs is not None and (outputs := at(tool, places.outputs)) is not None:
        sizes.append(("outputs", "", _size(outputs)))
    sizes.append(("rest", "", _size(tool) - sum(size for _, _, size in sizes)))
    found, before = [], 0
    for kind, name, size in sizes:
        # Rounded up at each end, as the whole is, so that no part is lost between two.
        found.append(Part(kind, name, tokens_of_size(before + size) - tokens_of_size(before)))
        before += size
    return found


def _inputs(written: Any, wire: Wire) -> list[tuple[str, int]]:
    if isinstance(written, list):
        return [(each["name"], _size(each)) for each in written]
    shown = (written or {}).get("properties") or {}
    if wire.whole and wire.whole not in wire.inputs:
        # All inputs went below one that the vendor does not know.
        shown = shown.get(wire.whole, {}).get("properties") or {}
    return [(name, _size(name) + 1 + _size(said)) for name, said in shown.items() if name in wire.inputs]


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))


def at(value: Any, path: Path) -> Any:
    """What stands there, or None."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
