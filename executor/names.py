"""Inputs, and what is wrong with them, between the names that a model knows and those of the vendor."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from catalog.calls.checks import ArgumentsError
from core.schema import error_messages, validation
from core.schema.unknown_names import UnknownName
from designer import exports
from designer.exports import schema, wire
from designer.signatures.effective import Effective, Hidden, Input
from executor.released_documents import derived, wires
from protocols.base import Note, Outcome
from protocols.calls.arguments import given, note_on, problems, unknown_inputs, with_whole_numbers
from protocols.signature import Signature

DOES_NOT_FIT = "does not fit together with the other inputs"


def for_the_vendor(
    tool: Effective, signature: Signature, arguments: Mapping[str, Any], format_: str = ""
) -> dict[str, Any]:
    """Return the arguments by the vendor's names, with the presets. Raises ArgumentsError if they do not fit.

    They fit if they fit the schema that the caller was shown: the one of its format, or what all formats are
    made of. Where a format cannot state a rule of the vendor's, that rule is left to the vendor.
    """
    spoken = wires(tool, format_)
    try:
        named = wire.arguments_for_the_vendor(tool, spoken, arguments)
        shown = shown_signature(tool)
        if unknown := _names_that_were_ruled_out(tool, arguments, format_):
            raise wire.UnfitError(dict.fromkeys(unknown, wire.UNKNOWN))
        faults = problems(shown, named)
        if faults and not _is_accepted(tool, arguments, format_):
            raise wire.UnfitError(wire.faults_for_the_caller(tool, spoken, faults, arguments))
    except wire.UnfitError as error:
        said = {"code": "ARGUMENTS", "message": "Some inputs do not fit.", "fields": error.fields}
        raise ArgumentsError(Outcome("invalid_arguments", error=said)) from error
    held: list[Input | Hidden] = [*tool.inputs, *tool.hidden]
    presets = {each.parameter.name: each.preset for each in held if each.preset is not UNSET}
    theirs: dict[str, Any] = with_whole_numbers({**presets, **given(shown, named)})
    return theirs


def notes_on_arguments(tool: Effective, arguments: Mapping[str, Any], format_: str = "") -> list[Note]:
    """Return a note for each name that was sent and is not described, by the caller's names."""
    hidden = {held.parameter.name for held in tool.hidden}
    sent = {name: value for name, value in arguments.items() if name not in hidden}
    return [note_on(_renamed(tool, each, format_)) for each in unknown_inputs(shown_signature(tool), sent)]


def _renamed(tool: Effective, unknown: UnknownName, format_: str) -> UnknownName:
    first, *inside = unknown.path
    spoken = wires(tool, format_)[:1]
    proposal = unknown.proposal if inside else "".join(_caller_names(tool, spoken, unknown.proposal))
    return UnknownName((*_caller_names(tool, spoken, str(first)), *inside), proposal)


def _caller_names(tool: Effective, spoken: list[wire.Wire], name: str) -> list[str]:
    # None for an input whose value is itself the arguments.
    return [each for each in wire.faults_for_the_caller(tool, spoken, {name: ""}) if each]


def _is_accepted(tool: Effective, arguments: Mapping[str, Any], format_: str) -> bool:
    if not format_:
        return False
    ready = validation.checked(_accepted_inputs(tool, format_))
    inputs: dict[str, Any] = with_whole_numbers(dict(arguments))
    is_checked = ready.validator is not None and not validation.is_too_large(inputs)
    return is_checked and not validation.faults(ready, inputs)


def _names_that_were_ruled_out(tool: Effective, arguments: Mapping[str, Any], format_: str) -> list[str]:
    """Return the names that an export format closes its schema to, though the vendor's own is open."""
    if not format_ or arguments.keys() <= wires(tool, format_)[0].inputs.keys():
        return []
    faults = validation.faults(validation.checked(_accepted_inputs(tool, format_)), dict(arguments))
    unknown = [
        fault.path[0] for fault in faults if fault.why == error_messages.UNKNOWN and len(fault.path) == 1
    ]
    return [str(name) for name in unknown if name not in wires(tool, format_)[0].beside]


def _accepted_inputs(tool: Effective, format_: str) -> Any:
    return derived(tool, ("accepted", format_), lambda: exports.accepted_inputs(tool, format_))


def for_the_caller(
    tool: Effective,
    error: Mapping[str, Any] | None,
    format_: str = "",
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """What is wrong, with the inputs by the names that the caller knows."""
    if error is None or not (fields := error.get("fields")):
        return None if error is None else dict(error)
    told = wire.faults_for_the_caller(tool, wires(tool, format_), fields, arguments)
    hidden = hidden_texts(tool)
    return {
        **error,
        # Rules of the vendor's about several inputs may name a hidden one.
        "fields": {
            name: DOES_NOT_FIT if any(text in why for text in hidden) else why for name, why in told.items()
        },
    }


def shown_signature(tool: Effective) -> Signature:
    """Return the inputs that exports show, by the vendor's names, with the rules that exports keep."""
    return derived(tool, "signature", lambda: _shown_signature(tool))


def _shown_signature(tool: Effective) -> Signature:
    shown = tuple(replace(each.parameter, required=each.is_required) for each in tool.inputs)
    rest = None if tool.schema_rest is None else schema.kept_rest(tool)
    return Signature(name=tool.wire_name, description="", inputs=shown, schema_rest=rest)


def hidden_texts(tool: Effective) -> set[str]:
    """Return the names of hidden inputs and the hidden values of the others."""
    values = {value for shown in tool.inputs for value in shown.hidden_values}
    return values | {hidden.parameter.name for hidden in tool.hidden}
