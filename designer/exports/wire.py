"""The names of inputs and outputs in a format, and their mapping to the vendor's names.

A format that changes a name, or that puts all inputs or outputs below one property, states it in its `Wire`.
Calls, pages and exports use the same mapping, in both directions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from core.content_cache import ContentCache, digest
from core.schema import SchemaDocument, read_document
from designer.exports import nulls
from designer.signatures.effective import Effective, EffectiveInput, Output
from protocols import parameters as json_schema
from protocols.calls.arguments import TOGETHER

UNKNOWN = "is not an input of this tool"
# A call reads the schema of its tool, which is large for some.
_documents: ContentCache[SchemaDocument] = ContentCache(size=200, max_bytes=16 * 1024 * 1024)


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The vendor's names by the names of a format.

    whole: the one input that contains all inputs; its value is sent instead of an object of inputs.
    whole_output: the one output that contains the result instead of an object of outputs.
    null_is_absent: null means an absent optional input, at any depth.
    beside: members of a call that are not inputs.
    """

    inputs: dict[str, str] = {}
    outputs: dict[str, str] = {}
    whole: str = ""
    whole_output: str = ""
    null_is_absent: bool = False
    beside: tuple[str, ...] = ()

    def altered(self) -> dict[str, Any]:
        """Return the parts of the mapping that change anything."""
        members = {
            "inputs": {alias: name for alias, name in self.inputs.items() if alias != name},
            "outputs": {alias: name for alias, name in self.outputs.items() if alias != name},
            "whole": self.whole,
            "whole_output": self.whole_output,
            "null_is_absent": self.null_is_absent,
        }
        return {member: value for member, value in members.items() if value}


class UnfitError(Exception):
    """Arguments that cannot be mapped. fields: the reason by the name that the caller used."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__("; ".join(fields.values()))
        self.fields = fields


def by_alias(tool: Effective) -> Wire:
    only_input, only_output = whole_input(tool), output_of_all(tool)
    return Wire(
        inputs={visible.alias: visible.parameter.name for visible in tool.inputs},
        outputs={output.alias: output.parameter.name for output in tool.outputs},
        whole=only_input.alias if only_input else "",
        whole_output=only_output.alias if only_output else "",
    )


def by_vendors_name(tool: Effective) -> Wire:
    """Return the mapping of formats that use the vendor's names, or those that a designer chose."""
    only_input, only_output = whole_input(tool), output_of_all(tool)
    return Wire(
        inputs={visible.shown_name: visible.parameter.name for visible in tool.inputs},
        outputs={output.parameter.name: output.parameter.name for output in tool.outputs},
        whole=only_input.shown_name if only_input else "",
        whole_output=only_output.parameter.name if only_output else "",
    )


def whole_input(tool: Effective) -> EffectiveInput | None:
    """Return the input that contains all inputs, for a vendor that accepts no named ones."""
    return next((visible for visible in tool.inputs if visible.parameter.is_whole), None)


def output_of_all(tool: Effective) -> Output | None:
    return next((output for output in tool.outputs if output.parameter.is_whole), None)


def arguments_for_the_vendor(
    tool: Effective, wires: Sequence[Wire], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments by the vendor's names. They use the names of one format, or of any of several.

    Raises UnfitError for a name that is not visible, and for an input that has two values.
    """
    only_input = whole_input(tool)
    if len(wires) == 1 and wires[0].beside:
        arguments = {name: value for name, value in arguments.items() if name not in wires[0].beside}
    if only_input and _is_in_place(wires, arguments):
        return {only_input.parameter.name: dict(arguments)}
    inner = arguments if only_input else _unwrap_arguments(wires, arguments)
    vendor_names, hidden_names = _vendor_names(wires), {hidden.parameter.name for hidden in tool.hidden}
    is_closed = (
        bool(hidden_names)
        or (tool.schema_rest or {"additionalProperties": False}).get("additionalProperties") is False
    )
    faults: dict[str, str] = {}
    name_by_vendor_name: dict[str, str] = {}
    for name in inner:
        vendor_name = vendor_names.get(name, name)
        # A hidden input is refused like an unknown one, so that a model learns nothing about it. The vendor's
        # name of a renamed input is like any other name, and is sent where other names are.
        if name not in vendor_names and name in (tool.vendor_input_names if is_closed else hidden_names):
            faults[name] = UNKNOWN
        # Two formats have different names for one input. With both names it is open which value counts.
        elif vendor_name in name_by_vendor_name:
            other = name_by_vendor_name[vendor_name]
            faults[name] = f"is given a second time, as “{other}” is the same input"
        name_by_vendor_name.setdefault(vendor_name, name)
    if faults:
        raise UnfitError(faults)
    mapped = {vendor_name: inner[name] for vendor_name, name in name_by_vendor_name.items()}
    return _remove_absent(tool, mapped) if len(wires) == 1 and wires[0].null_is_absent else mapped


def faults_for_the_caller(
    tool: Effective,
    wires: Sequence[Wire],
    faults: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Return the faults by the names that the caller used in `arguments`, without those of hidden inputs.

    faults: messages by the vendor's name of the input. wires: the formats whose names the caller may use.
    """
    arguments = arguments or {}
    only_input, vendor_names, prefix = whole_input(tool), _vendor_names(wires), ""
    # Reversed, so that the name of the first format counts.
    alias_by_name = {vendor_name: alias for alias, vendor_name in reversed(vendor_names.items())}
    if only_input and _is_in_place(wires, arguments):
        alias_by_name[only_input.parameter.name] = TOGETHER
    elif not only_input and (inner := _unwrap_arguments(wires, arguments, is_checked=False)) is not arguments:
        (prefix,) = arguments
        arguments = inner
    alias_by_name |= {vendor_names[name]: name for name in arguments if name in vendor_names}
    hidden_names = {hidden.parameter.name for hidden in tool.hidden}
    visible = {
        alias_by_name.get(name, name): fault for name, fault in faults.items() if name not in hidden_names
    }
    return {".".join(filter(None, (prefix, name))): fault for name, fault in visible.items()}


def outputs_for_the_caller(
    tool: Effective, wire: Wire, outputs: Mapping[str, Any], *, is_parsed: bool = False
) -> dict[str, Any]:
    """Return the outputs by the names of the format. Members that the vendor does not declare stay unchanged,
    unless a designer hid one of the outputs.

    is_parsed: the outputs were parsed out of texts, and replace these texts.
    """
    if tool.hidden_outputs:
        # Undeclared members may repeat the hidden output, so they are not passed on either.
        declared = {output.parameter.name for output in tool.outputs}
        outputs = {name: value for name, value in outputs.items() if name in declared}
    only_output = output_of_all(tool)
    alias_by_name = {vendor_name: alias for alias, vendor_name in wire.outputs.items()}
    renamed = {alias_by_name.get(name, name): value for name, value in outputs.items()}
    # The vendor returns one value, and the format shows its members.
    if only_output and not wire.whole_output and not is_parsed:
        value = renamed.get(only_output.parameter.name)
        if isinstance(value, dict):
            return {
                name: other for name, other in renamed.items() if name != only_output.parameter.name
            } | value
    # The reverse: the format has one output for all outputs of the vendor.
    if not only_output and wire.whole_output and renamed:
        inner = {name: value for name, value in renamed.items() if name in wire.outputs or not wire.outputs}
        outer = {name: value for name, value in renamed.items() if name not in inner}
        return outer | {wire.whole_output: inner}
    return renamed


def outputs_of_the_caller(tool: Effective, wire: Wire, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs that a model wrote instead of the vendor, by the names of the signature."""
    only_output = output_of_all(tool)
    if only_output and not wire.whole_output:
        return {only_output.parameter.name: dict(outputs)}
    if not only_output and wire.whole_output and isinstance(inner := outputs.get(wire.whole_output), dict):
        outputs = {name: value for name, value in outputs.items() if name != wire.whole_output} | inner
    return {wire.outputs.get(name, name): value for name, value in outputs.items()}


def _remove_absent(tool: Effective, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by the vendor's names without nulls for absent inputs."""
    if only_input := whole_input(tool):
        document = _read_cached(json_schema.write_parameter(only_input.parameter))
        return {name: nulls.without_absent(document, value) for name, value in arguments.items()}
    schema = {
        **(tool.schema_rest or {}),
        "properties": {i.parameter.name: json_schema.write_parameter(i.parameter) for i in tool.inputs},
        "required": [visible.parameter.name for visible in tool.inputs if visible.is_required],
    }
    present: dict[str, Any] = nulls.without_absent(_read_cached(schema), arguments)
    return present


def _read_cached(schema: Any) -> SchemaDocument:
    return _documents.get(digest(schema), lambda: read_document(schema))


def _vendor_names(wires: Sequence[Wire]) -> dict[str, str]:
    """Return the vendor's names by those of the formats. No two formats use one name for different inputs."""
    names: dict[str, str] = {}
    for wire in wires:
        names |= {alias: name for alias, name in wire.inputs.items() if alias not in names}
    return names


def _is_in_place(wires: Sequence[Wire], arguments: Mapping[str, Any]) -> bool:
    """Return whether the arguments are themselves the value of the input that contains all inputs."""
    return any(not wire.whole for wire in wires) and not any(wire.whole in arguments for wire in wires)


def _unwrap_arguments(
    wires: Sequence[Wire], arguments: Mapping[str, Any], *, is_checked: bool = True
) -> Mapping[str, Any]:
    """Return the inputs, where a format puts them all below one property that the vendor does not have."""
    for name in (wire.whole for wire in wires if wire.whole):
        if arguments.keys() == {name} and isinstance(arguments[name], dict):
            inner: dict[str, Any] = arguments[name]
            return inner
        if len(wires) == 1 and is_checked:
            faults = dict.fromkeys((other for other in arguments if other != name), UNKNOWN)
            if not isinstance(arguments.get(name), dict):
                faults[name] = "must be an object" if name in arguments else "is required"
            raise UnfitError(faults)
    return arguments
