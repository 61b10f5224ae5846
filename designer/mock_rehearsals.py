"""A procedure gone through step by step: each tool that its text names, answered by its mock."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from catalog.activities.mocks.assertions import Made, Verdict
from catalog.calls import call_keys
from catalog.models import Call
from designer import mocks, pinned_signatures
from designer.models import Agent, Pin, Procedure
from designer.procedures import references, step_results, steps, vocabulary
from designer.procedures.steps import ToolStep
from people.models import User
from protocols.signature import Signature

# A step may be tried again so often.
TRIES = 20


@dataclass(frozen=True)
class Step:
    """A step of a rehearsal.

    at: its number, from 1. call: the newest try of it. late: the steps that the text has before this one, and
    that ran after it or not yet. carried: values of earlier results, by the names of inputs.
    """

    at: int
    text: ToolStep
    pin: Pin
    call: Call | None = None
    late: Sequence[int] = ()
    carried: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def signature(self) -> Signature:
        return self.pin.version.decoded()

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return what it ran with; before that, what the text says and earlier results hold."""
        if self.call:
            arguments: Mapping[str, Any] = self.call.arguments
            return arguments
        inputs = {given.id: given.name for given in self.signature.inputs}
        said = {inputs[key]: value for key, value in self.text.given.items() if key in inputs}
        return {**self.carried, **said}

    @property
    def denial(self) -> str:
        """Return the output of an answer that says that nothing was done; else ""."""
        is_answered = self.call is not None and self.call.outcome == "ok"
        return step_results.denial(self.call.decoded().outputs) if self.call and is_answered else ""

    @property
    def went_well(self) -> bool:
        return bool(self.call and self.call.outcome == "ok" and not self.late and not self.denial)


@dataclass(frozen=True)
class Rehearsal:
    """One time that a procedure is gone through. Every user who may see the procedure sees the same."""

    procedure: Procedure
    run: uuid.UUID
    steps: Sequence[Step]

    @property
    def done(self) -> int:
        return sum(step.went_well for step in self.steps)

    @property
    def tone(self) -> str:
        """Return "ok" if every step went well, "warn" if one that ran did not, else "idle"."""
        if self.done == len(self.steps):
            return "ok"
        return "warn" if any(step.call and not step.went_well for step in self.steps) else "idle"

    @property
    def next(self) -> int:
        """Return the number of the first step that has not run; 0 if all have."""
        return next((step.at for step in self.steps if not step.call), 0)

    @property
    def verdicts(self) -> list[Verdict]:
        agent = self.procedure.agent
        made = [Made(step.call.pk, step.pin.name, step.call.outcome) for step in self.steps if step.call]
        made.sort(key=lambda call: call.id)
        return mocks.verdicts(mocks.asserted(agent), made, mocks.names(agent))


def texts_of(agent: Agent, procedure: Procedure) -> list[ToolStep]:
    """Return the calls that the text asks for, of tools that the agent still pins."""
    known = vocabulary.of_agent(agent, texts=[procedure.text])
    live = {tool.pin for tool in known.tools if tool.state != "removed"}
    return [step for step in steps.of(references.parse(procedure.text, known)) if step.pin in live]


def read(agent: Agent, procedure: Procedure, run: uuid.UUID) -> Rehearsal:
    texts = texts_of(agent, procedure)
    pins = {pin.pk: pin for pin in pinned_signatures.pinned([agent])}
    made = _made(procedure, run, len(texts))
    return Rehearsal(procedure, run, list(_in_order(texts, pins, made)))


def run_step(
    agent: Agent, procedure: Procedure, run: uuid.UUID, at: int, *, actor: User, arguments: Mapping[str, Any]
) -> Call:
    """Raises DomainError, and ArgumentsError where the arguments do not fit."""
    text = texts_of(agent, procedure)[at - 1]
    pin = pinned_signatures.pinned([agent]).select_related("agent").get(pk=text.pin)
    tried = Call.objects.filter(key__in=[_key(procedure, run, at, again) for again in range(TRIES)]).count()
    key = _key(procedure, run, at, min(tried, TRIES - 1))
    return mocks.call_step(pin, actor=actor, key=key, arguments=arguments)


def _in_order(texts: Sequence[ToolStep], pins: Mapping[int, Pin], made: Mapping[int, Call]) -> Iterator[Step]:
    results: list[Mapping[str, Any]] = []
    for at, text in enumerate(texts, 1):
        call = made.get(at)
        late = [
            before for before in range(1, at) if call and (before not in made or made[before].pk > call.pk)
        ]
        pin = pins[text.pin]
        names = [given.name for given in pin.version.decoded().inputs]
        yield Step(at, text, pin, call, late, step_results.taken(names, results))
        if call and call.outcome == "ok":
            results.append(call.decoded().outputs)


def _made(procedure: Procedure, run: uuid.UUID, count: int) -> dict[int, Call]:
    """Return the newest try of each step, by the number of the step."""
    keys = {_key(procedure, run, at, again): at for at in range(1, count + 1) for again in range(TRIES)}
    rows = Call.objects.filter(key__in=keys).select_related("tool", "version").order_by("pk")
    return {keys[row.key]: _newest(row) for row in rows}


def _newest(call: Call) -> Call:
    # What was asked on the way has been answered on the call's own page.
    while following := call.continued_by.select_related("tool", "version").order_by("-pk").first():
        call = following
    return call


def _key(procedure: Procedure, run: uuid.UUID, at: int, again: int) -> uuid.UUID:
    return call_keys.key_for(f"procedure:{procedure.pk}", str(run), f"{at}.{again}")
