"""The parts of a tool in an export: their paths and their sizes."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from catalog.token_estimate import tokens_of_size
from core.schema import spelling
from designer.exports.wire import Wire

Path = tuple[str, ...]
Kind = Literal["name", "description", "input", "outputs", "rest"]


@dataclass(frozen=True, kw_only=True)
class ToolPaths:
    """The paths at which a format writes a tool.

    tools: from the document to the list of tools. The others lead from a tool to its parts.
    inputs: to a JSON Schema, or to a list of members with a `name`. outputs: None if the format has none.
    """

    tools: Path
    inputs: Path
    outputs: Path | None = None
    name: Path = ("name",)
    description: Path = ("description",)


class ToolPart(msgspec.Struct, frozen=True):
    """A part of an exported tool. `rest` contains what belongs to no other: types of calls, required
    inputs, rules."""

    kind: Kind
    name: str
    tokens: int


def tools_in(document: object, places: ToolPaths) -> list[Any]:
    """Return the exported tools, in the order of the release."""
    tools: list[Any] = value_at(document, places.tools)
    return tools


def parts(tool: object, places: ToolPaths, wire: Wire) -> list[ToolPart]:
    """Return the parts of an exported tool. Their tokens add up to those of the tool."""
    sizes: list[tuple[Kind, str, int]] = [("name", "", _json_size(value_at(tool, places.name)))]
    if (description := value_at(tool, places.description)) is not None:
        sizes.append(("description", "", _json_size(description)))
    exported_inputs = value_at(tool, places.inputs)
    if isinstance(exported_inputs, list):
        sizes += [("input", parameter["name"], _json_size(parameter)) for parameter in exported_inputs]
    else:
        properties = spelling.properties_of(exported_inputs)
        if wire.whole and wire.whole not in wire.inputs:
            # All inputs went below one that the vendor does not know.
            properties = spelling.properties_of(properties.get(wire.whole))
        sizes += [
            ("input", name, _json_size(name) + 1 + _json_size(schema))
            for name, schema in properties.items()
            if name in wire.inputs
        ]
    if places.outputs is not None and (outputs := value_at(tool, places.outputs)) is not None:
        sizes.append(("outputs", "", _json_size(outputs)))
    sizes.append(("rest", "", _json_size(tool) - sum(size for _, _, size in sizes)))
    parts_of_tool, size_before = [], 0
    for kind, name, size in sizes:
        # Rounded up at each end, as the whole is, so that no part is lost between two.
        parts_of_tool.append(
            ToolPart(kind, name, tokens_of_size(size_before + size) - tokens_of_size(size_before))
        )
        size_before += size
    return parts_of_tool


def _json_size(value: object) -> int:
    return len(msgspec.json.encode(value))


def value_at(value: Any, path: Path) -> Any:
    """Return the value at a path, or None."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
