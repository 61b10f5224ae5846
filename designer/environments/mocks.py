"""Mocks of an agent's tools: their answers, the calls that they received, and assertions about these.

The mock of a tool is an activity of one agent. Its calls are those that it answered.
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
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Activity, ActivityVersion, Call
from catalog.rules.sensitive_values import restore
from core.compiled_queries import PreparedQuery, is_any_of
from core.errors import DomainError, invalid
from designer.agents import agents
from designer.environments import bound_tools, environments
from designer.models import Agent, Environment, MockAssertions, Pin
from designer.pins import pinned_signatures
from execution.activities import operations
from execution.activities.mocks import answers, assertions
from execution.activities.mocks.answers import Mock, MockReply
from execution.activities.mocks.assertions import AnyAssertion, Assertion, RecordedCall, Verdict
from execution.activities.mocks.situations import SITUATIONS
from execution.calls import invocation, requesting
from people import audit
from people.audit import edit_conflicts
from people.models import User
from protocols.calls import outcomes

KIND = "mock"
NOTHING: Mapping[str, Any] = {}
SEED: "models.BigIntegerField[int, int]" = models.BigIntegerField(
    gettext_lazy("Seed"),
    blank=True,
    validators=[MinValueValidator(0), MaxValueValidator(answers.MAX_SEED)],
    help_text=gettext_lazy(
        "The same seed and inputs give the same answer. Another number gives other answers."
    ),
)
# The environment and the tool of a filter of calls.
ENVIRONMENT: "models.CharField[str, str]" = models.CharField(
    gettext_lazy("Environment"), max_length=60, blank=True
)
TOOL: "models.CharField[str, str]" = models.CharField(
    gettext_lazy("Tool"), max_length=assertions.MAX_NAME_LENGTH, blank=True
)
# Number of the newest calls that assertions are checked against.
MAX_CHECKED_CALLS = 10_000
# A page waits for the call this long.
STEP_SECONDS = 8


@dataclass(frozen=True)
class MockedTool:
    """A pinned tool with its mock. Without an `activity` nothing is stored, and the mock would generate its
    answers.
    """

    pin: Pin
    activity: Activity | None

    @property
    def config(self) -> Mapping[str, Any]:
        return operations.current(self.activity).config if self.activity else NOTHING

    @cached_property
    def mock(self) -> Mock:
        return answers.read_mock(self.config)

    @cached_property
    def problems(self) -> Mapping[str, str]:
        """Return the problems of the mock with the pinned version, as sentences by position."""
        return dict(answers.misfits(self.mock, self.pin.version.decoded()))

    @property
    def active_situations(self) -> list[str]:
        """Return the labels of the situations that are switched on."""
        return [_(situation.label) for situation in self.mock.situations if situation.is_on]

    @property
    def facts(self) -> dict[str, Any]:
        return operations.facts(self.activity) if self.activity else {"config": {}}


@dataclass(frozen=True)
class CallFilter:
    """Selects calls by API key, environment, tool and time span. None selects all."""

    key: int | None = None
    environment: str | None = None
    tool: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def mocked_tools(agent: Agent) -> list[MockedTool]:
    """Return all tools of the agent, with the mocks that some have."""
    pins = pinned_signatures.read_tools([agent])
    rows = Activity.objects.live().filter(agent=agent.pk).select_related("current__interface")
    saved = {row.tool_id: row for row in rows}
    return [MockedTool(pin, saved.get(pin.tool_id)) for pin in pins]


def mock_of_pin(pin: Pin) -> MockedTool:
    """Return the pin's tool with its mock. `pin` has its version."""
    rows = Activity.objects.live().filter(agent=pin.agent_id, tool=pin.tool_id)
    return MockedTool(pin, rows.select_related("current__interface").first())


@transaction.atomic
def save(
    pin: Pin, *, actor: User, config: Mapping[str, Any], expected: str = edit_conflicts.ANY_STATE
) -> MockedTool:
    """Set the mock of this tool. A masked value stays as it is stored. Raises DomainError."""
    agents.lock_agent(pin.agent)
    mocked = mock_of_pin(pin)
    config = restore(dict(config), dict(mocked.config))
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


def copy_mock(pin: Pin, target: Pin, *, actor: User) -> None:
    """Copy the mock of a pin, if it has one, to the pin of a copied agent, without checks."""
    if (activity := mock_of_pin(pin).activity) is None:
        return
    current_version = operations.current(activity)
    operations.create(
        actor=actor,
        name=f"Mock of {target.name}",
        kind=KIND,
        config=current_version.config,
        interface=current_version.interface,
        agent=target.agent_id,
        tool=target.tool,
    )


def copy_assertions(agent: Agent, target: Agent, *, actor: User) -> None:
    """Copy the assertions about tools that the copy has. The copy has all its tools already."""
    tool_names = set(names(target).values())
    copied = [assertion for assertion in assertions_of(agent) if tool_names.issuperset(assertion.tools)]
    set_assertions(target, actor=actor, documents=msgspec.to_builtins(copied))


def edit(
    pin: Pin,
    *,
    actor: User,
    change: Callable[[dict[str, Any]], Mapping[str, Any]],
    expected: str = edit_conflicts.ANY_STATE,
) -> MockedTool:
    """Apply `change` to the stored mock. Raises DomainError."""
    with transaction.atomic():
        agents.lock_agent(pin.agent)
        config = {"seed": 0, "examples": [], "situations": [], **copy.deepcopy(mock_of_pin(pin).config)}
        return save(pin, actor=actor, config=change(config), expected=expected)


def switch(pin: Pin, *, actor: User, switches: Mapping[str, bool]) -> MockedTool:
    """Switch situations on or off, by name. The rest of the mock stays unchanged."""
    situation_names = [str(situation.__struct_config__.tag) for situation in SITUATIONS]
    if unknown := [name for name in switches if name not in situation_names]:
        raise invalid(
            switch=_("There is no situation “{situation}”. Choose one of: {choices}.").format(
                situation=unknown[0], choices=", ".join(situation_names)
            )
        )

    def switched(config: dict[str, Any]) -> dict[str, Any]:
        for name, is_on in switches.items():
            rows = [row for row in config["situations"] if row["name"] == name]
            if not rows:
                config["situations"].append({"name": name, "switch": is_on})
            for row in rows:
                row["switch"] = is_on
        return config

    return edit(pin, actor=actor, change=switched)


@transaction.atomic
def bind_all(environment: Environment, *, actor: User) -> int:
    """Bind mocks to all tools in this environment. Return the number of bound tools."""
    agents.lock_agent(environment.agent)
    places, count = bound_tools.tools_bound_in(environment), 0
    fields: dict[str, str] = {}
    for place in places:
        if place.is_bound and place.activity and operations.current(place.activity).kind == KIND:
            continue
        mocked = mock_of_pin(place.pin)
        try:
            with transaction.atomic():
                if mocked.activity is None:
                    mocked = save(place.pin, actor=actor, config={})
                environments.bind(environment, place.pin.tool, actor=actor, activity=mocked.activity)
        except DomainError as error:
            fields[place.pin.name] = error.message
        count += 1
    if fields:
        message = _("Nothing was changed: {names} cannot use a mock yet. Set it up first.").format(
            names=", ".join(fields)
        )
        raise DomainError("mocks_unmet", message, fields=fields, status=409)
    return count


def preview(pin: Pin, config: Mapping[str, Any], arguments: Mapping[str, Any]) -> MockReply:
    """Return the answer of a mock with this `config`. Nothing is stored. Raises DomainError."""
    signature = pin.version.decoded()
    mock = answers.read_mock(answers.check(config, signature))
    if refusal := outcomes.refusal(signature, arguments):
        return MockReply(refusal, _("The inputs are not valid, so the mock was not called."))
    return answers.reply(mock, signature, arguments)


def call_step(
    pin: Pin,
    *,
    actor: User,
    key: uuid.UUID,
    arguments: Mapping[str, Any],
    seconds: int = STEP_SECONDS,
    mark: str = "",
) -> Call:
    """Call the tool's mock now and return the call. A tool without a mock gets one. Raises DomainError."""
    mocked = mock_of_pin(pin)
    if mocked.activity is None or not mocked.mock.examples:
        # The vendor's newest answer becomes its example, if that fits the pinned version.
        vendor_call = vendor_calls(pin, actor).order_by("-pk").first()
        if vendor_call and (outputs := vendor_call.decoded().outputs):
            config = {**mocked.config, "examples": [{"arguments": {}, "outputs": outputs}]}
            with suppress(DomainError):
                mocked = save(pin, actor=actor, config=config)
        if mocked.activity is None:
            mocked = save(pin, actor=actor, config={})
    activity = operations.current(mocked.activity) if mocked.activity else None
    version = requesting.find_version(pin.tool_id, pin.version.ordinal) or pin.version
    return invocation.call_now(
        version,
        actor=actor,
        arguments=arguments,
        activity=activity,
        key=key,
        deadline_seconds=seconds,
        mark=mark,
    )


def vendor_calls(pin: Pin, user: User) -> QuerySet[Call]:
    """Return the calls that the vendor answered, as far as the user may see them.

    Steps of activities are none of them, because they may repeat sensitive values of other tools.
    """
    return pin.tool.calls.visible_to(user).filter(outcome="ok", activity=None, parent=None)


def calls(agent: Agent, call_filter: CallFilter) -> QuerySet[Call]:
    """Return the calls that mocks answered for this agent."""
    mocks = ActivityVersion.objects.filter(kind=KIND)
    # The agent's releases also run tools of sub-agents, and mocks that all agents may use.
    answered_by_own_mock = Q(activity__in=mocks.filter(activity__agent=agent.pk))
    rows = Call.objects.filter(answered_by_own_mock | Q(activity__in=mocks, agent=agent.pk))
    if call_filter.key is not None:
        rows = rows.filter(api_key=call_filter.key)
    if call_filter.environment is not None:
        rows = rows.filter(environment=call_filter.environment)
    if call_filter.tool is not None:
        rows = rows.filter(tool__in=[tool for tool, name in names(agent).items() if name == call_filter.tool])
    if call_filter.since is not None:
        rows = rows.filter(queued_at__gte=call_filter.since)
    if call_filter.until is not None:
        rows = rows.filter(queued_at__lt=call_filter.until)
    return rows


def names(agent: Agent) -> dict[int, str]:
    """Return the names of the agent's tools and of its sub-agents' tools, by tool id."""
    tree = agents.with_all_below([agent])[agent.pk]
    rows = _TOOL_NAMES.rows(agents=[row.pk for row in tree])
    # An agent's own name for a tool takes precedence.
    return {tool: name for owner, tool, name in sorted(rows, key=lambda row: row[0] == agent.pk)}


_TOOL_NAMES: PreparedQuery[tuple[int, int, str]] = PreparedQuery(
    lambda: (
        Pin.objects.live()
        .of_tools()
        .filter(is_any_of("designer_pin.agent_id", "agents"))
        .values_list("agent_id", "tool_id", "name")
    )
)


def assertions_of(agent: Agent) -> list[Assertion]:
    row = MockAssertions.objects.filter(agent=agent).first()
    return msgspec.convert(row.said, list[AnyAssertion]) if row else []


def read_assertions(agent: Agent, documents: Sequence[Mapping[str, Any]]) -> list[Assertion]:
    """Parse assertions. Raises DomainError if one is invalid or names a tool that the agent does not have."""
    if len(documents) > assertions.MAX_ASSERTIONS:
        raise invalid(
            assertions=_("Enter up to {max_assertions} assertions.").format(
                max_assertions=assertions.MAX_ASSERTIONS
            )
        )
    tool_names, parsed, faults = set(names(agent).values()), [], {}
    for number, document in enumerate(documents):
        try:
            assertion: Assertion = msgspec.convert(dict(document), AnyAssertion)
        except msgspec.ValidationError as error:
            faults[f"assertions.{number}"] = str(error).replace("`", "") + "."
            continue
        parsed.append(assertion)
        if unknown := [name for name in assertion.tools if name not in tool_names]:
            faults[f"assertions.{number}"] = _("The agent has no tool “{name}”.").format(name=unknown[0])
    if faults:
        raise invalid(**faults)
    return parsed


@transaction.atomic
def set_assertions(agent: Agent, *, actor: User, documents: Sequence[Mapping[str, Any]]) -> list[Assertion]:
    """Replace the agent's assertions. Raises DomainError."""
    agent = agents.lock_agent(agent)
    parsed, before = read_assertions(agent, documents), assertions_of(agent)
    if parsed != before:
        MockAssertions.objects.update_or_create(agent=agent, defaults={"said": msgspec.to_builtins(parsed)})
        facts = [
            {"mock_assertions": [assertion.sentence for assertion in group]} for group in (before, parsed)
        ]
        audit.record(actor, "edit", agent, before=facts[0], after=facts[1], agent=agent.pk)
    return parsed


def check_assertions(agent: Agent, assertions: Sequence[Assertion], call_filter: CallFilter) -> list[Verdict]:
    """Check the assertions against the calls of the agent's mocks. A call and its continuations count as
    one.
    """
    if not assertions:
        return []
    tool_names = names(agent)
    newest = calls(agent, call_filter).order_by("-pk").values_list("pk", "tool_id", "outcome", "continues_id")
    first_call: dict[int, int] = {}
    calls_by_first: dict[int, RecordedCall] = {}
    for pk, tool, outcome, continues in reversed(newest[:MAX_CHECKED_CALLS]):
        first_call[pk] = first_call.get(continues or 0, pk)
        calls_by_first[first_call[pk]] = RecordedCall(first_call[pk], tool_names.get(tool, ""), outcome)
    return verdicts(assertions, list(calls_by_first.values()), tool_names)


def verdicts(
    assertions: Sequence[Assertion], calls: Sequence[RecordedCall], tool_names: Mapping[int, str]
) -> list[Verdict]:
    """Check the assertions against these calls, with the agent's tool `names`."""
    results = []
    for assertion in assertions:
        # A renamed or removed tool yields no statement about what the agent did.
        missing = next((name for name in assertion.tools if name not in tool_names.values()), None)
        message = _("The agent has no tool “{name}” any more.").format(name=missing)
        results.append(Verdict(assertion, False, message, ()) if missing else assertion.judge(calls))
    return results
