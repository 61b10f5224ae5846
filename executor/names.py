"""Inputs, and what is wrong with them, between the names that a model knows and those of the vendor."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from catalog.calls.checks import ArgumentsError
from designer.exports import schema, wire
from designer.signatures.effective import Effective, Hidden, Input
from executor.released_documents import wires
from protocols.base import Outcome
from protocols.calls.arguments import given, problems, with_whole_numbers
from protocols.signature import Signature

DOES_NOT_FIT = "does not fit together with the other inputs"


def for_the_vendor(
    tool: Effective, signature: Signature, arguments: Mapping[str, Any], format_: str = ""
) -> dict[str, Any]:
    """Arguments by the vendor's names, with the presets. Raises ArgumentsError for what is not shown.

    Where something is hidden, the arguments are validated against what is shown before the vendor's schema
    sees them, so that no refusal names what is hidden.
    """
    spoken = wires(tool, format_)
    try:
        named = wire.arguments_for_the_vendor(tool, spoken, arguments)
        if hidden_texts(tool) and (faults := problems(shown_signature(tool), named)):
            raise wire.UnfitError(wire.faults_for_the_caller(tool, spoken, faults, arguments))
    except wire.UnfitError as error:
        said = {"code": "ARGUMENTS", "message": "Some inputs do not fit.", "fields": error.fields}
        raise ArgumentsError(Outcome("invalid_arguments", error=said)) from error
    held: list[Input | Hidden] = [*tool.inputs, *tool.hidden]
    presets = {each.parameter.name: each.preset for each in held if each.preset is not UNSET}
    theirs: dict[str, Any] = with_whole_numbers({**presets, **given(signature, named)})
    return theirs


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
    shown = tuple(replace(each.parameter, required=each.is_required) for each in tool.inputs)
    rest = tool.schema_rest
    if rest is not None and tool.hidden:
        rest = schema.kept_rest(tool)
    return Signature(name=tool.wire_name, description="", inputs=shown, schema_rest=rest)


def hidden_texts(tool: Effective) -> set[str]:
    """Return the names of hidden inputs and the hidden values of the others."""
    values = {value for shown in tool.inputs for value in shown.hidden_values}
    return values | {hidden.parameter.name for hidden in tool.hidden}
