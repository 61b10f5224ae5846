"""Activities that call tools: `vendor` calls one, `composite` one after the other.

What they are set up with is one shape, and catalog/activities/engine.py performs both.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from catalog.activities import engine, picking
from catalog.activities.base import Kind, Work
from catalog.activities.picking import Fault, Reach, Step, Steps
from catalog.models import Activity, ToolVersion
from catalog.models.findings import FindingState
from catalog.protocols.base import Outcome
from catalog.protocols.signature import Signature
from catalog.review import holds
from core.errors import DomainError, invalid

MAX_STEPS = 20


class Vendor(Kind):
    name = "vendor"
    label = "A vendor's tool"
    summary = "Calls one tool of a vendor, under the names of the interface."
    most: ClassVar[int] = 1
    unclear: ClassVar[str] = "Choose a version of a tool."

    def check(self, config: Mapping[str, Any], interface: Signature | None) -> dict[str, Any]:
        steps = read(config)
        faults = list(self.faults(config, interface))
        if faults:
            fields = {fault.place: fault.message for fault in reversed(faults)}
            raise DomainError(faults[0].code, faults[0].message, fields=fields)
        kept: dict[str, Any] = msgspec.to_builtins(steps)
        return kept

    def faults(self, config: Mapping[str, Any], interface: Signature | None) -> Iterator[Fault]:
        steps = read(config)
        if not 1 <= len(steps.steps) <= self.most:
            what = "one step" if self.most == 1 else f"1 to {self.most} steps"
            yield Fault("steps", "invalid", f"This kind of activity has {what}.")
            return
        inputs = None if interface is None else {each.name: each for each in interface.inputs}
        outputs: list[dict[str, Any]] = []
        for number, step in enumerate(steps.steps, 1):
            place = f"steps.{number}"
            found = self._signature(step)
            if isinstance(found, Signature):
                reach = Reach(inputs, tuple(outputs))
                yield from picking.faults_in_inputs(f"{place}.inputs", step.inputs, found, reach)
                outputs.append({each.name: each for each in found.outputs})
            else:
                code, message = found
                yield Fault(place, code, message)
                outputs.append({})
        yield from picking.faults_in_outputs("outputs", steps.outputs, interface, Reach(inputs, outputs))

    def perform(self, work: Work) -> Outcome:
        return engine.perform(read(work.config), work)

    def tools(self, config: Mapping[str, Any]) -> Sequence[tuple[int, int]]:
        return [(step.tool, step.ordinal) for step in read(config).steps if step.tool]

    def activities(self, config: Mapping[str, Any]) -> Sequence[int]:
        return [step.activity for step in read(config).steps if step.activity]

    def _signature(self, step: Step) -> Signature | tuple[str, str]:
        # Of what the step calls; or why it cannot run, as a code and a sentence.
        if bool(step.tool) == bool(step.activity) or (step.activity and self.most == 1):
            return "unclear_step", self.unclear
        return _of_activity(step.activity) if step.activity else _of_tool(step.tool, step.ordinal)


class Composite(Vendor):
    name = "composite"
    label = "Several steps"
    summary = "Calls tools and other activities one after the other, and hands outputs on as inputs."
    most = MAX_STEPS
    unclear = "Choose a version of a tool, or an activity."


def read(config: Mapping[str, Any]) -> Steps:
    """Raises DomainError for what is no configuration of steps."""
    try:
        return msgspec.convert(config, Steps)
    except msgspec.ValidationError as exc:
        raise invalid(config=f"The steps cannot be read: {exc}.") from exc


def _of_tool(tool: int, ordinal: int) -> Signature | tuple[str, str]:
    versions = ToolVersion.objects.select_related("tool__endpoint__vendor")
    version = versions.filter(tool=tool, ordinal=ordinal).first()
    if version is None:
        return "unknown_tool", f"There is no version {ordinal} of a tool {tool}."
    if not version.tool.endpoint.is_live:
        return "endpoint_removed", f"The vendor of “{version.tool}” was removed, so it cannot run."
    if FindingState.BLOCKED in holds.review_states([version]).values():
        return "version_blocked", f"“{version.tool}” was blocked in review, so it cannot run."
    if note := version.tool.endpoint.speak().why_not_run(version.decoded()):
        return note.code, note.message
    return version.decoded()


def _of_activity(activity: int) -> Signature | tuple[str, str]:
    rows = Activity.objects.shared().select_related("current__interface")
    found = rows.filter(pk=activity).first()
    if found is None or found.current is None:
        return "unknown_activity", f"There is no activity {activity}."
    if found.current.interface is None:
        message = f"“{found}” has no interface, so nothing says what it takes. Give it one first."
        return "activity_without_interface", message
    return found.current.interface.decoded()
