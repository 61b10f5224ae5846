"""Where each part of a written tool comes from: the vendor, words of ours, or the format itself. Pure.

A text is looked for where it belongs: the words about an input in what the format writes of that input. So
this needs to know no more of a format than where it writes a tool (`parts.Places`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from designer.exports.parts import Path, Places, at
from designer.exports.wire import Wire
from designer.signatures.effective import Effective
from protocols.signature import Parameter

# "catalog" are our words for all agents, "agent" those of one; "generated" is what the format writes around.
Origin = Literal["vendor", "catalog", "agent", "generated"]
_HINTS = {"readOnly": "read_only", "destructive": "destructive", "idempotent": "idempotent"}


class Span(NamedTuple):
    origin: Origin
    text: str


@dataclass(frozen=True, kw_only=True)
class Said:
    """What is said of a tool at each member, and whose words these are."""

    tool: Effective
    name: Origin
    texts: Mapping[Path, Any]
    whose: Callable[[Path], Origin]


@dataclass(frozen=True, kw_only=True)
class _Region:
    """A part of the text. `names` are strings as a whole, `texts` pieces of longer ones, in their order."""

    around: Origin = "generated"
    values: Origin = "generated"
    names: Mapping[str, Origin] = field(default_factory=dict)
    texts: tuple[tuple[str, Origin], ...] = ()


def spans(own: object, places: Places, wire: Wire, said: Said) -> list[Span]:
    """Together they are to the byte what is written of the tool."""
    regions = dict(_regions(own, places, wire, said))
    found = _walk(own, (), _Region(names={said.tool.name: said.name}), regions)
    merged = groupby((span for span in found if span.text), key=lambda span: span.origin)
    return [Span(origin, "".join(span.text for span in each)) for origin, each in merged]


def _regions(own: object, places: Places, wire: Wire, said: Said) -> Iterator[tuple[Path, _Region]]:
    tool, whose = said.tool, said.whose
    yield places.description, _Region(texts=((tool.description, whose(("description",))),))
    yield ("title",), _Region(values=whose(("title",)))
    for member in ("tags", "img", "icons"):
        yield (member,), _Region(values="vendor")
    for hint, effect in {**_HINTS, "openWorld": "open_world"}.items():
        for name in (hint, f"{hint}Hint"):
            yield ("annotations", name), _Region(values=whose(("effects", effect)))
    for keyword in tool.schema_rest or ():
        yield (*places.inputs, keyword), _Region(around="vendor", values="vendor")
    inputs = {shown.parameter.name: (shown.parameter, shown.preset) for shown in tool.inputs}
    yield from _of_members(own, places.inputs, wire.inputs, wire.whole, inputs, "parameters", said)
    if places.outputs is not None:
        outputs = {output.parameter.name: (output.parameter, UNSET) for output in tool.outputs}
        whole = wire.whole_output
        yield from _of_members(own, places.outputs, wire.outputs, whole, outputs, "outputs", said)
    # Last, as a format may write its name among the inputs.
    yield places.name, _Region(values=said.name)


def _of_members(
    own: object,
    place: Path,
    names: Mapping[str, str],
    whole: str,
    known: Mapping[str, tuple[Parameter, Any]],
    side: str,
    said: Said,
) -> Iterator[tuple[Path, _Region]]:
    """The regions of inputs or outputs: of each, and of what names them."""
    keys = {shown: _of_name(shown, names[shown], side, said) for shown in names if names[shown] in known}
    written = at(own, place)
    if isinstance(written, list):
        ways = {(*place, str(index)): each["name"] for index, each in enumerate(written)}
    else:
        below = (*place, "properties", whole) if whole and whole not in keys else place
        yield (*below, "properties"), _Region(names=keys)
        yield (*below, "required"), _Region(names=keys)
        ways = {(*below, "properties", shown): shown for shown in keys}
    for way, shown in ways.items():
        parameter, preset = known.get(names.get(shown, ""), (None, UNSET))
        if parameter is not None:
            origin = said.whose((side, parameter.name, "preset"))
            yield way, _of_parameter(parameter, keys, side, said)
            if preset is not UNSET:
                yield (*way, "default"), _Region(around=origin, values=origin)


def _of_name(shown: str, theirs: str, side: str, said: Said) -> Origin:
    whose = said.whose((side, theirs, "name"))
    return whose if whose != "vendor" or shown == theirs else "generated"


def _of_parameter(parameter: Parameter, keys: Mapping[str, Origin], side: str, said: Said) -> _Region:
    here = (side, parameter.name)
    text = said.texts.get((*here, "description"), parameter.description)
    texts: list[tuple[str, Origin]] = [(str(text), said.whose((*here, "description")))]
    for value in parameter.allowed_values:
        if value.description:
            # As a list in the description, or beside the value.
            texts.append((f"{value.name}: ", "vendor"))
            whose = said.whose((*here, "values", value.name, "description"))
            texts.append((value.description, whose))
    is_schema = isinstance(parameter.schema, dict)
    names: dict[str, Origin] = {**keys}
    names |= {value.name: "vendor" for value in parameter.allowed_values}
    return _Region(
        around="vendor" if is_schema else "generated", values="vendor", names=names, texts=tuple(texts)
    )


def _walk(value: object, way: Path, region: _Region, regions: Mapping[Path, _Region]) -> Iterator[Span]:
    region = regions.get(way, region)
    if isinstance(value, dict):
        for number, (key, inside) in enumerate(value.items()):
            yield Span(region.around, "," if number else "{")
            yield from _key(key, region)
            yield from _walk(inside, (*way, key), region, regions)
        yield Span(region.around, "}" if value else "{}")
    elif isinstance(value, list | tuple):
        for number, inside in enumerate(value):
            yield Span(region.around, "," if number else "[")
            yield from _walk(inside, (*way, str(number)), region, regions)
        yield Span(region.around, "]" if value else "[]")
    elif isinstance(value, str):
        yield from _string(value, region)
    else:
        yield Span(region.values, msgspec.json.encode(value).decode())


def _key(key: str, region: _Region) -> Iterator[Span]:
    written = msgspec.json.encode(key).decode()
    yield Span(region.names.get(key, region.around), written)
    yield Span(region.around, ":")


def _string(text: str, region: _Region) -> Iterator[Span]:
    if text in region.names:
        yield Span(region.names[text], msgspec.json.encode(text).decode())
        return
    found, end = [], 0
    for piece, origin in region.texts:
        start = text.find(piece, end) if piece else -1
        if start >= 0:
            found.append((start, start + len(piece), origin))
            end = start + len(piece)
    # What stands between pieces is the format's; without any, the whole is what it is here.
    glue: Origin = "generated" if found else region.values
    yield Span(region.around, '"')
    end = 0
    for start, stop, origin in found:
        yield Span(glue, _inside(text[end:start]))
        yield Span(origin, _inside(text[start:stop]))
        end = stop
    yield Span(glue, _inside(text[end:]))
    yield Span(region.around, '"')


def _inside(text: str) -> str:
    # JSON escapes character by character, so the parts of a string are written one by one.
    return msgspec.json.encode(text).decode()[1:-1]
