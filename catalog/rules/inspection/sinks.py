"""Inputs that a model must fill with free text, through which data may leave. Pure."""

import re

from catalog.rules.inspection.alarms import Alarm
from catalog.rules.inspection.shape import join_names
from protocols.signature import Parameter, Signature

NAMES = frozenset(
    {
        *("note", "notes", "context", "metadata", "debug"),
        *("additionalnotes", "additionalcontext", "extranotes", "extracontext", "debuginfo", "debugnotes"),
    }
)


def find_free_text(signature: Signature, before: Signature | None) -> Alarm | None:
    """Return an alarm about such inputs. `before`: the previous version, None for a new tool."""
    # For a new tool only names count, because another rule reports missing descriptions.
    earlier_names = (
        {parameter.name for parameter in before.inputs if _must_be_written(parameter)} if before else set()
    )
    free_inputs = [
        parameter.name
        for parameter in signature.inputs
        if _must_be_written(parameter)
        and parameter.name not in earlier_names
        and (
            re.sub(r"[^a-z]", "", parameter.name.lower()) in NAMES
            or (before is not None and not parameter.description.strip())
        )
    ]
    if not free_inputs:
        return None
    names = join_names(free_inputs)
    message = (
        f"A call now has to fill {names} with text of a model's choosing."
        if before
        else f"A call has to fill {names} with text of a model's choosing."
    )
    return Alarm("FREE_TEXT", "low", message)


def _must_be_written(parameter: Parameter) -> bool:
    return parameter.required and parameter.type == "string"
