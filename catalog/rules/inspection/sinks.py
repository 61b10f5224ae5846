"""Inputs that a model has to fill with text of its own choosing: what it knows may leave that way. Pure."""

import re

from catalog.rules.inspection.alarms import Alarm
from catalog.rules.inspection.shape import listed
from protocols.signature import Parameter, Signature

NAMES = frozenset(
    {
        *("note", "notes", "context", "metadata", "debug"),
        *("additionalnotes", "additionalcontext", "extranotes", "extracontext", "debuginfo", "debugnotes"),
    }
)


def free_text(signature: Signature, before: Signature | None) -> Alarm | None:
    """`before` is the version before; None for a tool that is new."""
    # Of a new tool only the names tell: that inputs lack a description is said by another rule.
    known = {each.name for each in before.inputs if _must_be_written(each)} if before else set()
    asked = [
        each.name
        for each in signature.inputs
        if _must_be_written(each)
        and each.name not in known
        and (
            re.sub(r"[^a-z]", "", each.name.lower()) in NAMES
            or (before is not None and not each.description.strip())
        )
    ]
    if not asked:
        return None
    now = "now " if before else ""
    return Alarm(
        "FREE_TEXT", "low", f"A call {now}has to fill {listed(asked)} with text of a model's choosing."
    )


def _must_be_written(parameter: Parameter) -> bool:
    return parameter.required and parameter.type == "string"
