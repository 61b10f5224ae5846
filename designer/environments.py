"""Environments of agents: which there are, what is bound in them, and what runs for a tool there.

Bindings are live, and no part of a release: to change one changes no signature, and moves no channel.
Each names one version of an activity, so an edited activity runs nowhere before someone moves the binding.
docs/environments.md has them in words.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q

import protocols
from catalog.activities import interfaces, kinds, operations, reach
from catalog.models import Activity, ActivityVersion, Call, Tool, ToolVersion
from catalog.models.tools import ItemKind
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from core.prepared_statements import run_prepared
from designer import agent_vendors, agents
from designer.exports.document import ReleasedTool
from designer.models import Agent, Binding, Environment, NamedActivity, Pin, Place, Release
from designer.resolution import ACTIVITY_REPLACED, VENDOR, Facts, Resolution, resolved
from people import audit
from people.models import ApiKey, User
from protocols.signature import Signature

NAME = re.compile("[a-z][a-z0-9-]{0,29}")
NAME_RULE = (
    "An environment's name starts with a letter and goes on with letters, digits and hyphens, all in lower "
    "case, 30 characters at most: “production”."
)
# Each is a column of a page.
MAX_ENVIRONMENTS = 10
# As choices for one tool.
MAX_OFFERED = 500
# In place of what is expected to be bound: it does not matter.
WHATEVER = "whatever"


@dataclass(frozen=True, slots=True)
class Subject:
    """A version of a tool, of which it is asked what runs for it. `name` is the one that it is defined by."""

    tool: int
    ordinal: int
    name: str
    is_own: bool

    @classmethod
    def of(cls, tool: ReleasedTool) -> "Subject":
        return cls(tool.id, tool.version.ordinal, tool.signature.wire_name, is_own(tool.protocol))

    @classmethod
    def of_version(cls, version: ToolVersion) -> "Subject":
        is_ours = is_own(version.tool.endpoint.protocol)
        return cls(version.tool_id, version.ordinal, version.decoded().name, is_ours)

    @classmethod
    def of_pin(cls, pin: Pin) -> "Subject":
        pin.version.tool = pin.tool
        return cls.of_version(pin.version)


def is_own(protocol: str) -> bool:
    # A transfer has none.
    return bool(protocol) and protocols.get(protocol).is_own


@transaction.atomic
def create(agent: Agent, *, actor: User, name: str, is_default: bool = False) -> Environment:
    agent = agents.locked(agent)
    name = name.strip()
    if not NAME.fullmatch(name):
        raise invalid(name=NAME_RULE)
    there = list(agent.environments.values_list("name", flat=True))
    if name in there:
        raise invalid(name=f"“{agent}” has an environment of this name.")
    if len(there) >= MAX_ENVIRONMENTS:
        message = f"An agent has {MAX_ENVIRONMENTS} environments at most. Remove one."
        raise DomainError("too_many_environments", message, status=409)
    made = Environment.objects.create(agent=agent, name=name)
    audit.record(actor, "create", made, after={"name": name}, agent=agent.pk)
    return make_default(made, actor=actor) if is_default else made


@transaction.atomic
def make_default(
    environment: Environment, *, actor: User, is_default: bool = True, reason: str = ""
) -> Environment:
    """From now on it is that of callers who name none; or it is so no more, and they have none."""
    environment = _locked(environment)
    if environment.is_default == is_default:
        return environment
    others = Environment.objects.filter(agent=environment.agent_id, is_default=True)
    for each in (environment, *others):
        _refuse_unprotected(each, actor)
    for other in others.exclude(pk=environment.pk):
        _set_default(other, actor, is_default=False, reason=reason)
    return _set_default(environment, actor, is_default=is_default, reason=reason)


def _set_default(environment: Environment, actor: User, *, is_default: bool, reason: str) -> Environment:
    environment.is_default = is_default
    environment.save(update_fields=["is_default"])
    before, after = {"is_default": not is_default}, {"is_default": is_default}
    agent = environment.agent_id
    audit.record(actor, "edit", environment, before=before, after=after, why=reason, agent=agent)
    return environment


@transaction.atomic
def protect(environment: Environment, *, actor: User, is_protected: bool = True) -> Environment:
    """Mark the environment as protected, or not. Only an administrator takes the mark away."""
    environment = _locked(environment)
    if environment.is_protected == is_protected:
        return environment
    _refuse_unprotected(environment, actor)
    environment.is_protected = is_protected
    environment.save(update_fields=["is_protected"])
    before, after = {"is_protected": not is_protected}, {"is_protected": is_protected}
    audit.record(actor, "edit", environment, before=before, after=after, agent=environment.agent_id)
    return environment


def _refuse_unprotected(
    environment: Environment, actor: User, version: ActivityVersion | None = None
) -> None:
    """Raise DomainError where only an administrator or a second person may do this.

    A second person is one who has not saved the `version` that would run; without one there is none.
    """
    if not environment.is_protected or actor.can_administer:
        return
    if version is None:
        message = f"“{environment.name}” is protected. Only an administrator changes this."
        raise DomainError("environment_protected", message, status=403)
    if version.created_by_id == actor.pk:
        message = (
            f"“{environment.name}” is protected, and you have saved this version. Another designer or an "
            "administrator has to bind it."
        )
        raise DomainError("environment_protected", message, status=403)


@transaction.atomic
def remove(environment: Environment, *, actor: User) -> None:
    """With its bindings. Keys and callers that name it are refused from now on.

    Raises DomainError for the default one: who names none would be served as if nothing were bound.
    """
    environment = _locked(environment)
    if environment.is_default:
        message = (
            f"“{environment.name}” is where calls run that name no environment. Make another one the default "
            "first, or say that there is none."
        )
        raise DomainError("environment_is_default", message, status=409)
    _refuse_unprotected(environment, actor)
    before = {
        "name": environment.name,
        "bindings": {str(row.tool): says(row) for row in bindings_of(environment)},
    }
    audit.record(actor, "remove", environment, before=before, agent=environment.agent_id)
    environment.delete()


@transaction.atomic
def bind(
    environment: Environment,
    tool: Tool,
    *,
    actor: User,
    activity: Activity | None,
    version: ActivityVersion | None = None,
    expected: str = WHATEVER,
    reason: str = "",
) -> Binding:
    """Bind a version of the activity to the tool in this environment; None leaves the tool to the model.

    Without `version` a binding to the same activity keeps its version, and a new one gets the newest.

    `expected` is the `state` that the actor saw: where another one is there by now, nothing is done and
    DomainError (binding_changed) says so.
    """
    environment = _locked(environment)
    kept = _kept(environment, tool, expected)
    is_same = kept is not None and kept.activity_id == (activity.pk if activity else None)
    if kept and is_same and version in (None, kept.bound_version):
        return kept
    if activity and version is None:
        # The caller's row may be older than an edit.
        version = operations.current(Activity.objects.select_related("current").get(pk=activity.pk))
    _refuse_unprotected(environment, actor, version if activity else None)
    pin = next((pin for pin in pins_of(environment.agent) if pin.tool_id == tool.pk), None)
    if pin is None:
        raise invalid(tool=f"“{environment.agent}” has no such tool.")
    if activity and version:
        check(pin, activity, version)
    before = _runs(kept) if kept else {}
    row, _ = Binding.objects.update_or_create(
        environment=environment, tool=tool, defaults={"activity": activity, "activity_version": version}
    )
    facts = {"environment": environment.name, "tool": pin.name, **_runs(row)}
    audit.record(actor, "bind", row, before=before, after=facts, why=reason, agent=environment.agent_id)
    return row


@transaction.atomic
def move_named(
    agent: Agent, tool: Tool, *, actor: User, activity: Activity, version: ActivityVersion, reason: str = ""
) -> None:
    """Have this version of the activity run by its name for the tool, in all environments of the agent in
    which nothing is bound to it."""
    agent = agents.locked(agent)
    pin = next((pin for pin in pins_of(agent) if pin.tool_id == tool.pk), None)
    if pin is None:
        raise invalid(tool=f"“{agent}” has no such tool.")
    check(pin, activity, version)
    for environment in agent.environments.all():
        _refuse_unprotected(environment, actor, version)
    kept = NamedActivity.objects.filter(agent=agent, tool=tool, name=activity.name)
    before = kept.select_related("activity_version").first()
    row, _ = NamedActivity.objects.update_or_create(
        agent=agent, tool=tool, name=activity.name, defaults={"activity_version": version}
    )
    facts = {"tool": pin.name, "runs": f"activity “{activity}”", "activity_version": version.number}
    was = {"activity_version": before.activity_version.number} if before else {}
    audit.record(actor, "bind", row, before=was, after=facts, why=reason, agent=agent.pk)


def find_named_activity(pin: Pin) -> Activity | None:
    """Return the activity that has the name by which one runs for the tool; None for a vendor's tool."""
    subject = Subject.of_pin(pin)
    if not subject.is_own:
        return None
    explicit = resolve_all(None, [subject])[subject].explicit
    if explicit == "":
        return None
    rows = Activity.objects.live().filter(agent=None, name=explicit or subject.name)
    return rows.select_related("current__interface").first()


@transaction.atomic
def move_mock(activity: Activity, *, actor: User) -> None:
    """Move the bindings to the mock of one tool to its newest version: it reaches nothing outside, and a user
    who sets a situation of it wants to see that at once. In a protected environment they stay."""
    rows = Binding.objects.filter(activity=activity, environment__is_protected=False)
    rows = rows.exclude(activity_version=activity.current)
    for row in rows.select_related("environment__agent", "tool"):
        bind(row.environment, row.tool, actor=actor, activity=activity, version=activity.current)


@transaction.atomic
def unbind(
    environment: Environment, tool: Tool, *, actor: User, expected: str = WHATEVER, reason: str = ""
) -> None:
    """Has the tool run as it does without a binding. Safe to call twice."""
    environment = _locked(environment)
    kept = _kept(environment, tool, expected)
    if kept is None:
        return
    _refuse_unprotected(environment, actor)
    before = {"environment": environment.name, "tool": str(tool), **_runs(kept)}
    audit.record(actor, "unbind", kept, before=before, why=reason, agent=environment.agent_id)
    kept.delete()


def state(binding: Binding | None) -> str:
    """What is bound, as a form and a program name it: an activity's id, `latent`, or "" for nothing."""
    if binding is None:
        return ""
    return "latent" if binding.activity_id is None else str(binding.activity_id)


def says(binding: Binding) -> str:
    return f"activity “{binding.activity}”" if binding.activity else "latent"


def _runs(binding: Binding) -> dict[str, Any]:
    version = binding.bound_version
    return {"runs": says(binding)} | ({"activity_version": version.number} if version else {})


def check(pin: Pin, activity: Activity, version: ActivityVersion) -> None:
    """Raises DomainError for a version of an activity that cannot run for this tool of an agent."""
    if activity.removed_at:
        message = f"“{activity}” was removed. Choose another activity."
        raise DomainError("activity_removed", message, fields={"activity": message}, status=409)
    if activity.agent is not None and (activity.agent, activity.tool_id) != (pin.agent_id, pin.tool_id):
        raise invalid(activity="This mock is that of another tool.")
    signature, interface = pin.version.decoded(), version.interface
    if interface and (why := interfaces.why_unfit(interface.decoded(), signature)):
        raise DomainError("activity_unfit", why, fields={"activity": why}, status=409)
    if interface is None:
        kinds.get(version.kind).check(version.config, signature)
    version.activity = activity
    agent_vendors.check_activity([pin.agent], version)


def check_name(actor: User, name: str) -> None:
    """Raises DomainError for a name by which an activity would run for tools of agents that the actor may not
    change: without a binding, a definition runs by the activity of its name, or of the one that it names."""
    if not actor.can_administer and _is_name_of_others(actor, name):
        message = (
            "Agents of other teams use a tool that is defined here and runs by the activity of this name. "
            "Choose another name, or ask an administrator to save it."
        )
        raise DomainError("forbidden", message, fields={"name": message}, status=403)


def check_change(actor: User, activity: Activity) -> None:
    """Raises DomainError for an activity that runs for tools of agents that the actor may not change: bound
    there, as a step of one that is, or by its name."""
    if actor.can_administer:
        return
    above = Activity.objects.filter(pk__in=reach.with_all_above(activity))
    bound = Binding.objects.filter(activity__in=above, environment__agent__in=Agent.objects.live())
    theirs = bound.exclude(environment__agent__in=Agent.objects.visible_to(actor))
    # By the names that they have had so far, not those that were just typed.
    if theirs.exists() or any(_is_name_of_others(actor, each.name) for each in above):
        message = (
            "Agents of other teams run this activity. Ask an administrator to change it, or save another one "
            "for your own agents."
        )
        raise DomainError("forbidden", message, status=403)


def check_removal(actor: User, activity: Activity) -> None:
    """Raise DomainError for an activity that runs in a protected environment: bound there, or by its name.

    Its removal leaves nothing that runs there, so only an administrator removes it, as with the binding.
    """
    _refuse_in_protected(actor, Q(bindings__activity=activity) | _runs_by_name(activity))


def check_renaming(actor: User, activity: Activity) -> None:
    """Raise DomainError for an activity that runs by its name in a protected environment.

    No activity would have that name, so nothing would run there. A binding does not depend on the name.
    """
    _refuse_in_protected(actor, _runs_by_name(activity))


def _runs_by_name(activity: Activity) -> Q:
    recorded = NamedActivity.objects.filter(activity_version__activity=activity, name=activity.name)
    return Q(agent__in=recorded.values("agent"))


def _refuse_in_protected(actor: User, condition: Q) -> None:
    rows = Environment.objects.filter(condition, is_protected=True, agent__in=Agent.objects.live())
    for environment in rows.distinct():
        _refuse_unprotected(environment, actor)


def _is_name_of_others(actor: User, name: str) -> bool:
    tools = [tool for (tool,) in run_prepared(_OF_THE_NAME, [name])]
    pins = Pin.objects.filter(tool__in=tools, agent__in=Agent.objects.live())
    return bool(tools) and pins.exclude(agent__in=Agent.objects.visible_to(actor)).exists()


# In any of their versions: releases hold older ones.
_OF_THE_NAME = """
    SELECT DISTINCT tool.id FROM catalog_toolversion version
    JOIN catalog_tool tool ON tool.id = version.tool_id
    JOIN catalog_endpoint endpoint ON endpoint.id = tool.endpoint_id
    JOIN catalog_vendor vendor ON vendor.id = endpoint.vendor_id
    WHERE vendor.is_own AND %s::text = coalesce(
        version.raw::jsonb #>> '{properties,_activity,const}', version.signature::jsonb ->> 'name'
    )
"""


def check_vendors(call: Call, activity: ActivityVersion) -> None:
    """Raises DomainError for an activity that its agent may not run now: what it calls, and which vendors are
    named for the agent, may have been changed since it was bound."""
    if call.agent is None:
        return
    asked = Q(pk=call.agent)
    if call.sub_agent:
        # A release calls it by the address that it had then.
        asked |= Q(slug=call.sub_agent, removed_at=None) | Q(addresses__slug=call.sub_agent)
    agent_vendors.check_activity(list(Agent.objects.filter(asked).distinct()), activity)


def bindings_of(environment: Environment) -> list[Binding]:
    return list(
        environment.bindings.select_related("tool", "activity__current", "activity_version").order_by("pk")
    )


def pins_of(agent: Agent) -> list[Pin]:
    """The tools that can be bound: those of the agent, then those of its sub-agents."""
    return [pin for pin in items_of(agent) if pin.tool.kind == ItemKind.TOOL]


def items_of(agent: Agent) -> list[Pin]:
    """The same with the pins of prompts and resources."""
    below = [each.pk for each in agents.with_all_below([agent])[agent.pk]]
    rows = Pin.objects.live().filter(agent__in=below)
    rows = rows.select_related("agent", "version", "tool__endpoint__vendor")
    return sorted(rows.defer("version__raw"), key=lambda pin: (below.index(pin.agent_id), pin.name))


@dataclass(frozen=True, slots=True)
class Bound:
    """What runs for a tool in an environment; `activity` is the one that does, or that was bound and is
    removed, and `version` the version of it."""

    pin: Pin
    environment: Environment | None
    resolution: Resolution
    binding: Binding | None = None
    version: ActivityVersion | None = None

    @property
    def activity(self) -> Activity | None:
        return self.version.activity if self.version else None

    @property
    def newer_version(self) -> ActivityVersion | None:
        """The newest version of the activity, where that is not the one that runs."""
        activity = self.activity
        if activity is None or activity.removed_at or activity.current is None:
            return None
        return activity.current if activity.current != self.version else None

    @property
    def is_bound(self) -> bool:
        return self.binding is not None

    @property
    def is_replaced(self) -> bool:
        """Nothing runs, because another activity has the name by which one ran."""
        fault = self.resolution.fault
        return fault is not None and fault.code == ACTIVITY_REPLACED


def bound_in(environment: Environment, pins: Sequence[Pin] | None = None) -> list[Bound]:
    """Of all tools of the agent, or of these."""
    pins = pins_of(environment.agent) if pins is None else pins
    return table([environment], pins)[environment.pk]


def table(places: Sequence[Environment], pins: Sequence[Pin]) -> dict[int, list[Bound]]:
    """What runs for these tools in each environment, by its primary key, in a number of statements that does
    not grow with either."""
    subjects = [Subject.of_pin(pin) for pin in pins]
    found = matrix([place.pk for place in places], subjects)
    rows = Binding.objects.filter(environment__in=places, tool__in=[pin.tool_id for pin in pins])
    rows = rows.select_related("activity__current", "activity_version")
    kept = {(row.environment_id, row.tool_id): row for row in rows}
    bound = {row.bound_version.pk for row in rows if row.bound_version}
    known = _versions(bound | {each.version for each in found.values() if each.version})
    told: dict[int, list[Bound]] = {place.pk: [] for place in places}
    for place in places:
        for pin, subject in zip(pins, subjects, strict=True):
            resolution, binding = found[place.pk, subject], kept.get((place.pk, pin.tool_id))
            bound_version = binding.bound_version if binding else None
            version = known.get(resolution.version or (bound_version.pk if bound_version else 0))
            told[place.pk].append(Bound(pin, place, resolution, binding, version))
    return told


def outside(agent: Agent, pins: Sequence[Pin]) -> list[Bound]:
    """What runs for these tools of the agent's tree where nothing is bound to them."""
    subjects = [Subject.of_pin(pin) for pin in pins]
    found = resolve_all(None, subjects, agent=agent.pk)
    known = _versions({each.version for each in found.values() if each.version})
    told = (found[subject] for subject in subjects)
    return [
        Bound(pin, None, each, None, known.get(each.version or 0))
        for pin, each in zip(pins, told, strict=True)
    ]


def _versions(keys: Iterable[int]) -> dict[int, ActivityVersion]:
    wanted = list(keys)
    rows = ActivityVersion.objects.select_related("activity__current__interface", "interface")
    return rows.in_bulk(wanted) if wanted else {}


def fitting(pins: Sequence[Pin]) -> dict[Pin, list[Activity]]:
    """The activities that can be bound to each of these tools, by name. One that names no interface may be
    refused yet when it is bound."""
    owned = Q(agent__in={pin.agent_id for pin in pins}, tool__in={pin.tool_id for pin in pins})
    rows = Activity.objects.live().filter(Q(agent=None) | owned).exclude(current=None)
    rows = rows.select_related("current__interface", "current__activity")
    rows = rows.order_by("name", "pk")[:MAX_OFFERED]
    made_for = {
        row.pk: row.current.interface.decoded() for row in rows if row.current and row.current.interface
    }
    allowed = agent_vendors.of_several({pin.agent for pin in pins})
    is_limited = any(each.limits for each in allowed.values())
    runs = reach.reached([row.current for row in rows if row.current]) if is_limited else {}

    def refusal(version: ActivityVersion, agent: Agent) -> str:
        return allowed[agent.pk].refusal_of(agent, runs[version.pk])

    told: dict[Pin, list[Activity]] = {}
    for pin in pins:
        signature, whose = pin.version.decoded(), (pin.agent_id, pin.tool_id)
        told[pin] = [
            row
            for row in rows
            if (row.agent is None or (row.agent, row.tool_id) == whose)
            and not (row.pk in made_for and interfaces.why_unfit(made_for[row.pk], signature))
            and not (is_limited and row.current and refusal(row.current, pin.agent))
        ]
    return told


def places_of(release: Release) -> list[Place]:
    """The environments of the agent, by name; those that `publishing.find` has read with the release."""
    known: list[Place] | None = getattr(release, "places", None)
    if known is None:
        rows = Environment.objects.filter(agent=release.agent_id).order_by("name")
        known = [Place(*row) for row in rows.values_list("pk", "name", "is_default")]
    return known


def chosen(release: Release, key: ApiKey | None, named: str = "") -> Place | None:
    """Where a call runs: as it says, as its key has it, else in the default environment, if there is one.

    Raises DomainError for an environment that there is not: nothing runs at a vendor in its place.
    """
    places = places_of(release)
    of_key = key.environment if key else ""
    if of_key and named and named != of_key:
        message = f"This API key runs tools in “{of_key}” and in no other environment."
        raise DomainError("environment_of_key", message, fields={"environment": message}, status=403)
    if wanted := of_key or named:
        found = next((place for place in places if place.name == wanted), None)
        if found is None:
            raise _unknown(release, wanted, places, is_of_key=bool(of_key))
        return found
    return next((place for place in places if place.is_default), None)


def _unknown(release: Release, name: str, places: Sequence[Place], *, is_of_key: bool) -> DomainError:
    there = ", ".join(place.name for place in places) or "none yet"
    message = f"“{release.agent}” has no environment “{printable(name, 60)}”. It has: {there}."
    if is_of_key:
        message += " This API key names it, so make it again, or make another key."
        return DomainError("unknown_environment", message, status=409)
    return DomainError("unknown_environment", message, fields={"environment": message})


def resolve(place: Place | None, subject: Subject, *, agent: int) -> Resolution:
    """What runs for one tool there. Raises DomainError where nothing does."""
    found = resolve_all(place, [subject], agent=agent)[subject]
    if found.fault:
        raise found.fault
    return found


def version_of(found: Resolution) -> ActivityVersion | None:
    """The version of an activity that runs; None where none does."""
    if found.version is None:
        return None
    return ActivityVersion.objects.select_related("activity").get(pk=found.version)


def record_named(agent: int, found: Mapping[Subject, Resolution]) -> None:
    """Record the versions that run by their names from now on for the tools of this agent, where none are
    recorded yet."""
    NamedActivity.objects.bulk_create(
        (
            NamedActivity(
                agent_id=agent,
                tool_id=subject.tool,
                name=each.unrecorded_name,
                activity_version_id=each.version or 0,
            )
            for subject, each in found.items()
            if each.unrecorded_name
        ),
        ignore_conflicts=True,
    )


def of_users_of(tool: Tool, reader: User) -> list[Environment]:
    """The environments of the agents that have pinned the tool, of those that the reader sees."""
    rows = Environment.objects.filter(agent__in=agents.that_use(tool))
    rows = rows.filter(agent__in=Agent.objects.live().visible_to(reader)).select_related("agent")
    return list(rows.order_by("agent__name", "pk"))


def bindings_to(activities: Iterable[Activity], reader: User) -> tuple[list[Binding], dict[int, int]]:
    """Where these activities are bound, of what the reader sees; and in how many places beside that, by
    activity."""
    rows = Binding.objects.filter(activity__in=list(activities), environment__agent__removed_at=None)
    seen = rows.filter(environment__agent__in=Agent.objects.live().visible_to(reader))
    shown = list(seen.select_related("environment__agent", "tool").order_by("environment__agent__name", "pk"))
    beside: dict[int, int] = {}
    for pk in rows.exclude(pk__in=[row.pk for row in shown]).values_list("activity", flat=True):
        beside[pk] = beside.get(pk, 0) + 1
    return shown, beside


def resolve_all(
    place: Place | None, subjects: Iterable[Subject], *, agent: int = 0
) -> dict[Subject, Resolution]:
    """By one statement, and by none where nothing was decided for any of them.

    `agent` is the primary key of the one that was published; 0 where a tool is tried for none.
    """
    asked = list(dict.fromkeys(subjects))
    # One that was removed since it was chosen has no bindings any more, and must not run as if it had none.
    known = [each for each in asked if place or each.is_own]
    facts = _facts([place.pk] if place else [0], known, agent) if known else {}
    pk = place.pk if place else 0
    return {each: resolved(facts[pk, each]) if (pk, each) in facts else VENDOR for each in asked}


def matrix(
    places: Sequence[int], subjects: Sequence[Subject], *, agent: int = 0
) -> Mapping[tuple[int, Subject], Resolution]:
    """The same in several environments by their primary keys; 0 is outside of all."""
    return {which: resolved(facts) for which, facts in _facts(places, subjects, agent).items()}


def _facts(
    places: Sequence[int], subjects: Sequence[Subject], agent: int
) -> dict[tuple[int, Subject], Facts]:
    rows = run_prepared(
        _READ,
        [
            [each.tool for each in subjects],
            [each.ordinal for each in subjects],
            [each.name for each in subjects],
            [each.is_own for each in subjects],
            list(places),
            agent,
        ],
    )
    # A release may hold a version that is not there any more.
    unfit = _unfit({(version, tool) for *_, version, tool, is_asked in rows if is_asked and version and tool})
    return {
        (place, subjects[index - 1]): Facts(
            is_there=is_there,
            is_own=subjects[index - 1].is_own,
            is_bound=is_bound,
            activity=activity,
            is_removed=is_removed,
            explicit=explicit,
            named=named,
            version=version,
            name=name,
            is_recorded=is_recorded,
            is_replaced=is_replaced,
            unfit=unfit.get((version, tool), ""),
        )
        for index, place, is_there, is_bound, activity, is_removed, explicit, named, *recorded in rows
        for name, is_recorded, is_replaced, version, tool, _ in [recorded]
    }


# Versions of activities that fit versions of tools, by their keys: neither ever changes.
_fits: set[tuple[int, int]] = set()
MAX_KEPT = 10_000


def _unfit(pairs: set[tuple[int, int]]) -> dict[tuple[int, int], str]:
    # Why the version of an activity cannot run for that of a tool; without a statement where all is known.
    asked = pairs - _fits
    if not asked:
        return {}
    made = ActivityVersion.objects.select_related("interface").in_bulk({version for version, _ in asked})
    tools = ToolVersion.objects.in_bulk({tool for _, tool in asked})
    told = {pair: why for pair in asked if (why := _why_unfit(made[pair[0]], tools[pair[1]].decoded()))}
    if len(_fits) > MAX_KEPT:
        _fits.clear()
    _fits.update(asked - told.keys())
    return told


def _why_unfit(version: ActivityVersion, tool: Signature) -> str:
    if version.interface:
        return interfaces.why_unfit(version.interface.decoded(), tool)
    return next((fault.message for fault in kinds.get(version.kind).faults(version.config, tool)), "")


_READ = """
    SELECT asked.index, place.id, place.id = 0 OR environment.id IS NOT NULL,
        binding.id IS NOT NULL, bound.id, bound.removed_at IS NOT NULL,
        definition.explicit, named.id,
        coalesce(nullif(definition.explicit, ''), asked.name), recorded.id IS NOT NULL,
        recorded.id IS NOT NULL AND kept.id IS NULL,
        runs.id, version.id,
        -- What was made for this very version fits, and the mock of a tool in one agent follows the tool.
        runs.interface_id IS DISTINCT FROM version.id AND (binding.id IS NULL OR bound.agent IS NULL)
    FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::boolean[])
        WITH ORDINALITY AS asked (tool, ordinal, name, is_own, index)
    CROSS JOIN unnest(%s::bigint[]) AS place (id)
    LEFT JOIN catalog_toolversion version ON version.tool_id = asked.tool AND version.ordinal = asked.ordinal
    LEFT JOIN designer_environment environment ON environment.id = place.id
    LEFT JOIN designer_binding binding ON binding.environment_id = place.id AND binding.tool_id = asked.tool
    LEFT JOIN catalog_activity bound ON bound.id = binding.activity_id
    LEFT JOIN catalog_activityversion pinned ON pinned.id = binding.activity_version_id
        AND pinned.activity_id = bound.id
    LEFT JOIN LATERAL (
        SELECT CASE WHEN asked.is_own THEN version.raw::jsonb #>> '{properties,_activity,const}' END
            AS explicit
    ) definition ON true
    LEFT JOIN catalog_activity named ON asked.is_own AND named.agent IS NULL AND named.removed_at IS NULL
        AND named.name = coalesce(nullif(definition.explicit, ''), asked.name)
    LEFT JOIN designer_namedactivity recorded ON binding.id IS NULL AND named.id IS NOT NULL
        AND recorded.agent_id = coalesce(environment.agent_id, %s) AND recorded.tool_id = asked.tool
        AND recorded.name = coalesce(nullif(definition.explicit, ''), asked.name)
    LEFT JOIN catalog_activityversion kept ON kept.id = recorded.activity_version_id
        AND kept.activity_id = named.id
    LEFT JOIN catalog_activityversion runs ON runs.id = CASE
        WHEN binding.id IS NULL THEN coalesce(kept.id, named.current_id)
        ELSE coalesce(pinned.id, bound.current_id) END
"""


def _locked(environment: Environment) -> Environment:
    # Under the lock of its agent, as all edits of it are.
    agent = agents.locked(environment.agent)
    found = Environment.objects.filter(pk=environment.pk).first()
    if found is None:
        message = f"“{environment.name}” has been removed."
        raise DomainError("environment_removed", message, status=409)
    found.agent = agent
    return found


def _kept(environment: Environment, tool: Tool, expected: str) -> Binding | None:
    rows = environment.bindings.select_related("tool", "activity__current", "activity_version")
    kept = rows.filter(tool=tool).first()
    if expected not in (WHATEVER, state(kept)):
        now = says(kept) if kept else "nothing"
        message = (
            f"What is bound to “{tool}” in “{environment.name}” has changed since you opened this: it is "
            f"{now} now. Look at it, then decide again."
        )
        raise DomainError("binding_changed", message, status=409)
    return kept
