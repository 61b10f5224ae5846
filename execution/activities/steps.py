"""Activities that call tools: `vendor` calls one, `composite` several, one after the other.

Their configuration has the same structure, and execution/activities/engine.py performs both.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Activity, ToolVersion
from catalog.models.findings import FindingState
from catalog.review import holds
from core.errors import DomainError, invalid
from execution.activities import engine, picking
from execution.activities.base import ActivityKind, ActivityWork
from execution.activities.picking import ActivityFault, ActivityStep, Reach, Steps
from protocols.call_outcome import Outcome
from protocols.signature import Signature

MAX_STEPS = 20
# A code and a sentence.
Reason = tuple[str, str]


class VendorKind(ActivityKind):
    name = "vendor"
    label = gettext_lazy("A vendor's tool")
    summary = gettext_lazy("Calls one tool of a vendor, with the names of the interface.")
    max_steps: ClassVar[int] = 1
    unclear: ClassVar[str | Promise] = gettext_lazy("Choose a version of a tool.")

    def check(self, config: Mapping[str, Any], interface: Signature | None) -> dict[str, Any]:
        steps = read_steps(config)
        faults = list(self.faults(config, interface))
        if faults:
            fields = {fault.place: fault.message for fault in reversed(faults)}
            raise DomainError(faults[0].code, faults[0].message, fields=fields)
        stored: dict[str, Any] = msgspec.to_builtins(steps)
        return stored

    def faults(self, config: Mapping[str, Any], interface: Signature | None) -> Iterator[ActivityFault]:
        steps = read_steps(config)
        if not 1 <= len(steps.steps) <= self.max_steps:
            if self.max_steps == 1:
                message = _("This kind of implementation has one step.")
            else:
                message = _("This kind of implementation has 1 to {maximum} steps.").format(
                    maximum=self.max_steps
                )
            yield ActivityFault("steps", "invalid", message)
            return
        inputs = None if interface is None else {parameter.name: parameter for parameter in interface.inputs}
        outputs: list[dict[str, Any]] = []
        for number, (step, callee) in enumerate(
            zip(steps.steps, self._signatures_of_steps(steps.steps), strict=True), 1
        ):
            place = f"steps.{number}"
            if isinstance(callee, Signature):
                reach = Reach(inputs, tuple(outputs))
                yield from picking.faults_in_inputs(f"{place}.inputs", step.inputs, callee, reach)
                outputs.append({parameter.name: parameter for parameter in callee.outputs})
            else:
                code, message = callee
                yield ActivityFault(place, code, message)
                outputs.append({})
        yield from picking.faults_in_outputs("outputs", steps.outputs, interface, Reach(inputs, outputs))

    def perform(self, work: ActivityWork) -> Outcome:
        return engine.perform(read_steps(work.config), work)

    def tools(self, config: Mapping[str, Any]) -> Sequence[tuple[int, int]]:
        return [(step.tool, step.ordinal) for step in read_steps(config).steps if step.tool]

    def activities(self, config: Mapping[str, Any]) -> Sequence[int]:
        return [step.activity for step in read_steps(config).steps if step.activity]

    def _signatures_of_steps(self, steps: Sequence[ActivityStep]) -> list[Signature | Reason]:
        """Return the signature of each step's callee, or why it cannot run. Read in a few statements."""
        tools = _of_tools({(step.tool, step.ordinal) for step in steps if step.tool})
        activities = _of_activities({step.activity for step in steps if step.activity})
        signatures: list[Signature | Reason] = []
        for step in steps:
            if bool(step.tool) == bool(step.activity) or (step.activity and self.max_steps == 1):
                signatures.append(("unclear_step", str(self.unclear)))
            else:
                signatures.append(
                    activities[step.activity] if step.activity else tools[step.tool, step.ordinal]
                )
        return signatures


class Composite(VendorKind):
    name = "composite"
    label = gettext_lazy("Several steps")
    summary = gettext_lazy("Calls tools and other implementations in order, and uses outputs as inputs.")
    max_steps = MAX_STEPS
    unclear = gettext_lazy("Choose a version of a tool, or an implementation.")


def read_steps(config: Mapping[str, Any]) -> Steps:
    """Parse a stored configuration. Raises DomainError if it does not describe steps."""
    try:
        return msgspec.convert(config, Steps)
    except msgspec.ValidationError as exc:
        raise invalid(config=f"The steps cannot be read: {exc}.") from exc


def _of_tools(keys: set[tuple[int, int]]) -> dict[tuple[int, int], Signature | Reason]:
    results: dict[tuple[int, int], Signature | Reason] = {
        (tool, ordinal): (
            "unknown_tool",
            _("There is no version {ordinal} of a tool {tool}.").format(ordinal=ordinal, tool=tool),
        )
        for tool, ordinal in keys
    }
    if not keys:
        return results
    rows = ToolVersion.objects.select_related("tool__endpoint__vendor")
    rows = rows.filter(
        tool__in={tool for tool, _unused in keys}, ordinal__in={ordinal for _unused, ordinal in keys}
    )
    versions = [row for row in rows if (row.tool_id, row.ordinal) in keys]
    states = holds.review_states(versions)
    for row in versions:
        key, tool, signature = (row.tool_id, row.ordinal), row.tool, row.decoded()
        if not tool.endpoint.is_live:
            message = _("The vendor of “{tool}” was removed, so it cannot run.")
            results[key] = "endpoint_removed", message.format(tool=tool)
        elif states.get(row.pk) == FindingState.BLOCKED:
            message = _("“{tool}” was blocked in review, so it cannot run.")
            results[key] = "version_blocked", message.format(tool=tool)
        elif note := tool.endpoint.build_protocol().why_not_run(signature):
            results[key] = note.code, note.message
        else:
            results[key] = signature
    return results


def _of_activities(keys: set[int]) -> dict[int, Signature | Reason]:
    results: dict[int, Signature | Reason] = {
        pk: ("unknown_activity", _("There is no implementation {id}.").format(id=pk)) for pk in keys
    }
    if not keys:
        return results
    rows = Activity.objects.shared().select_related("current__interface").filter(pk__in=keys)
    for row in rows.exclude(current=None):
        interface = row.current.interface if row.current else None
        message = _(
            "“{implementation}” has no interface, so its inputs are unknown. Choose an interface first."
        ).format(implementation=row)
        results[row.pk] = interface.decoded() if interface else ("activity_without_interface", message)
    return results
