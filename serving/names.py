"""Map inputs and their errors between the names that a model knows and the vendor's."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from core.schema import error_messages, spelling, validation
from core.schema.unknown_names import UnknownName
from designer import exports
from designer.exports import schema, wire
from designer.signatures.effective import Effective, EffectiveInput, HiddenInput
from execution.calls.checks import ArgumentsError
from protocols.call_outcome import Outcome
from protocols.calls.arguments import (
    arguments_to_send,
    find_problems,
    note_on,
    unknown_inputs,
    with_whole_numbers,
)
from protocols.list_pages import Note
from protocols.signature import Signature
from serving.released_documents import derive_from_tool, wires

DOES_NOT_FIT = "does not fit together with the other inputs"


def map_to_vendor(tool: Effective, arguments: Mapping[str, Any], format_: str = "") -> dict[str, Any]:
    """Return the arguments by the vendor's names, with the presets. Raises ArgumentsError if they do not fit.

    They have to fit the schema that the caller saw: that of its format, or the common base of all formats.
    The vendor checks the rules that a format cannot express.
    """
    format_wires = wires(tool, format_)
    try:
        vendor_named = wire.arguments_for_the_vendor(tool, format_wires, arguments)
        visible_signature = shown_signature(tool)
        fields = _find_excluded_names(tool, arguments, format_)
        faults = find_problems(visible_signature, vendor_named)
        if faults and not _fits_format(tool, arguments, format_):
            fields |= wire.faults_for_the_caller(tool, format_wires, faults, arguments)
        if fields:
            raise wire.UnfitError(fields)
    except wire.UnfitError as error:
        error_document = {"code": "ARGUMENTS", "message": "Some inputs do not fit.", "fields": error.fields}
        raise ArgumentsError(Outcome("invalid_arguments", error=error_document)) from error
    all_inputs: list[EffectiveInput | HiddenInput] = [*tool.inputs, *tool.hidden]
    presets = {row.parameter.name: row.preset for row in all_inputs if row.preset is not UNSET}
    complete: dict[str, Any] = with_whole_numbers(
        {**presets, **arguments_to_send(visible_signature, vendor_named)}
    )
    return complete


def notes_on_arguments(tool: Effective, arguments: Mapping[str, Any], format_: str = "") -> list[Note]:
    """Return a note for each argument that no input describes, by the caller's names."""
    hidden = {hidden_input.parameter.name for hidden_input in tool.hidden}
    visible_arguments = {name: value for name, value in arguments.items() if name not in hidden}
    signature = shown_signature(tool)
    format_wires = wires(tool, format_)[:1]
    notes = []
    for unknown in unknown_inputs(signature, visible_arguments):
        first, *inner_path = unknown.path
        names = _to_caller_names(tool, format_wires, str(first))
        proposal = unknown.proposal
        if not inner_path:
            proposal = "".join(_to_caller_names(tool, format_wires, proposal))
        notes.append(note_on(UnknownName((*names, *inner_path), proposal)))
    return notes


def _to_caller_names(tool: Effective, format_wires: list[wire.Wire], name: str) -> list[str]:
    # An input whose value is the whole arguments object has no name.
    return [fault for fault in wire.faults_for_the_caller(tool, format_wires, {name: ""}) if fault]


def _fits_format(tool: Effective, arguments: Mapping[str, Any], format_: str) -> bool:
    """Return whether the arguments fit the format, apart from names that it excludes."""
    if not format_:
        return False
    ready = validation.checked(_accepted_inputs(tool, format_))
    inputs: dict[str, Any] = with_whole_numbers(dict(arguments))
    is_checked = ready.validator is not None and not validation.is_too_large(inputs)
    return is_checked and all(
        fault.why == error_messages.UNKNOWN for fault in validation.faults(ready, inputs)
    )


def _find_excluded_names(tool: Effective, arguments: Mapping[str, Any], format_: str) -> dict[str, str]:
    """Return an error for each input with names that the export excludes, also of an open schema.

    The names may be at any depth: strict formats close every object.
    """
    if not format_:
        return {}
    if arguments.keys() <= wires(tool, format_)[0].inputs.keys():
        has_members = any(isinstance(value, dict | list) for value in arguments.values())
        if not has_members or not derive_from_tool(
            tool, ("closes", format_), lambda: spelling.has_closed_part(_accepted_inputs(tool, format_))
        ):
            return {}
    faults = validation.faults(validation.checked(_accepted_inputs(tool, format_)), dict(arguments))
    unknown = [fault for fault in faults if fault.why == error_messages.UNKNOWN]
    sibling_names = wires(tool, format_)[0].beside
    return {
        str(fault.path[0]): wire.UNKNOWN
        if len(fault.path) == 1
        else f"{error_messages.place(fault.path)} {fault.why}"
        for fault in unknown
        if fault.path[0] not in sibling_names
    }


def _accepted_inputs(tool: Effective, format_: str) -> Any:
    return derive_from_tool(tool, ("accepted", format_), lambda: exports.accepted_inputs(tool, format_))


def map_error_to_caller(
    tool: Effective,
    error: Mapping[str, Any] | None,
    format_: str = "",
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Return the error with the inputs under the names that the caller knows."""
    if error is None or not (fields := error.get("fields")):
        return None if error is None else dict(error)
    caller_fields = wire.faults_for_the_caller(tool, wires(tool, format_), fields, arguments)
    hidden = hidden_texts(tool)
    return {
        **error,
        # The vendor's rules about several inputs may name a hidden one.
        "fields": {
            name: DOES_NOT_FIT if any(text in reason for text in hidden) else reason
            for name, reason in caller_fields.items()
        },
    }


def shown_signature(tool: Effective) -> Signature:
    """Return the inputs that exports show, by the vendor's names, with the rules that exports keep."""

    def build_signature() -> Signature:
        visible_inputs = tuple(replace(row.parameter, required=row.is_required) for row in tool.inputs)
        schema_rest = None if tool.schema_rest is None else schema.kept_rest(tool)
        return Signature(name=tool.wire_name, description="", inputs=visible_inputs, schema_rest=schema_rest)

    return derive_from_tool(tool, "signature", build_signature)


def hidden_texts(tool: Effective) -> set[str]:
    """Return the names of hidden inputs and the hidden values of the others."""
    values = {value for visible_input in tool.inputs for value in visible_input.hidden_values}
    return values | {hidden.parameter.name for hidden in tool.hidden}
