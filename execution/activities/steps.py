"""Activities that call tools: `vendor` calls one, `composite` one after the other.

What they are set up with is one shape, and execution/activities/engine.py performs both.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from catalog.models import Activity, ToolVersion
from catalog.models.findings import FindingState
from catalog.review import holds
from core.errors import DomainError, invalid
from execution.activities import engine, picking
from execution.activities.base import Kind, Work
from execution.activities.picking import Fault, Reach, Step, Steps
from protocols.base import Outcome
from protocols.signature import Signature

MAX_STEPS = 20
# A code and a sentence.
Why = tuple[str, str]


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
        for number, (step, found) in enumerate(
            zip(steps.steps, self._signatures(steps.steps), strict=True), 1
        ):
            place = f"steps.{number}"
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

    def _signatures(self, made: Sequence[Step]) -> list[Signature | Why]:
        # Of what each step calls; or why it cannot run. Read in a few statements, however many there are.
        tools = _of_tools({(step.tool, step.ordinal) for step in made if step.tool})
        activities = _of_activities({step.activity for step in made if step.activity})
        found: list[Signature | Why] = []
        for step in made:
            if bool(step.tool) == bool(step.activity) or (step.activity and self.most == 1):
                found.append(("unclear_step", self.unclear))
            else:
                found.append(activities[step.activity] if step.activity else tools[step.tool, step.ordinal])
        return found


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


def _of_tools(asked: set[tuple[int, int]]) -> dict[tuple[int, int], Signature | Why]:
    told: dict[tuple[int, int], Signature | Why] = {
        (tool, ordinal): ("unknown_tool", f"There is no version {ordinal} of a tool {tool}.")
        for tool, ordinal in asked
    }
    if not asked:
        return told
    rows = ToolVersion.objects.select_related("tool__endpoint__vendor")
    rows = rows.filter(tool__in={tool for tool, _ in asked}, ordinal__in={ordinal for _, ordinal in asked})
    versions = [row for row in rows if (row.tool_id, row.ordinal) in asked]
    states = holds.review_states(versions)
    for row in versions:
        told[row.tool_id, row.ordinal] = _why_not(row, states.get(row.pk)) or row.decoded()
    return told


def _why_not(version: ToolVersion, state: FindingState | None) -> Why | None:
    if not version.tool.endpoint.is_live:
        return "endpoint_removed", f"The vendor of “{version.tool}” was removed, so it cannot run."
    if state == FindingState.BLOCKED:
        return "version_blocked", f"“{version.tool}” was blocked in review, so it cannot run."
    note = version.tool.endpoint.speak().why_not_run(version.decoded())
    return (note.code, note.message) if note else None


def _of_activities(asked: set[int]) -> dict[int, Signature | Why]:
    told: dict[int, Signature | Why] = {
        pk: ("unknown_activity", f"There is no activity {pk}.") for pk in asked
    }
    if not asked:
        return told
    rows = Activity.objects.shared().select_related("current__interface").filter(pk__in=asked)
    for row in rows.exclude(current=None):
        interface = row.current.interface if row.current else None
        message = f"“{row}” has no interface, so nothing says what it takes. Give it one first."
        told[row.pk] = interface.decoded() if interface else ("activity_without_interface", message)
    return told
