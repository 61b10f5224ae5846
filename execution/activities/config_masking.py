"""The configuration of an activity as people see it, with a mask in place of sensitive values."""

from collections.abc import Collection, Mapping
from typing import Any

from catalog.models import Activity, SensitiveValues, ToolVersion
from catalog.rules.sensitive_values import mask
from catalog.tools.sensitive_values import NONE, marks_of
from core.schema import pointers

# The members of a configuration that have sources of values, by name.
_SOURCES = ("outputs", "query", "headers", "body")
# The members of a source that have a fixed value.
_FIXED = ("value", "otherwise")


def masked_mock(tool: int, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a mock of the tool for a person, or for the audit trail."""
    masked, marks = dict(config), marks_of([tool]).get(tool)
    if marks is None:
        return masked
    marked = {"arguments": marks.inputs, "outputs": marks.outputs, "when": marks.inputs}
    for member in ("examples", "situations"):
        if member in masked:
            masked[member] = [
                {name: mask(value, marked.get(name, ())) for name, value in row.items()}
                for row in masked[member]
            ]
    return masked


def masked_config(config: Mapping[str, Any], interface: ToolVersion | None) -> dict[str, Any]:
    """Return the configuration of any other activity for the audit trail, with its fixed values masked.

    A fixed value is sensitive if it becomes a marked input of a step or a marked output of the interface, or
    stands in for a marked input of the interface.
    """
    steps = config.get("steps", [])
    activities = {step["activity"] for step in steps if step.get("activity")}
    rows = Activity.objects.filter(pk__in=activities).select_related("current__interface")
    tools = {row.pk: row.current.interface.tool_id for row in rows if row.current and row.current.interface}
    callees = [step.get("tool") or tools.get(step.get("activity", 0), 0) for step in steps]
    marks = marks_of({*callees, interface.tool_id} if interface else callees)
    if not marks:
        return dict(config)
    own = marks.get(interface.tool_id, NONE) if interface else NONE
    masked = dict(config)
    for member in _SOURCES:
        if member in masked:
            marked = own.outputs if member == "outputs" else ()
            masked[member] = _masked_sources(masked[member], marked, own)
    if steps:
        masked["steps"] = [
            {**step, "inputs": _masked_sources(step.get("inputs", {}), marks.get(callee, NONE).inputs, own)}
            for step, callee in zip(steps, callees, strict=True)
        ]
    return masked


def _masked_sources(
    sources: Mapping[str, Any], marked: Collection[str], own: SensitiveValues
) -> dict[str, Any]:
    return {
        name: {
            member: _mask_fixed(name, value, source, marked, own) if member in _FIXED else value
            for member, value in source.items()
        }
        for name, source in sources.items()
    }


def _mask_fixed(
    name: str, value: Any, source: Mapping[str, Any], marked: Collection[str], own: SensitiveValues
) -> Any:
    masked = mask({name: value}, marked)[name]
    if not source.get("input"):
        return masked
    # The pointers of marks have no indexes of lists.
    path = (source["input"], *(step for step in pointers.split(source.get("at", "")) if not step.isdigit()))
    marks = [pointers.split(pointer) for pointer in own.inputs]
    below = [pointers.join(steps[len(path) :]) for steps in marks if steps[: len(path)] == path]
    is_inside = any(path[: len(steps)] == steps for steps in marks)
    return mask(masked, [""] if is_inside else below)
