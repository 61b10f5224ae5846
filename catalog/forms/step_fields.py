"""An activity that calls tools, as a person sets it up: its steps, and where each value comes from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import msgspec

from catalog.activities import mapping, steps
from catalog.activities.callees import Callee, Known, Reference
from catalog.activities.mapping import Pair, Proposal
from catalog.activities.picking import Source, Step, Steps
from catalog.forms import source_rows
from catalog.forms.activity_fields import (
    SPARE,
    Draft,
    Editor,
    count_of,
    reference_of,
    signature_of,
    sources,
)
from catalog.forms.source_rows import Origin, Posted, Row
from core.outbound.errors import printable
from protocols.signature import Signature

WHY = {"id": "same id", "name": "same name", "meaning": "similar meaning, to be checked"}
FIT = {"same": "", "converted": ", converted", "perhaps": ", perhaps: it depends on the value", "no": ""}


@dataclass(frozen=True, slots=True)
class Block:
    """One step with its rows."""

    number: int
    reference: Reference
    callee: Callee | None
    rows: Sequence[Row]
    faults: Sequence[str]
    is_first: bool
    is_last: bool

    @property
    def index(self) -> int:
        return self.number - 1


class StepsEditor(Editor):
    template: ClassVar[str] = "catalog/_activity_steps.html"

    @classmethod
    def empty(cls) -> Steps:
        return Steps([])

    @classmethod
    def read(cls, data: Posted, known: Known) -> Draft:
        interface = Reference.read(data.get("interface", ""))
        made = [_step(data, f"steps-{at}", known) for at in range(count_of(data, "steps"))]
        signature = signature_of(interface, known)
        promised = source_rows.named(signature.outputs) if signature else {}
        config = Steps([step for step in made if step], sources(data, "outputs", promised))
        return Draft(data.get("name", ""), interface, config)

    @classmethod
    def applied(cls, draft: Draft, act: str, kind: str, known: Known) -> Draft:
        """Chooses, adds, moves or takes away."""
        verb, _, rest = act.partition("-")
        reference, config = Reference.read(rest.rpartition("-")[2]), cast(Steps, draft.config)
        at, made = int(rest.partition("-")[0]) if rest[:1].isdecimal() else -1, list(config.steps)
        if verb == "add" and reference:
            step = _proposed(reference, draft.interface, known)
            made = [step] if kind == "vendor" else [*made, step][: steps.MAX_STEPS]
            outputs = config.outputs or _proposed_outputs(reference, draft.interface, known, len(made))
            return replace(draft, config=Steps(made, dict(outputs)))
        if verb == "replace" and reference and 0 <= at < len(made):
            made[at] = msgspec.structs.replace(made[at], tool=reference.tool, ordinal=reference.ordinal)
            return replace(draft, config=Steps(made, config.outputs))
        other = {"up": at - 1, "down": at + 1, "drop": 0}.get(verb, -1)
        if not 0 <= at < len(made) or not 0 <= other < len(made):
            return super().applied(draft, act, kind, known)
        order = [number for number in range(len(made)) if number != at]
        if verb != "drop":
            order.insert(other, at)
        return replace(draft, config=_in_order(config, order))

    @property
    def most(self) -> int:
        return steps.MAX_STEPS if self.kind.name == "composite" else 1

    @property
    def steps(self) -> list[Step]:
        return cast(Steps, self.draft.config).steps

    @property
    def can_add(self) -> bool:
        return len(self.steps) < self.most

    def blocks(self) -> list[Block]:
        origins, found = [*self.inputs()], []
        for number, step in enumerate(self.steps, 1):
            callee = self.known.get(reference_of(step))
            signature = callee.signature if callee else None
            proposal = self._proposal(signature)
            rows = self.rows(
                f"steps-{number - 1}-inputs",
                f"steps.{number}.inputs",
                step.inputs,
                signature.inputs if signature else (),
                origins,
                proposed=_told(proposal.inputs, proposal.pairs[: len(proposal.inputs)]) if proposal else {},
            )
            found.append(
                Block(
                    number,
                    reference_of(step),
                    callee,
                    rows,
                    self.said(f"steps.{number}"),
                    number == 1,
                    number == len(self.steps),
                )
            )
            if callee and signature:
                origins = [*origins, self._origin(number, callee, signature)]
        return found

    def outputs(self) -> list[Row]:
        origins = [*self.inputs()]
        for number, step in enumerate(self.steps, 1):
            callee = self.known.get(reference_of(step))
            if callee and callee.signature:
                origins.append(self._origin(number, callee, callee.signature))
        promised = self.signature.outputs if self.signature else ()
        first = self.known.get(reference_of(self.steps[0])) if self.steps else None
        proposal = self._proposal(first.signature) if first and self.most == 1 else None
        return self.rows(
            "outputs",
            "outputs",
            cast(Steps, self.draft.config).outputs,
            promised,
            origins,
            spare=0 if promised else SPARE,
            proposed=_told(proposal.outputs, proposal.pairs[len(proposal.inputs) :]) if proposal else {},
        )

    def _origin(self, number: int, callee: Callee, signature: Signature) -> Origin:
        name, is_only = printable(callee.name, 60), self.most == 1
        label = f"Outputs of {name}" if is_only else f"Step {number}: {name}"
        return Origin(label, number, signature.outputs, signature.outputs_rest, is_only)

    def _proposal(self, signature: Signature | None) -> Proposal | None:
        return mapping.propose(self.signature, signature) if signature and self.signature else None


def _told(proposed: Mapping[str, Source], pairs: Iterable[Pair]) -> dict[str, tuple[Source, str]]:
    """What was proposed, with why in a few words."""
    return {pair.to: (proposed[pair.to], f"{WHY[pair.why]}{FIT[pair.fit]}") for pair in pairs}


def _step(data: Posted, prefix: str, known: Known) -> Step | None:
    reference = Reference.read(data.get(f"{prefix}-calls", ""))
    if reference is None:
        return None
    signature = signature_of(reference, known)
    targets = source_rows.named(signature.inputs) if signature else {}
    return Step(**reference._asdict(), inputs=sources(data, f"{prefix}-inputs", targets))


def _proposed(reference: Reference, interface: Reference | None, known: Known) -> Step:
    signature, wanted = signature_of(interface, known), signature_of(reference, known)
    inputs = mapping.propose(signature, wanted).inputs if signature and wanted else {}
    return Step(**reference._asdict(), inputs=dict(inputs))


def _proposed_outputs(
    reference: Reference, interface: Reference | None, known: Known, number: int
) -> dict[str, Source]:
    signature, given = signature_of(interface, known), signature_of(reference, known)
    found = mapping.propose(signature, given).outputs if signature and given else {}
    return {name: msgspec.structs.replace(source, step=number) for name, source in found.items()}


def _in_order(config: Steps, order: Sequence[int]) -> Steps:
    """The steps at these places, with sources that still mean the same steps; those of a step that is gone
    go with it."""
    now = {old + 1: new for new, old in enumerate(order, 1)}

    def moved(sources: Mapping[str, Source]) -> dict[str, Source]:
        return {
            name: msgspec.structs.replace(source, step=now[source.step]) if source.step in now else source
            for name, source in sources.items()
            if not source.step or source.step in now
        }

    made = [msgspec.structs.replace(config.steps[at], inputs=moved(config.steps[at].inputs)) for at in order]
    return Steps(made, moved(config.outputs))
