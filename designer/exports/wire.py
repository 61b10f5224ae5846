"""How a format names what a tool takes and gives, and the way between those names and the vendor's.

A format that alters a name, or that puts all inputs or outputs below one, says so in its `Wire`. What shows
people and programs the way back is what a call goes by, in both directions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from core.schema import Document, read_document
from designer.exports import nulls
from designer.exports.content_cache import ContentCache, digest
from designer.signatures.effective import Effective, Input, Output
from protocols import parameters as json_schema
from protocols.calls.arguments import TOGETHER

UNKNOWN = "is not an input of this tool"
# A call reads the schema of its tool, which is large for some.
_documents: ContentCache[Document] = ContentCache(size=200)


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The vendor's names by those of a format.

    `whole` is the one input that holds all there is: its value is sent in place of an object of inputs.
    `whole_output` is the one output that holds what came back in place of an object of outputs.
    `null_is_absent`: for an input that need not be given, wherever it stands, null says that it is not.
    `beside` are members of a call that are no inputs.
    """

    inputs: dict[str, str] = {}
    outputs: dict[str, str] = {}
    whole: str = ""
    whole_output: str = ""
    null_is_absent: bool = False
    beside: tuple[str, ...] = ()

    def altered(self) -> dict[str, Any]:
        """What is not as the vendor has it; empty when all is."""
        members = {
            "inputs": {shown: theirs for shown, theirs in self.inputs.items() if shown != theirs},
            "outputs": {shown: theirs for shown, theirs in self.outputs.items() if shown != theirs},
            "whole": self.whole,
            "whole_output": self.whole_output,
            "null_is_absent": self.null_is_absent,
        }
        return {member: value for member, value in members.items() if value}


class UnfitError(Exception):
    """`fields` says why, by the names that were given."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__("; ".join(fields.values()))
        self.fields = fields


def by_alias(tool: Effective) -> Wire:
    whole, whole_output = whole_input(tool), output_of_all(tool)
    return Wire(
        inputs={shown.alias: shown.parameter.name for shown in tool.inputs},
        outputs={output.alias: output.parameter.name for output in tool.outputs},
        whole=whole.alias if whole else "",
        whole_output=whole_output.alias if whole_output else "",
    )


def by_vendors_name(tool: Effective) -> Wire:
    """An input that a designer named goes by that name."""
    whole, whole_output = whole_input(tool), output_of_all(tool)
    return Wire(
        inputs={shown.shown_name: shown.parameter.name for shown in tool.inputs},
        outputs={output.parameter.name: output.parameter.name for output in tool.outputs},
        whole=whole.shown_name if whole else "",
        whole_output=whole_output.parameter.name if whole_output else "",
    )


def whole_input(tool: Effective) -> Input | None:
    """The input that stands for all of them, where the vendor takes what is no object of named ones."""
    return next((shown for shown in tool.inputs if shown.parameter.is_whole), None)


def output_of_all(tool: Effective) -> Output | None:
    return next((output for output in tool.outputs if output.parameter.is_whole), None)


def arguments_for_the_vendor(
    tool: Effective, wires: Sequence[Wire], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the vendor's names, out of those of one format, or of any of several.

    Raises UnfitError for an input that is not shown, and for one that is given by two names.
    """
    whole = whole_input(tool)
    # Members of the format itself are no inputs, and the vendor is not sent them.
    if len(wires) == 1 and wires[0].beside:
        given = {name: value for name, value in given.items() if name not in wires[0].beside}
    if whole and _is_in_place(wires, given):
        return {whole.parameter.name: dict(given)}
    inside = given if whole else _inside(wires, given)
    shown, hidden = _names(wires), {held.parameter.name for held in tool.hidden}
    is_closed = (
        bool(hidden)
        or (tool.schema_rest or {"additionalProperties": False}).get("additionalProperties") is False
    )
    faults: dict[str, str] = {}
    named: dict[str, str] = {}
    for name in inside:
        theirs = shown.get(name, name)
        # A hidden input is refused as one that is not there, so that a model learns nothing of it. The
        # vendor's name of a renamed input is any other name, and goes out where any other name does.
        if name not in shown and name in (tool.taken if is_closed else hidden):
            faults[name] = UNKNOWN
        # Two formats call one input differently. Given by both names, it is open which value counts.
        elif theirs in named:
            faults[name] = f"is given a second time, as “{named[theirs]}” is the same input"
        named.setdefault(theirs, name)
    if faults:
        raise UnfitError(faults)
    arguments = {theirs: inside[name] for theirs, name in named.items()}
    if len(wires) == 1 and wires[0].null_is_absent:
        return _without_absent(tool, arguments)
    return arguments


def faults_for_the_caller(
    tool: Effective, wires: Sequence[Wire], faults: Mapping[str, str], given: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """What is wrong, by the names that the caller used or would use; of hidden inputs nothing is said."""
    given = given or {}
    whole, shown, place = whole_input(tool), _names(wires), ""
    # Reversed, so that of several names the first format's is told.
    called = {theirs: name for name, theirs in reversed(shown.items())}
    if whole and _is_in_place(wires, given):
        called[whole.parameter.name] = TOGETHER
    elif not whole and (inside := _inside(wires, given, is_checked=False)) is not given:
        (place,) = given
        given = inside
    called |= {shown[name]: name for name in given if name in shown}
    hidden = {held.parameter.name for held in tool.hidden}
    told = {called.get(name, name): why for name, why in faults.items() if name not in hidden}
    return {".".join(filter(None, (place, name))): why for name, why in told.items()}


def outputs_for_the_caller(
    tool: Effective, wire: Wire, outputs: Mapping[str, Any], *, is_parsed: bool = False
) -> dict[str, Any]:
    """What came back, by the format's names. What the vendor does not declare stays as it came, unless a
    designer hid one of the outputs.

    `is_parsed`: these were parsed out of texts, and stand where their texts do.
    """
    if tool.hidden_outputs:
        # A vendor may say the same again in what it does not declare, so nothing else is passed on either.
        told = {output.parameter.name for output in tool.outputs}
        outputs = {name: value for name, value in outputs.items() if name in told}
    whole = output_of_all(tool)
    called = {theirs: name for name, theirs in wire.outputs.items()}
    renamed = {called.get(name, name): value for name, value in outputs.items()}
    # The vendor answers one value, and the format shows its members.
    if whole and not wire.whole_output and not is_parsed:
        value = renamed.get(whole.parameter.name)
        if isinstance(value, dict):
            return {name: each for name, each in renamed.items() if name != whole.parameter.name} | value
    # And the other way round: the format has one output for all that the vendor answers.
    if not whole and wire.whole_output and renamed:
        below = {name: value for name, value in renamed.items() if name in wire.outputs or not wire.outputs}
        return {name: value for name, value in renamed.items() if name not in below} | {
            wire.whole_output: below
        }
    return renamed


def outputs_of_the_caller(tool: Effective, wire: Wire, given: Mapping[str, Any]) -> dict[str, Any]:
    """The other way round: by the signature's names, what a model gives in place of what would come back."""
    whole = output_of_all(tool)
    if whole and not wire.whole_output:
        return {whole.parameter.name: dict(given)}
    if not whole and wire.whole_output and isinstance(inside := given.get(wire.whole_output), dict):
        given = {name: value for name, value in given.items() if name != wire.whole_output} | inside
    return {wire.outputs.get(name, name): value for name, value in given.items()}


def _without_absent(tool: Effective, arguments: dict[str, Any]) -> dict[str, Any]:
    # Arguments by the vendor's names, judged by the vendor's schema. What has a preset need not be given.
    if whole := whole_input(tool):
        document = _read_cached(json_schema.write_parameter(whole.parameter))
        return {name: nulls.without_absent(document, value) for name, value in arguments.items()}
    schema = {
        **(tool.schema_rest or {}),
        "properties": {i.parameter.name: json_schema.write_parameter(i.parameter) for i in tool.inputs},
        "required": [shown.parameter.name for shown in tool.inputs if shown.is_required],
    }
    cleaned: dict[str, Any] = nulls.without_absent(_read_cached(schema), arguments)
    return cleaned


def _read_cached(schema: Any) -> Document:
    return _documents.get(digest(schema), lambda: read_document(schema))


def _names(wires: Sequence[Wire]) -> dict[str, str]:
    # The first one wins, though no two formats mean different inputs by one name.
    names: dict[str, str] = {}
    for wire in wires:
        names |= {shown: theirs for shown, theirs in wire.inputs.items() if shown not in names}
    return names


def _is_in_place(wires: Sequence[Wire], given: Mapping[str, Any]) -> bool:
    # Whether what is given is itself the value of the input that stands for all, and does not hold it.
    return any(not wire.whole for wire in wires) and not any(wire.whole in given for wire in wires)


def _inside(wires: Sequence[Wire], given: Mapping[str, Any], *, is_checked: bool = True) -> Mapping[str, Any]:
    # The inputs, where a format has put all of them below one that the vendor does not know.
    for name in (wire.whole for wire in wires if wire.whole):
        if given.keys() == {name} and isinstance(given[name], dict):
            inside: dict[str, Any] = given[name]
            return inside
        if len(wires) == 1 and is_checked:
            faults = dict.fromkeys((other for other in given if other != name), UNKNOWN)
            if not isinstance(given.get(name), dict):
                faults[name] = "must be an object" if name in given else "is required"
            raise UnfitError(faults)
    return given
