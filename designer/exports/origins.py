"""The origin of each part of an exported tool: the vendor, a text tuned in Pegboard, or the format. Pure.

A text is searched where it belongs: the texts of an input in the part that the format writes for that input.
So this module needs to know only the paths at which a format writes a tool (`parts.Places`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from designer.exports.parts import Path, ToolPaths, value_at
from designer.exports.wire import Wire
from designer.signatures.effective import Effective
from protocols.signature import Parameter

# "catalog" and "agent" are texts tuned for all agents and for one; "generated" is what the format adds.
Origin = Literal["vendor", "catalog", "agent", "generated"]
_HINTS = {"readOnly": "read_only", "destructive": "destructive", "idempotent": "idempotent"}


class Span(NamedTuple):
    origin: Origin
    text: str


@dataclass(frozen=True, kw_only=True)
class OriginTexts:
    """The texts of a tool, and the origin of each.

    name: the origin of the tool's name. texts: by the path of the member. origin_at: returns the origin of
    a member.
    """

    tool: Effective
    name: Origin
    texts: Mapping[Path, Any]
    origin_at: Callable[[Path], Origin]


@dataclass(frozen=True, kw_only=True)
class _Region:
    """The origins within a part of the document.

    around: of keys and punctuation. values: of other values. names: of complete strings. texts: of pieces of
    longer strings, in their order.
    """

    around: Origin = "generated"
    values: Origin = "generated"
    names: Mapping[str, Origin] = field(default_factory=dict)
    texts: tuple[tuple[str, Origin], ...] = ()

    def spans_of(self, text: str) -> Iterator[Span]:
        if text in self.names:
            yield Span(self.names[text], msgspec.json.encode(text).decode())
            return
        matches, end = [], 0
        for piece, origin in self.texts:
            start = text.find(piece, end) if piece else -1
            if start >= 0:
                matches.append((start, start + len(piece), origin))
                end = start + len(piece)
        # Text between pieces is the format's. A string without pieces has the origin of the region's values.
        glue: Origin = "generated" if matches else self.values
        yield Span(self.around, '"')
        end = 0
        for start, stop, origin in matches:
            yield Span(glue, _encode_inside(text[end:start]))
            yield Span(origin, _encode_inside(text[start:stop]))
            end = stop
        yield Span(glue, _encode_inside(text[end:]))
        yield Span(self.around, '"')


def spans(own: object, places: ToolPaths, wire: Wire, tool_texts: OriginTexts) -> list[Span]:
    """Return the exported tool in pieces, each with its origin. Together they are equal to the exported
    bytes."""
    regions = dict(_list_regions(own, places, wire, tool_texts))
    pieces = _split_spans(own, (), _Region(names={tool_texts.tool.name: tool_texts.name}), regions)
    merged = groupby((span for span in pieces if span.text), key=lambda span: span.origin)
    return [Span(origin, "".join(span.text for span in group)) for origin, group in merged]


def _list_regions(
    own: object, places: ToolPaths, wire: Wire, tool_texts: OriginTexts
) -> Iterator[tuple[Path, _Region]]:
    tool, origin_at = tool_texts.tool, tool_texts.origin_at
    yield places.description, _Region(texts=((tool.description, origin_at(("description",))),))
    yield ("title",), _Region(values=origin_at(("title",)))
    for member in ("tags", "img", "icons"):
        yield (member,), _Region(values="vendor")
    for hint, effect in {**_HINTS, "openWorld": "open_world"}.items():
        for name in (hint, f"{hint}Hint"):
            yield ("annotations", name), _Region(values=origin_at(("effects", effect)))
    for keyword in tool.schema_rest or ():
        yield (*places.inputs, keyword), _Region(around="vendor", values="vendor")
    inputs = {visible.parameter.name: (visible.parameter, visible.preset) for visible in tool.inputs}
    input_side = _Side("parameters", places.inputs, wire.inputs, wire.whole, inputs)
    yield from _of_members(own, input_side, tool_texts)
    if places.outputs is not None:
        outputs = {output.parameter.name: (output.parameter, UNSET) for output in tool.outputs}
        output_side = _Side("outputs", places.outputs, wire.outputs, wire.whole_output, outputs)
        yield from _of_members(own, output_side, tool_texts)
    # Last, as a format may write its name among the inputs.
    yield places.name, _Region(values=tool_texts.name)


class _Side(NamedTuple):
    """The inputs or the outputs of an exported tool.

    member: their member of a tuning. path: of their schema in the exported tool.
    names: the vendor's names by the exported ones. single_name: the property with all of them, "" without.
    parameters: each with its preset, by the vendor's names.
    """

    member: str
    path: Path
    names: Mapping[str, str]
    single_name: str
    parameters: Mapping[str, tuple[Parameter, Any]]


def _of_members(own: object, side: _Side, tool_texts: OriginTexts) -> Iterator[tuple[Path, _Region]]:
    """Yield the regions of inputs or outputs, and of the lists of their names."""
    keys: dict[str, Origin] = {}
    for name, vendor_name in side.names.items():
        if vendor_name in side.parameters:
            origin = tool_texts.origin_at((side.member, vendor_name, "name"))
            is_generated = origin == "vendor" and name != vendor_name
            keys[name] = "generated" if is_generated else origin
    members = value_at(own, side.path)
    if isinstance(members, list):
        paths = {(*side.path, str(index)): member["name"] for index, member in enumerate(members)}
    else:
        is_nested = side.single_name and side.single_name not in keys
        below = (*side.path, "properties", side.single_name) if is_nested else side.path
        yield (*below, "properties"), _Region(names=keys)
        yield (*below, "required"), _Region(names=keys)
        paths = {(*below, "properties", name): name for name in keys}
    for path, name in paths.items():
        parameter, preset = side.parameters.get(side.names.get(name, ""), (None, UNSET))
        if parameter is not None:
            origin = tool_texts.origin_at((side.member, parameter.name, "preset"))
            yield path, _of_parameter(parameter, keys, side.member, tool_texts)
            if preset is not UNSET:
                yield (*path, "default"), _Region(around=origin, values=origin)


def _of_parameter(
    parameter: Parameter, keys: Mapping[str, Origin], side: str, tool_texts: OriginTexts
) -> _Region:
    here = (side, parameter.name)
    text = tool_texts.texts.get((*here, "description"), parameter.description)
    texts: list[tuple[str, Origin]] = [(str(text), tool_texts.origin_at((*here, "description")))]
    for value in parameter.allowed_values:
        if value.description:
            # As a list in the description, or beside the value.
            texts.append((f"{value.name}: ", "vendor"))
            origin = tool_texts.origin_at((*here, "values", value.name, "description"))
            texts.append((value.description, origin))
    is_schema = isinstance(parameter.schema, dict)
    names: dict[str, Origin] = {**keys}
    names |= {value.name: "vendor" for value in parameter.allowed_values}
    return _Region(
        around="vendor" if is_schema else "generated", values="vendor", names=names, texts=tuple(texts)
    )


def _split_spans(
    value: object, path: Path, region: _Region, regions: Mapping[Path, _Region]
) -> Iterator[Span]:
    region = regions.get(path, region)
    if isinstance(value, dict):
        for number, (key, inside) in enumerate(value.items()):
            yield Span(region.around, "," if number else "{")
            yield Span(region.names.get(key, region.around), msgspec.json.encode(key).decode())
            yield Span(region.around, ":")
            yield from _split_spans(inside, (*path, key), region, regions)
        yield Span(region.around, "}" if value else "{}")
    elif isinstance(value, list | tuple):
        for number, inside in enumerate(value):
            yield Span(region.around, "," if number else "[")
            yield from _split_spans(inside, (*path, str(number)), region, regions)
        yield Span(region.around, "]" if value else "[]")
    elif isinstance(value, str):
        yield from region.spans_of(value)
    else:
        yield Span(region.values, msgspec.json.encode(value).decode())


def _encode_inside(text: str) -> str:
    # JSON escapes character by character, so the parts of a string are written one by one.
    return msgspec.json.encode(text).decode()[1:-1]
