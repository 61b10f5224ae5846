"""Inputs, and what is wrong with them, between the names that a model knows and those of the vendor."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from catalog.calls.checks import ArgumentsError
from catalog.protocols.base import Outcome
from catalog.protocols.calls.arguments import given
from catalog.protocols.signature import Signature
from designer.exports import wire
from designer.signatures.effective import Effective, Hidden, Input
from executor.released_documents import wires


def for_the_vendor(
    tool: Effective, signature: Signature, arguments: Mapping[str, Any], format_: str = ""
) -> dict[str, Any]:
    """Arguments by the vendor's names, with the presets. Raises ArgumentsError for what is not shown."""
    spoken = wires(tool, format_)
    try:
        named = wire.arguments_for_the_vendor(tool, spoken, arguments)
        hidden = {
            shown.parameter.name: f"takes one of: {', '.join(v.name for v in shown.parameter.allowed_values)}"
            for shown in tool.inputs
            if named.get(shown.parameter.name) in shown.hidden_values
        }
        if hidden:
            raise wire.UnfitError(wire.faults_for_the_caller(tool, spoken, hidden, arguments))
    except wire.UnfitError as error:
        said = {"code": "ARGUMENTS", "message": "Some inputs do not fit.", "fields": error.fields}
        raise ArgumentsError(Outcome("invalid_arguments", error=said)) from error
    held: list[Input | Hidden] = [*tool.inputs, *tool.hidden]
    presets = {each.parameter.name: each.preset for each in held if each.preset is not UNSET}
    return {**presets, **given(signature, named)}


def for_the_caller(
    tool: Effective,
    error: Mapping[str, Any] | None,
    format_: str = "",
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """What is wrong, with the inputs by the names that the caller knows."""
    if error is None or not (fields := error.get("fields")):
        return None if error is None else dict(error)
    return {
        **error,
        "fields": wire.faults_for_the_caller(tool, wires(tool, format_), fields, arguments),
    }
