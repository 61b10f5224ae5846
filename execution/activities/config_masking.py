"""The configuration of an activity as people see it, with a mask in place of sensitive values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from catalog.models import Activity, ActivityVersion, SensitiveValues
from catalog.rules.sensitive_values import mask, mask_part
from catalog.tools.sensitive_values import NONE, marks_of
from core.schema import pointers

# The members of a configuration that have sources of values, by name.
_SOURCES = ("outputs", "query", "headers", "body")
# The members of a source that have a fixed value.
_FIXED = {"value", "otherwise"}


class _Configuration(NamedTuple):
    """A configuration whose sensitive values are masked. tool: the id of the interface's tool, or of the
    tool that a mock answers for; 0 if there is none.
    """

    kind: str
    config: Mapping[str, Any]
    tool: int

    @property
    def steps(self) -> list[Mapping[str, Any]]:
        return [] if self.kind == "mock" else self.config.get("steps", [])


def masked_config(kind: str, config: Mapping[str, Any], tool: int | None) -> dict[str, Any]:
    """Return a configuration for a person, or for the audit trail.

    A fixed value is sensitive if it becomes a marked input of a step or a marked output of the interface, or
    stands in for a marked input of the interface.
    """
    return _mask_all([_Configuration(kind, config, tool or 0)])[0]


def masked_configs(versions: Iterable[ActivityVersion]) -> list[dict[str, Any]]:
    return _mask_all(
        [
            _Configuration(row.kind, row.config, row.interface.tool_id if row.interface else 0)
            for row in versions
        ]
    )


def _mask_all(rows: Sequence[_Configuration]) -> list[dict[str, Any]]:
    steps = [step for row in rows for step in row.steps]
    activities = {step["activity"] for step in steps if step.get("activity")}
    interfaces = Activity.objects.filter(pk__in=activities).select_related("current__interface")
    tools = {
        row.pk: row.current.interface.tool_id for row in interfaces if row.current and row.current.interface
    }
    callees = {step["tool"] for step in steps if step.get("tool")} | {*tools.values()}
    marks = marks_of({*callees, *(row.tool for row in rows)})
    return [_mask_one(row, marks, tools) if marks else dict(row.config) for row in rows]


def _mask_one(
    row: _Configuration, marks: Mapping[int, SensitiveValues], tools: Mapping[int, int]
) -> dict[str, Any]:
    sensitive_values = marks.get(row.tool, NONE)
    masked = dict(row.config)
    if row.kind == "mock":
        marked_parts = {
            "arguments": sensitive_values.inputs,
            "outputs": sensitive_values.outputs,
            "when": sensitive_values.inputs,
        }
        for member in masked.keys() & {"examples", "situations"}:
            masked[member] = [
                {name: mask(value, marked_parts.get(name, ())) for name, value in part.items()}
                for part in masked[member]
            ]
        return masked
    for member in _SOURCES:
        if member in masked:
            marked = sensitive_values.outputs if member == "outputs" else ()
            masked[member] = _mask_sources(masked[member], marked, sensitive_values)
    if row.steps:
        masked["steps"] = []
    for step in row.steps:
        callee = step.get("tool") or tools.get(step.get("activity", 0), 0)
        inputs = _mask_sources(step.get("inputs", {}), marks.get(callee, NONE).inputs, sensitive_values)
        masked["steps"].append({**step, "inputs": inputs})
    return masked


def _mask_sources(
    sources: Mapping[str, Any], marked_members: Collection[str], sensitive_values: SensitiveValues
) -> dict[str, Any]:
    masked = {name: dict(source) for name, source in sources.items()}
    for name, source in masked.items():
        for member in source.keys() & _FIXED:
            source[member] = mask({name: source[member]}, marked_members)[name]
            if source.get("input"):
                # The pointers of marks have no indexes of lists.
                steps = [step for step in pointers.split(source.get("at", "")) if not step.isdigit()]
                path = (source["input"], *steps)
                source[member] = mask_part(source[member], path, sensitive_values.inputs)
    return masked
