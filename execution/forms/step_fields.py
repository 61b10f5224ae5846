"""A form for an activity that calls tools: its steps, and the source of each value."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import msgspec
from django.utils.translation import gettext_lazy as _

from catalog.rules.sensitive_values import MASK
from core.outbound.errors import printable
from execution.activities import mapping, steps
from execution.activities.callees import Callee, CalleeReference, CalleesByReference
from execution.activities.mapping import MappingProposal, ParameterPair
from execution.activities.picking import ActivityStep, Source, Steps
from execution.calls import results
from execution.forms import source_rows
from execution.forms.activity_fields import (
    SPARE,
    ActivityDraft,
    ActivityEditor,
    count_of,
    parse_sources,
    reference_of,
    signature_of,
)
from execution.forms.argument_forms import JSON_FIELD, SETTINGS_PREFIX, make_settings_form
from execution.forms.source_rows import Origin, Posted, SourceRow
from protocols.signature import Parameter, Signature

REASONS = {"id": _("same id"), "name": _("same name"), "meaning": _("similar meaning, to be checked")}
FIT = {
    "same": "",
    "converted": _(", converted"),
    "perhaps": _(", perhaps: it depends on the value"),
    "no": "",
}


@dataclass(frozen=True, slots=True)
class Block:
    """One step with its rows."""

    number: int
    reference: CalleeReference
    callee: Callee | None
    rows: Sequence[SourceRow]
    faults: Sequence[str]
    is_first: bool
    is_last: bool

    @property
    def index(self) -> int:
        return self.number - 1


class StepsEditor(ActivityEditor):
    template: ClassVar[str] = "catalog/_activity_steps.html"

    @classmethod
    def empty(cls) -> Steps:
        return Steps([])

    @classmethod
    def parse_draft(cls, data: Posted, callees: CalleesByReference) -> ActivityDraft:
        interface = CalleeReference.parse(data.get("interface", ""))
        steps = []
        for index in range(count_of(data, "steps")):
            prefix = f"steps-{index}-inputs"
            reference = CalleeReference.parse(data.get(f"steps-{index}-calls", ""))
            if reference is None:
                continue
            callee, signature = callees.get(reference), signature_of(reference, callees)
            targets = source_rows.by_name(signature.inputs) if signature else {}
            sources = parse_sources(data, prefix, targets)
            if callee and callee.configuration:
                sources |= _parse_settings(data, prefix, callee.configuration)
            steps.append(ActivityStep(**reference._asdict(), inputs=sources))
        signature = signature_of(interface, callees)
        outputs = source_rows.by_name(signature.outputs) if signature else {}
        config = Steps(steps, parse_sources(data, "outputs", outputs))
        return ActivityDraft(data.get("name", ""), interface, config)

    @classmethod
    def applied(cls, draft: ActivityDraft, act: str, kind: str, callees: CalleesByReference) -> ActivityDraft:
        """Choose the interface, or add, replace, move or remove a step.

        act: "add-REFERENCE", "replace-INDEX-REFERENCE", "up-INDEX", "down-INDEX" or "drop-INDEX".
        """
        verb, _unused, operands = act.partition("-")
        reference, config = CalleeReference.parse(operands.rpartition("-")[2]), cast(Steps, draft.config)
        index = int(operands.partition("-")[0]) if operands[:1].isdecimal() else -1
        new_steps = list(config.steps)
        if verb == "add" and reference:
            signature, callee_signature = (
                signature_of(draft.interface, callees),
                signature_of(reference, callees),
            )
            proposal = (
                mapping.propose(signature, callee_signature) if signature and callee_signature else None
            )
            step = ActivityStep(**reference._asdict(), inputs=dict(proposal.inputs) if proposal else {})
            new_steps = [step] if kind == "vendor" else [*new_steps, step][: steps.MAX_STEPS]
            outputs = dict(config.outputs)
            if proposal and not outputs:
                outputs = {
                    name: msgspec.structs.replace(source, step=len(new_steps))
                    for name, source in proposal.outputs.items()
                }
            return replace(draft, config=Steps(new_steps, outputs))
        if verb == "replace" and reference and 0 <= index < len(new_steps):
            new_steps[index] = msgspec.structs.replace(
                new_steps[index], tool=reference.tool, ordinal=reference.ordinal
            )
            return replace(draft, config=Steps(new_steps, config.outputs))
        new_index = {"up": index - 1, "down": index + 1, "drop": 0}.get(verb, -1)
        if not 0 <= index < len(new_steps) or not 0 <= new_index < len(new_steps):
            return super().applied(draft, act, kind, callees)
        order = [other for other in range(len(new_steps)) if other != index]
        if verb != "drop":
            order.insert(new_index, index)
        return replace(draft, config=_reorder_steps(config, order))

    @property
    def max_steps(self) -> int:
        return steps.MAX_STEPS if self.kind.name == "composite" else 1

    @property
    def steps(self) -> list[ActivityStep]:
        return cast(Steps, self.draft.config).steps

    @property
    def can_add(self) -> bool:
        return len(self.steps) < self.max_steps

    def blocks(self) -> list[Block]:
        origins, blocks = [*self.inputs()], []
        for number, step in enumerate(self.steps, 1):
            callee = self.known.get(reference_of(step))
            signature = callee.signature if callee else None
            proposal = self._propose_mapping(signature)
            rows = self.rows(
                f"steps-{number - 1}-inputs",
                f"steps.{number}.inputs",
                step.inputs,
                signature.inputs if signature else (),
                origins,
                proposed=_with_reasons(proposal.inputs, proposal.pairs[: len(proposal.inputs)])
                if proposal
                else {},
            )
            if callee and callee.configuration:
                rows = [self._with_settings(row, callee.configuration) for row in rows]
            blocks.append(
                Block(
                    number,
                    reference_of(step),
                    callee,
                    rows,
                    self.messages_at(f"steps.{number}"),
                    number == 1,
                    number == len(self.steps),
                )
            )
            if callee and signature:
                origins = [*origins, self._build_origin(number, callee, signature)]
        return blocks

    def outputs(self) -> list[SourceRow]:
        origins = [*self.inputs()]
        for number, step in enumerate(self.steps, 1):
            callee = self.known.get(reference_of(step))
            if callee and callee.signature:
                origins.append(self._build_origin(number, callee, callee.signature))
        declared_outputs = self.signature.outputs if self.signature else ()
        first_callee = self.known.get(reference_of(self.steps[0])) if self.steps else None
        proposal = (
            self._propose_mapping(first_callee.signature) if first_callee and self.max_steps == 1 else None
        )
        return self.rows(
            "outputs",
            "outputs",
            cast(Steps, self.draft.config).outputs,
            declared_outputs,
            origins,
            spare=0 if declared_outputs else SPARE,
            proposed=_with_reasons(proposal.outputs, proposal.pairs[len(proposal.inputs) :])
            if proposal
            else {},
        )

    def _build_origin(self, number: int, callee: Callee, signature: Signature) -> Origin:
        name, is_only = printable(callee.name, 60), self.max_steps == 1
        if is_only:
            label = _("Outputs of {tool}").format(tool=name)
        else:
            label = _("Step {number}: {tool}").format(number=number, tool=name)
        return Origin(label, number, signature.outputs, signature.outputs_rest, is_only)

    def _with_settings(self, row: SourceRow, configuration: Parameter) -> SourceRow:
        """Return the row with a form for the configuration of the tool, if it is the row of that input."""
        if row.name != configuration.name:
            return row
        prefix = _settings_prefix(row.prefix)
        # A button that moves steps gives them other numbers.
        is_sent = f"{prefix}-{JSON_FIELD}" in self.data and not self.act.startswith(("up-", "down-", "drop-"))
        value = row.source.value if row.source else None
        form = make_settings_form(
            configuration, self.data if is_sent else None, prefix=prefix, settings=value
        )
        return replace(row, settings=form)

    def _propose_mapping(self, signature: Signature | None) -> MappingProposal | None:
        return mapping.propose(self.signature, signature) if signature and self.signature else None


def _with_reasons(
    proposed: Mapping[str, Source], pairs: Iterable[ParameterPair]
) -> dict[str, tuple[Source, str]]:
    """Return each proposed source with the reason for it."""
    return {pair.to: (proposed[pair.to], f"{REASONS[pair.reason]}{FIT[pair.fit]}") for pair in pairs}


def _parse_settings(data: Posted, prefix: str, configuration: Parameter) -> dict[str, Source]:
    """Return the source of the configuration, if the user has entered a fixed one in its form."""
    for index in range(count_of(data, prefix)):
        row = f"{prefix}-{index}"
        is_fixed = data.get(f"{row}-from") == source_rows.FIXED
        if data.get(f"{row}-name") != configuration.name or not is_fixed:
            continue
        if f"{_settings_prefix(row)}-{JSON_FIELD}" in data:
            form = make_settings_form(configuration, data, prefix=_settings_prefix(row), settings=None)
            # A mask fits no number, and the activity replaces it by the stored value.
            is_readable = form.is_valid() or all(
                form.data.get(form.add_prefix(name)) == MASK for name in form.errors
            )
            # Other values are refused as a text, and shown again as they were entered.
            value = results.answer_of(form.signature, form.arguments) if is_readable else ""
            return {configuration.name: Source(value=value)}
    return {}


def _settings_prefix(row: str) -> str:
    return f"{row}-{SETTINGS_PREFIX}"


def _reorder_steps(config: Steps, order: Sequence[int]) -> Steps:
    """Return the steps at these indexes, in this order.

    Sources follow the steps that they refer to. Sources that refer to a removed step are removed.
    """
    new_numbers = {old + 1: new for new, old in enumerate(order, 1)}

    def renumber(sources: Mapping[str, Source]) -> dict[str, Source]:
        return {
            name: msgspec.structs.replace(source, step=new_numbers.get(source.step, source.step))
            for name, source in sources.items()
            if not source.step or source.step in new_numbers
        }

    new_steps = [
        msgspec.structs.replace(config.steps[index], inputs=renumber(config.steps[index].inputs))
        for index in order
    ]
    return Steps(new_steps, renumber(config.outputs))
