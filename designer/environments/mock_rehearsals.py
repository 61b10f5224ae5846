"""Walk through a procedure step by step: each tool that its text calls is answered by its mock."""

import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _

from catalog.models import Call
from core.errors import DomainError
from core.schema import samples
from designer.environments import environments, mocks
from designer.models import Agent, Pin, Procedure
from designer.pins import pinned_signatures
from designer.procedures import references, step_results, steps, vocabulary
from designer.procedures.steps import ToolStep
from execution.activities.mocks.assertions import RecordedCall, Verdict
from execution.calls import call_keys
from people.models import User
from protocols.calls.arguments import inputs_schema
from protocols.signature import Signature

# The environment in which mocks answer for all tools of an agent.
ENVIRONMENT = "mocks"
# A test in one press starts no other step after so long, and then its user continues it. The last step has as
# long again.
MAX_SECONDS = 4.0


@dataclass(frozen=True)
class MockRehearsalStep:
    """A step of a rehearsal.

    number: from 1.
    call: its newest try.
    late_steps: earlier steps of the text that ran after this one, or not yet.
    carried_values: values of earlier results, by input name.
    """

    number: int
    text: ToolStep
    pin: Pin
    call: Call | None = None
    late_steps: Sequence[int] = ()
    carried_values: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def signature(self) -> Signature:
        return self.pin.version.decoded()

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return the arguments of the call; before it, the values of the text and of earlier results."""
        if self.call:
            arguments: Mapping[str, Any] = self.call.arguments
            return arguments
        inputs = {parameter.id: parameter.name for parameter in self.signature.inputs}
        text_values = {inputs[key]: value for key, value in self.text.values.items() if key in inputs}
        return {**self.carried_values, **text_values}

    @property
    def denial(self) -> str:
        """Return the output that states that nothing was done; otherwise ""."""
        is_answered = self.call is not None and self.call.outcome == "ok"
        return step_results.denial(self.call.decoded().outputs) if self.call and is_answered else ""

    @property
    def went_well(self) -> bool:
        return bool(self.call and self.call.outcome == "ok" and not self.late_steps and not self.denial)

    def complete_arguments(self, seed: int) -> Mapping[str, Any]:
        """Return the arguments with made-up values for inputs that are required and have none."""
        known_arguments = self.arguments
        if not any(
            parameter.required and parameter.name not in known_arguments
            for parameter in self.signature.inputs
        ):
            return known_arguments
        try:
            made_up = samples.generate(inputs_schema(self.signature), seed, fullness=0.0)
        except samples.UnmetSchemaError as error:
            message = _("No inputs could be generated for “{name}”: {reason} Run this step by hand.").format(
                name=self.pin.name, reason=error.why
            )
            raise DomainError("inputs_unmet", message, status=409) from error
        return {**made_up, **known_arguments} if isinstance(made_up, dict) else known_arguments


@dataclass(frozen=True)
class MockRehearsal:
    """One walk through a procedure. All users who may see the procedure see the same walk."""

    procedure: Procedure
    run: uuid.UUID
    steps: Sequence[MockRehearsalStep]

    @property
    def done(self) -> int:
        return sum(step.went_well for step in self.steps)

    @property
    def state(self) -> str:
        """Return "passed" if every step succeeded, "warning" if one that ran did not, else "not_tested"."""
        if self.steps and self.done == len(self.steps):
            return "passed"
        return "warning" if any(step.call and not step.went_well for step in self.steps) else "not_tested"

    @property
    def next(self) -> int:
        """Return the number of the first step that has not run; 0 if all have."""
        return next((step.number for step in self.steps if not step.call), 0)

    @property
    def can_continue(self) -> bool:
        """Return whether steps are left after those that have run and succeeded."""
        return 0 < self.done == self.next - 1

    @property
    def verdicts(self) -> list[Verdict]:
        agent = self.procedure.agent
        calls_made = [
            RecordedCall(step.call.pk, step.pin.name, step.call.outcome) for step in self.steps if step.call
        ]
        calls_made.sort(key=lambda call: call.id)
        return mocks.verdicts(mocks.assertions_of(agent), calls_made, mocks.names(agent))


def tool_steps_of(agent: Agent, procedure: Procedure) -> list[ToolStep]:
    """Return the calls in the procedure's text whose tools the agent still pins."""
    names = vocabulary.vocabulary_of(agent, texts=[procedure.text])
    live = {tool.pin for tool in names.tools if tool.state != "removed"}
    return [step for step in steps.steps_of(references.parse(procedure.text, names)) if step.pin in live]


def read_rehearsal(agent: Agent, procedure: Procedure, run: uuid.UUID) -> MockRehearsal:
    texts = tool_steps_of(agent, procedure)
    pins = {pin.pk: pin for pin in pinned_signatures.read_tools([agent])}
    keys = {
        call_keys.key_of_test_step(procedure.pk, str(run), number, again): number
        for number in range(1, len(texts) + 1)
        for again in range(call_keys.MAX_TRIES)
    }
    # The newest try of each step.
    rows = Call.objects.filter(key__in=keys).select_related("tool", "version").order_by("pk")
    calls_by_step: dict[int, Call] = {}
    for row in rows:
        last = row
        # The questions of the call were answered on the call's own page.
        while following := last.continued_by.select_related("tool", "version").order_by("-pk").first():
            last = following
        calls_by_step[keys[row.key]] = last
    steps: list[MockRehearsalStep] = []
    results: list[Mapping[str, Any]] = []
    for number, text in enumerate(texts, 1):
        call = calls_by_step.get(number)
        late = [
            before
            for before in range(1, number)
            if call and (before not in calls_by_step or calls_by_step[before].pk > call.pk)
        ]
        pin = pins[text.pin]
        names = [parameter.name for parameter in pin.version.decoded().inputs]
        values = step_results.values_for(names, results)
        steps.append(MockRehearsalStep(number, text, pin, call, late, values))
        if call and call.outcome == "ok":
            results.append(call.decoded().outputs)
    return MockRehearsal(procedure, run, steps)


def run_step(
    agent: Agent,
    procedure: Procedure,
    run: uuid.UUID,
    position: int,
    *,
    actor: User,
    arguments: Mapping[str, Any],
    seconds: int = mocks.STEP_SECONDS,
) -> Call:
    """Run the mock of a step. Raises DomainError, and ArgumentsError if the arguments do not fit."""
    texts = tool_steps_of(agent, procedure)
    pin = pinned_signatures.pins_of_agents([agent]).select_related("agent").get(pk=texts[position - 1].pin)
    keys = [
        call_keys.key_of_test_step(procedure.pk, str(run), position, again)
        for again in range(call_keys.MAX_TRIES)
    ]
    try_count = Call.objects.filter(key__in=keys).count()
    return mocks.call_step(
        pin,
        actor=actor,
        key=keys[min(try_count, call_keys.MAX_TRIES - 1)],
        arguments=arguments,
        seconds=seconds,
        mark=call_keys.mark_of_test(procedure.pk, run, len(texts)),
    )


def run_all_steps(agent: Agent, procedure: Procedure, run: uuid.UUID, *, actor: User) -> None:
    """Run all steps of the procedure against mocks, or those that are left of a run.

    The agent gets an environment in which mocks answer for all its tools, so that others may run in it too.
    Values come from the text, from earlier results, and otherwise from the schema of the tool. The first step
    that does not succeed is the last one. Raises DomainError; the steps before it have run. After MAX_SECONDS
    this is `too_slow`, and a request with the same `run` continues.
    """
    environment = agent.environments.filter(name=ENVIRONMENT).first()
    environment = environment or environments.create(agent, actor=actor, name=ENVIRONMENT)
    mocks.bind_all(environment, actor=actor)
    ends = time.monotonic() + MAX_SECONDS
    # Read before each step, because its arguments come from earlier results.
    while number := (rehearsal := read_rehearsal(agent, procedure, run)).next:
        if time.monotonic() > ends:
            message = _(
                "{done} of {total} steps have run so far. Choose “Run the remaining steps” to continue."
            ).format(done=rehearsal.done, total=len(rehearsal.steps))
            raise DomainError("too_slow", message, status=409)
        arguments = rehearsal.steps[number - 1].complete_arguments(number)
        seconds = math.ceil(ends + MAX_SECONDS - time.monotonic())
        call = run_step(
            agent,
            procedure,
            run,
            number,
            actor=actor,
            arguments=arguments,
            seconds=min(seconds, mocks.STEP_SECONDS),
        )
        if call.outcome != "ok":
            break
