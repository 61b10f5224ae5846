"""Mocks of an agent's tools: what each answers, what was asked of them, and what has to be true of that.

The mock of a tool is an activity of this agent alone. What was asked of it are the calls that it answered.
"""

import copy
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import Q, QuerySet

from catalog.activities import operations
from catalog.activities.mocks import answers, assertions
from catalog.activities.mocks.answers import Mock, Reply
from catalog.activities.mocks.assertions import AnyAssertion, Assertion, Made, Verdict
from catalog.activities.mocks.situations import SITUATIONS
from catalog.calls import invocation, versions
from catalog.models import Activity, ActivityVersion, Call
from core.errors import DomainError, invalid
from designer import agents, environments, pinned_signatures
from designer.models import Agent, Environment, MockAssertions, Pin
from people import audit
from people.audit import edit_conflicts
from people.models import User
from protocols.calls import outcomes

KIND = "mock"
NOTHING: Mapping[str, Any] = {}
# Of the newest calls, when assertions are judged.
MAX_JUDGED = 10_000
# Of a call that a page waits for.
STEP_SECONDS = 20


@dataclass(frozen=True)
class MockedTool:
    """The mock of one pinned tool. Without an `activity` nothing is saved: it would make its answers up."""

    pin: Pin
    activity: Activity | None

    @property
    def config(self) -> Mapping[str, Any]:
        return operations.current(self.activity).config if self.activity else NOTHING

    @cached_property
    def mock(self) -> Mock:
        return answers.read(self.config)

    @cached_property
    def problems(self) -> Mapping[str, str]:
        """What in it does not fit the version that is pinned now: by place, sentences."""
        return dict(answers.misfits(self.mock, self.pin.version.decoded()))

    @property
    def is_on(self) -> list[str]:
        """The situations that some call meets, as people read them."""
        return [situation.label for situation in self.mock.situations if situation.is_on]

    @property
    def facts(self) -> dict[str, Any]:
        return operations.facts(self.activity) if self.activity else {"config": {}}


@dataclass(frozen=True)
class Asked:
    """Which calls: with an API key, in an environment, of one tool, in a span of time. None takes all."""

    key: int | None = None
    environment: str | None = None
    tool: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def of(agent: Agent) -> list[MockedTool]:
    """All tools of the agent, with the mocks that some have."""
    pins = list(pinned_signatures.pinned([agent]).order_by("name"))
    rows = Activity.objects.live().filter(agent=agent.pk).select_related("current__interface")
    saved = {row.tool_id: row for row in rows}
    return [MockedTool(pin, saved.get(pin.tool_id)) for pin in pins]


def of_pin(pin: Pin) -> MockedTool:
    """`pin` with its version."""
    rows = Activity.objects.live().filter(agent=pin.agent_id, tool=pin.tool_id)
    return MockedTool(pin, rows.select_related("current__interface").first())


@transaction.atomic
def save(
    pin: Pin, *, actor: User, config: Mapping[str, Any], expected: str = edit_conflicts.ANY_STATE
) -> MockedTool:
    """What the mock of this tool answers from now on. Raises DomainError."""
    agents.locked(pin.agent)
    mocked = of_pin(pin)
    if mocked.activity is None:
        activity = operations.create(
            actor=actor,
            name=f"Mock of {pin.name}",
            kind=KIND,
            config=config,
            interface=pin.version,
            agent=pin.agent_id,
            tool=pin.tool,
        )
    else:
        activity = operations.change(
            mocked.activity, actor=actor, config=config, interface=pin.version, expected=expected
        )
        environments.move_mock(activity, actor=actor)
    return MockedTool(pin, activity)


def copy_mock(pin: Pin, to: Pin, *, actor: User) -> None:
    """Gives the pin of a copied agent the mock that its original has, if any, with what stands against it."""
    if (activity := of_pin(pin).activity) is None:
        return
    now = operations.current(activity)
    operations.create(
        actor=actor,
        name=f"Mock of {to.name}",
        kind=KIND,
        config=now.config,
        interface=now.interface,
        agent=to.agent_id,
        tool=to.tool,
    )


def copy_assertions(agent: Agent, to: Agent, *, actor: User) -> None:
    """Those that speak of tools which the copy has, once it has all of them."""
    known = set(names(to).values())
    kept = [each for each in asserted(agent) if known.issuperset(each.tools)]
    set_assertions(to, actor=actor, said=msgspec.to_builtins(kept))


def edit(
    pin: Pin,
    *,
    actor: User,
    change: Callable[[dict[str, Any]], Mapping[str, Any]],
    expected: str = edit_conflicts.ANY_STATE,
) -> MockedTool:
    """What `change` makes of what is saved. Raises DomainError."""
    with transaction.atomic():
        agents.locked(pin.agent)
        now = {"seed": 0, "examples": [], "situations": [], **copy.deepcopy(of_pin(pin).config)}
        return save(pin, actor=actor, config=change(now), expected=expected)


def switch(pin: Pin, *, actor: User, switches: Mapping[str, bool]) -> MockedTool:
    """Situations on or off, by their names; the rest of the mock stays as it is."""
    known = [str(each.__struct_config__.tag) for each in SITUATIONS]
    if unknown := [name for name in switches if name not in known]:
        raise invalid(switch=f"There is no situation “{unknown[0]}”. Take one of: {', '.join(known)}.")

    def switched(config: dict[str, Any]) -> dict[str, Any]:
        for name, is_on in switches.items():
            named = [each for each in config["situations"] if each["name"] == name]
            if not named:
                config["situations"].append({"name": name, "switch": is_on})
            for each in named:
                each["switch"] = is_on
        return config

    return edit(pin, actor=actor, change=switched)


@transaction.atomic
def bind_all(environment: Environment, *, actor: User) -> int:
    """Has mocks answer for all tools in this environment, and says for how many more than before. A tool that
    a mock answers for keeps it. Raises DomainError, with nothing bound, where a tool can have no mock as it
    is: it would run at its vendor among others that do not."""
    agents.locked(environment.agent)
    places, count = environments.bound_in(environment), 0
    fields: dict[str, str] = {}
    for place in places:
        if place.is_bound and place.activity and operations.current(place.activity).kind == KIND:
            continue
        mocked = of_pin(place.pin)
        try:
            with transaction.atomic():
                if mocked.activity is None:
                    mocked = save(place.pin, actor=actor, config={})
                environments.bind(environment, place.pin.tool, actor=actor, activity=mocked.activity)
        except DomainError as error:
            fields[place.pin.name] = error.message
        count += 1
    if fields:
        message = f"Nothing was bound: {', '.join(fields)} cannot have a mock as it is. Set it up first."
        raise DomainError("mocks_unmet", message, fields=fields, status=409)
    return count


def preview(pin: Pin, config: Mapping[str, Any], arguments: Mapping[str, Any]) -> Reply:
    """What a mock of this `config` would answer. Nothing is kept. Raises DomainError."""
    signature = pin.version.decoded()
    mock = answers.read(answers.check(config, signature))
    if refusal := outcomes.refusal(signature, arguments):
        return Reply(refusal, "The inputs do not fit, so no mock is asked.")
    return answers.reply(mock, signature, arguments)


def call_step(
    pin: Pin, *, actor: User, key: uuid.UUID, arguments: Mapping[str, Any], seconds: int = STEP_SECONDS
) -> Call:
    """A call of the tool that its mock answers, made now. One without a mock gets it. Raises DomainError.

    A mock without an example gets the newest answer of a real call as one, if there is one that still fits.
    """
    mocked = of_pin(pin)
    if mocked.activity is None or not mocked.mock.examples:
        mocked = _with_real_answer(mocked, actor)
    activity = operations.current(mocked.activity) if mocked.activity else None
    version = versions.find(pin.tool_id, pin.version.ordinal) or pin.version
    return invocation.call_now(
        version,
        actor=actor,
        arguments=arguments,
        activity=activity,
        key=key,
        deadline_seconds=seconds,
    )


def real_calls(pin: Pin, user: User) -> QuerySet[Call]:
    """Return the calls that the vendor has answered, of those that the user may see."""
    return pin.tool.calls.visible_to(user).filter(outcome="ok", activity=None)


def _with_real_answer(mocked: MockedTool, actor: User) -> MockedTool:
    """Return the mock, saved; the newest real answer is its example, if it fits the pinned version."""
    pin = mocked.pin
    call = real_calls(pin, actor).order_by("-pk").first()
    outputs = call.decoded().outputs if call else {}
    if outputs:
        config = {**mocked.config, "examples": [{"arguments": {}, "outputs": outputs}]}
        with suppress(DomainError):
            return save(pin, actor=actor, config=config)
    return mocked if mocked.activity else save(pin, actor=actor, config={})


def calls(agent: Agent, asked: Asked) -> QuerySet[Call]:
    """Calls that mocks answered for this agent."""
    mocks = ActivityVersion.objects.filter(kind=KIND)
    # Its releases run tools of sub-agents, too, and mocks that all agents may use.
    own = Q(activity__in=mocks.filter(activity__agent=agent.pk))
    rows = Call.objects.filter(own | Q(activity__in=mocks, agent=agent.pk))
    if asked.key is not None:
        rows = rows.filter(api_key=asked.key)
    if asked.environment is not None:
        rows = rows.filter(environment=asked.environment)
    if asked.tool is not None:
        rows = rows.filter(tool__in=[tool for tool, name in names(agent).items() if name == asked.tool])
    if asked.since is not None:
        rows = rows.filter(queued_at__gte=asked.since)
    if asked.until is not None:
        rows = rows.filter(queued_at__lt=asked.until)
    return rows


def names(agent: Agent) -> dict[int, str]:
    """What the agent calls its tools, or one below it does, by the ids of the tools."""
    pins = Pin.objects.live().of_tools().filter(agent__in=agents.with_all_below([agent])[agent.pk])
    below = pins.exclude(agent=agent).values_list("tool_id", "name")
    return dict(below) | dict(pins.filter(agent=agent).values_list("tool_id", "name"))


def asserted(agent: Agent) -> list[Assertion]:
    row = MockAssertions.objects.filter(agent=agent).first()
    return msgspec.convert(row.said, list[AnyAssertion]) if row else []


def read_assertions(agent: Agent, said: Sequence[Mapping[str, Any]]) -> list[Assertion]:
    """Raises DomainError for what is no assertion, or speaks of a tool that the agent does not have."""
    if len(said) > assertions.MAX_ASSERTIONS:
        raise invalid(assertions=f"Give up to {assertions.MAX_ASSERTIONS} assertions.")
    known, read, faults = set(names(agent).values()), [], {}
    for number, each in enumerate(said):
        try:
            one: Assertion = msgspec.convert(dict(each), AnyAssertion)
        except msgspec.ValidationError as error:
            faults[f"assertions.{number}"] = str(error).replace("`", "") + "."
            continue
        read.append(one)
        if unknown := [name for name in one.tools if name not in known]:
            faults[f"assertions.{number}"] = f"The agent has no tool “{unknown[0]}”."
    if faults:
        raise invalid(**faults)
    return read


@transaction.atomic
def set_assertions(agent: Agent, *, actor: User, said: Sequence[Mapping[str, Any]]) -> list[Assertion]:
    """In place of those that were kept. Raises DomainError."""
    agent = agents.locked(agent)
    read, before = read_assertions(agent, said), asserted(agent)
    if read != before:
        MockAssertions.objects.update_or_create(agent=agent, defaults={"said": msgspec.to_builtins(read)})
        facts = [{"mock_assertions": [each.says for each in some]} for some in (before, read)]
        audit.record(actor, "edit", agent, before=facts[0], after=facts[1], agent=agent.pk)
    return read


def judged(agent: Agent, asserted: Sequence[Assertion], asked: Asked) -> list[Verdict]:
    """Each assertion by the calls of the agent's mocks. A call that was gone on with counts as one."""
    named = names(agent)
    newest = calls(agent, asked).order_by("-pk").values_list("pk", "tool_id", "outcome", "continues_id")
    first: dict[int, int] = {}
    made: dict[int, Made] = {}
    for pk, tool, outcome, continues in reversed(newest[:MAX_JUDGED]):
        first[pk] = first.get(continues or 0, pk)
        made[first[pk]] = Made(first[pk], named.get(tool, ""), outcome)
    return verdicts(asserted, list(made.values()), named)


def verdicts(asserted: Sequence[Assertion], made: Sequence[Made], named: Mapping[int, str]) -> list[Verdict]:
    """Each assertion by these calls, where `names` of the agent are these."""
    return [_without(each, named) or each.judge(made) for each in asserted]


def _without(assertion: Assertion, named: Mapping[int, str]) -> Verdict | None:
    # A tool may have another name by now, or none, and then says nothing of what an agent did.
    gone = [name for name in assertion.tools if name not in named.values()]
    return Verdict(assertion, False, f"The agent has no tool “{gone[0]}” any more.", ()) if gone else None
