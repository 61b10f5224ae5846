"""Environments of agents, their bindings, and the activity that runs for a tool in each.

Bindings take effect at once and are not part of a release: changing one changes no signature and moves no
channel.
Each binding refers to one version of an activity, so an edited activity runs nowhere until someone moves the
binding.
docs/environments.md describes them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

import protocols
from catalog.models import Activity, ActivityVersion, Call, Tool, ToolVersion
from catalog.models.tools import ItemKind
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from core.prepared_statements import run_prepared
from designer.agents import agent_vendors, agents
from designer.environments.resolution import ACTIVITY_REPLACED, VENDOR, Facts, Resolution, resolve_facts
from designer.exports.document import ReleasedTool
from designer.models import Agent, Binding, CallEnvironment, Environment, NamedActivity, Pin, Release
from designer.pins import pinned_signatures
from execution.activities import interfaces, kinds, operations, reach
from people import audit
from people.models import ApiKey, User

NAME = re.compile("[a-z][a-z0-9-]{0,29}")
NAME_RULE = gettext_lazy(
    "An environment's name starts with a letter and contains only letters, digits and hyphens, all in lower "
    "case, 30 characters at most: “production”."
)
# Each environment is a column of a page.
MAX_ENVIRONMENTS = 10
# Number of choices for one tool.
MAX_CHOICES = 500
# Passed as `expected` if the current binding does not matter.
WHATEVER = "whatever"


@dataclass(frozen=True, slots=True)
class Subject:
    """A version of a tool that an activity may run for. `name` is the name in the tool's definition."""

    tool: int
    ordinal: int
    name: str
    is_own: bool

    @classmethod
    def of_released(cls, tool: ReleasedTool) -> "Subject":
        return cls(tool.id, tool.version.ordinal, tool.signature.wire_name, is_own(tool.protocol))

    @classmethod
    def of_version(cls, version: ToolVersion) -> "Subject":
        is_own_tool = is_own(version.tool.endpoint.protocol)
        return cls(version.tool_id, version.ordinal, version.decoded().name, is_own_tool)

    @classmethod
    def of_pin(cls, pin: Pin) -> "Subject":
        pin.version.tool = pin.tool
        return cls.of_version(pin.version)


def is_own(protocol: str) -> bool:
    # A transfer has no protocol.
    return bool(protocol) and protocols.get(protocol).is_own


@transaction.atomic
def create(agent: Agent, *, actor: User, name: str, is_default: bool = False) -> Environment:
    agent = agents.locked(agent)
    name = name.strip()
    if not NAME.fullmatch(name):
        raise invalid(name=str(NAME_RULE))
    names = list(agent.environments.values_list("name", flat=True))
    if name in names:
        raise invalid(name=_("“{agent}” has an environment of this name.").format(agent=agent))
    if len(names) >= MAX_ENVIRONMENTS:
        message = _("An agent has at most {max_environments} environments. Remove one first.").format(
            max_environments=MAX_ENVIRONMENTS
        )
        raise DomainError("too_many_environments", message, status=409)
    environment = Environment.objects.create(agent=agent, name=name)
    audit.record(actor, "create", environment, after={"name": name}, agent=agent.pk)
    return make_default(environment, actor=actor) if is_default else environment


@transaction.atomic
def make_default(
    environment: Environment, *, actor: User, is_default: bool = True, reason: str = ""
) -> Environment:
    """Make the environment the default of callers that name none, or withdraw that."""
    environment = _locked(environment)
    if environment.is_default == is_default:
        return environment
    others = Environment.objects.filter(agent=environment.agent_id, is_default=True)
    for row in (environment, *others):
        _check_protection(row, actor)
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
    """Mark the environment as protected, or not. Only an administrator removes the mark."""
    environment = _locked(environment)
    if environment.is_protected == is_protected:
        return environment
    _check_protection(environment, actor)
    environment.is_protected = is_protected
    environment.save(update_fields=["is_protected"])
    before, after = {"is_protected": not is_protected}, {"is_protected": is_protected}
    audit.record(actor, "edit", environment, before=before, after=after, agent=environment.agent_id)
    return environment


def _check_protection(environment: Environment, actor: User, version: ActivityVersion | None = None) -> None:
    """Raise DomainError if only an administrator or a second person may do this."""
    if not environment.is_protected or actor.can_administer:
        return
    if version is None:
        message = _("“{name}” is protected. Only an administrator changes this.").format(
            name=environment.name
        )
        raise DomainError("environment_protected", message, status=403)
    if version.created_by_id == actor.pk:
        message = _(
            "“{name}” is protected, and you have saved this version. Another designer or an "
            "administrator has to choose it."
        ).format(name=environment.name)
        raise DomainError("environment_protected", message, status=403)


@transaction.atomic
def remove(environment: Environment, *, actor: User) -> None:
    """Remove the environment with its bindings. Keys and callers that name it are refused from then on.

    Raises DomainError for the default environment: callers that name none would run as if nothing were bound.
    """
    environment = _locked(environment)
    if environment.is_default:
        message = _(
            "Calls that name no environment run in “{name}”. Make another one the default first, or "
            "remove the default."
        ).format(name=environment.name)
        raise DomainError("environment_is_default", message, status=409)
    _check_protection(environment, actor)
    before = {
        "name": environment.name,
        "bindings": {str(row.tool): describe_binding(row) for row in bindings_of(environment)},
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

    version: if None, a binding to the same activity keeps its version, and a new one gets the newest.
    expected: the `state` that the actor saw. Raises DomainError (binding_changed) if it has changed since.
    """
    environment = _locked(environment)
    binding_before = _find_binding(environment, tool, expected)
    is_same = binding_before is not None and binding_before.activity_id == (activity.pk if activity else None)
    if binding_before and is_same and version in (None, binding_before.bound_version):
        return binding_before
    if activity and version is None:
        # The caller's row may be older than an edit.
        version = operations.current(Activity.objects.select_related("current").get(pk=activity.pk))
    _check_protection(environment, actor, version if activity else None)
    pin = next((pin for pin in pins_of(environment.agent) if pin.tool_id == tool.pk), None)
    if pin is None:
        raise invalid(tool=_("“{agent}” has no such tool.").format(agent=environment.agent))
    if activity and version:
        check(pin, activity, version)
    before = _binding_facts(binding_before) if binding_before else {}
    row = Binding.objects.update_or_create(
        environment=environment, tool=tool, defaults={"activity": activity, "activity_version": version}
    )[0]
    facts = {"environment": environment.name, "tool": pin.name, **_binding_facts(row)}
    audit.record(actor, "bind", row, before=before, after=facts, why=reason, agent=environment.agent_id)
    return row


@transaction.atomic
def move_named(
    agent: Agent, tool: Tool, *, actor: User, activity: Activity, version: ActivityVersion, reason: str = ""
) -> None:
    """Run this version of the activity by name for the tool, in all environments of the agent where the tool
    has no binding.
    """
    agent = agents.locked(agent)
    pin = next((pin for pin in pins_of(agent) if pin.tool_id == tool.pk), None)
    if pin is None:
        raise invalid(tool=_("“{agent}” has no such tool.").format(agent=agent))
    check(pin, activity, version)
    for environment in agent.environments.all():
        _check_protection(environment, actor, version)
    named_rows = NamedActivity.objects.filter(agent=agent, tool=tool, name=activity.name)
    before = named_rows.select_related("activity_version").first()
    row = NamedActivity.objects.update_or_create(
        agent=agent, tool=tool, name=activity.name, defaults={"activity_version": version}
    )[0]
    facts = {"tool": pin.name, "runs": f"implementation “{activity}”", "activity_version": version.number}
    facts_before = {"activity_version": before.activity_version.number} if before else {}
    audit.record(actor, "bind", row, before=facts_before, after=facts, why=reason, agent=agent.pk)


def find_named_activity(pin: Pin) -> Activity | None:
    """Return the activity with the name by which the tool runs; None for a vendor's tool."""
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
    """Move the bindings of one tool's mock to its newest version, except in protected environments."""
    rows = Binding.objects.filter(activity=activity, environment__is_protected=False)
    rows = rows.exclude(activity_version=activity.current)
    for row in rows.select_related("environment__agent", "tool"):
        bind(row.environment, row.tool, actor=actor, activity=activity, version=activity.current)


@transaction.atomic
def unbind(
    environment: Environment, tool: Tool, *, actor: User, expected: str = WHATEVER, reason: str = ""
) -> None:
    """Remove the tool's binding. Idempotent."""
    environment = _locked(environment)
    binding = _find_binding(environment, tool, expected)
    if binding is None:
        return
    _check_protection(environment, actor)
    before = {"environment": environment.name, "tool": str(tool), **_binding_facts(binding)}
    audit.record(actor, "unbind", binding, before=before, why=reason, agent=environment.agent_id)
    binding.delete()


def state(binding: Binding | None) -> str:
    """Return the binding as forms and REST name it: an activity's id, `latent`, or "" if there is none."""
    if binding is None:
        return ""
    return "latent" if binding.activity_id is None else str(binding.activity_id)


def describe_binding(binding: Binding) -> str:
    return f"implementation “{binding.activity}”" if binding.activity else "latent"


def _binding_facts(binding: Binding) -> dict[str, Any]:
    version = binding.bound_version
    return {"runs": describe_binding(binding)} | ({"activity_version": version.number} if version else {})


def check(pin: Pin, activity: Activity, version: ActivityVersion) -> None:
    """Raises DomainError if the activity's version cannot run for this tool."""
    if activity.removed_at:
        message = _("“{activity}” was removed. Choose another implementation.").format(activity=activity)
        raise DomainError("activity_removed", message, fields={"activity": message}, status=409)
    if activity.agent is not None and (activity.agent, activity.tool_id) != (pin.agent_id, pin.tool_id):
        raise invalid(activity=_("This is the mock of another tool."))
    signature, interface = pin.version.decoded(), version.interface
    if interface and (reason := interfaces.why_unfit(interface.decoded(), signature)):
        raise DomainError("activity_unfit", reason, fields={"activity": reason}, status=409)
    if interface is None:
        kinds.get(version.kind).check(version.config, signature)
    version.activity = activity
    agent_vendors.check_activity([pin.agent], version)


def check_name(actor: User, name: str) -> None:
    """Raises DomainError if an activity of this name would run for tools of agents that the actor may not
    change.

    Without a binding, a definition runs by the activity with its name, or with the name that it states.
    """
    if not actor.can_administer and _is_name_of_others(actor, name):
        message = _(
            "Agents of other teams use a tool defined here that runs the implementation with this "
            "name. Choose another name, or ask an administrator to save it."
        )
        raise DomainError("forbidden", message, fields={"name": message}, status=403)


def check_change(actor: User, activity: Activity) -> None:
    """Raises DomainError if the activity runs for tools of agents that the actor may not change.

    It may be bound there, be a step of a bound activity, or run by its name.
    """
    if actor.can_administer:
        return
    dependents = Activity.objects.filter(pk__in=reach.with_all_above(activity))
    bound = Binding.objects.filter(activity__in=dependents, environment__agent__in=Agent.objects.live())
    bindings_of_others = bound.exclude(environment__agent__in=Agent.objects.visible_to(actor))
    # The stored names count, not those that were just entered.
    if bindings_of_others.exists() or any(_is_name_of_others(actor, row.name) for row in dependents):
        message = _(
            "Agents of other teams use this implementation. Ask an administrator to change it, or "
            "save another one for your own agents."
        )
        raise DomainError("forbidden", message, status=403)


def check_removal(actor: User, activity: Activity) -> None:
    """Raise DomainError if the activity runs in a protected environment, by a binding or by its name.

    After its removal nothing would run there, so only an administrator removes it, as with the binding.
    """
    _refuse_in_protected(actor, Q(bindings__activity=activity) | _runs_by_name(activity))


def check_renaming(actor: User, activity: Activity) -> None:
    """Raise DomainError if the activity runs by its name in a protected environment.

    No activity would have that name, so nothing would run there. A binding does not depend on the name.
    """
    _refuse_in_protected(actor, _runs_by_name(activity))


def _runs_by_name(activity: Activity) -> Q:
    recorded = NamedActivity.objects.filter(activity_version__activity=activity, name=activity.name)
    return Q(agent__in=recorded.values("agent"))


def _refuse_in_protected(actor: User, condition: Q) -> None:
    rows = Environment.objects.filter(condition, is_protected=True, agent__in=Agent.objects.live())
    for environment in rows.distinct():
        _check_protection(environment, actor)


def _is_name_of_others(actor: User, name: str) -> bool:
    tools = [tool for (tool,) in run_prepared(_TOOLS_BY_NAME, [name])]
    pins = Pin.objects.filter(tool__in=tools, agent__in=Agent.objects.live())
    return bool(tools) and pins.exclude(agent__in=Agent.objects.visible_to(actor)).exists()


# In any version, because releases contain older ones.
_TOOLS_BY_NAME = """
    SELECT DISTINCT tool.id FROM catalog_toolversion version
    JOIN catalog_tool tool ON tool.id = version.tool_id
    JOIN catalog_endpoint endpoint ON endpoint.id = tool.endpoint_id
    JOIN catalog_vendor vendor ON vendor.id = endpoint.vendor_id
    WHERE vendor.is_own AND %s::text = coalesce(
        version.raw::jsonb #>> '{properties,_activity,const}', version.signature::jsonb ->> 'name'
    )
"""


def check_vendors(call: Call, activity: ActivityVersion) -> None:
    """Raises DomainError if the call's agent may not run the activity now.

    Both the activity's steps and the agent's allowed vendors may have changed since it was bound.
    """
    if call.agent is None:
        return
    condition = Q(pk=call.agent)
    if call.sub_agent:
        # A release names a sub-agent by the address that it had then.
        condition |= Q(slug=call.sub_agent, removed_at=None) | Q(addresses__slug=call.sub_agent)
    agent_vendors.check_activity(list(Agent.objects.filter(condition).distinct()), activity)


def bindings_of(environment: Environment) -> list[Binding]:
    return list(
        environment.bindings.select_related("tool", "activity__current", "activity_version").order_by("pk")
    )


def pins_of(agent: Agent) -> list[Pin]:
    """Return the tools that can be bound: those of the agent, then those of its sub-agents."""
    return [pin for pin in items_of(agent) if pin.tool.kind == ItemKind.TOOL]


def items_of(agent: Agent) -> list[Pin]:
    """Return the pins that can be bound, and those of prompts and resources."""
    tree = agents.with_all_below([agent])[agent.pk]
    agent_ids = [row.pk for row in tree]
    rows = pinned_signatures.read_items(tree)
    return sorted(rows, key=lambda pin: (agent_ids.index(pin.agent_id), pin.name))


@dataclass(frozen=True, slots=True)
class BoundTool:
    """The activity that runs for a tool in an environment.

    version: the version that runs, or that was bound if the activity is removed.
    """

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
        """Return the activity's newest version if another one runs."""
        activity = self.activity
        if activity is None or activity.removed_at or activity.current is None:
            return None
        return activity.current if activity.current != self.version else None

    @property
    def is_bound(self) -> bool:
        return self.binding is not None

    @property
    def is_replaced(self) -> bool:
        """Return whether nothing runs because another activity now has the name."""
        fault = self.resolution.fault
        return fault is not None and fault.code == ACTIVITY_REPLACED


def bound_in(environment: Environment, pins: Sequence[Pin] | None = None) -> list[BoundTool]:
    """Return the activities of these tools, or of all tools of the agent."""
    pins = pins_of(environment.agent) if pins is None else pins
    return bindings_by_environment([environment], pins)[environment.pk]


def bindings_by_environment(
    environment_rows: Sequence[Environment], pins: Sequence[Pin]
) -> dict[int, list[BoundTool]]:
    """Return the activities of these tools by environment id. The number of statements does not grow with
    either.
    """
    subjects = [Subject.of_pin(pin) for pin in pins]
    resolutions = resolve_in_environments([place.pk for place in environment_rows], subjects)
    rows = Binding.objects.filter(environment__in=environment_rows, tool__in=[pin.tool_id for pin in pins])
    rows = rows.select_related("activity__current", "activity_version")
    bindings = {(row.environment_id, row.tool_id): row for row in rows}
    bound = {row.bound_version.pk for row in rows if row.bound_version}
    version_by_id = _versions(bound | {row.version for row in resolutions.values() if row.version})
    result: dict[int, list[BoundTool]] = {place.pk: [] for place in environment_rows}
    for place in environment_rows:
        for pin, subject in zip(pins, subjects, strict=True):
            resolution, binding = resolutions[place.pk, subject], bindings.get((place.pk, pin.tool_id))
            bound_version = binding.bound_version if binding else None
            version = version_by_id.get(resolution.version or (bound_version.pk if bound_version else 0))
            result[place.pk].append(BoundTool(pin, place, resolution, binding, version))
    return result


def unbound_in(agent: Agent, pins: Sequence[Pin]) -> list[BoundTool]:
    """Return the activities that run for these tools where they have no binding."""
    subjects = [Subject.of_pin(pin) for pin in pins]
    resolutions = resolve_all(None, subjects, agent=agent.pk)
    version_by_id = _versions({row.version for row in resolutions.values() if row.version})
    rows = (resolutions[subject] for subject in subjects)
    return [
        BoundTool(pin, None, resolution, None, version_by_id.get(resolution.version or 0))
        for pin, resolution in zip(pins, rows, strict=True)
    ]


def _versions(keys: Iterable[int]) -> dict[int, ActivityVersion]:
    version_ids = list(keys)
    rows = ActivityVersion.objects.select_related("activity__current__interface", "interface")
    return rows.in_bulk(version_ids) if version_ids else {}


def fitting_activities(pins: Sequence[Pin]) -> dict[Pin, list[Activity]]:
    """Return the activities that can be bound to each tool, by name. An activity without an interface may
    still be refused when it is bound.
    """
    owned = Q(agent__in={pin.agent_id for pin in pins}, tool__in={pin.tool_id for pin in pins})
    rows = Activity.objects.live().filter(Q(agent=None) | owned).exclude(current=None)
    rows = rows.select_related("current__interface", "current__activity")
    rows = rows.order_by("name", "pk")[:MAX_CHOICES]
    interfaces_by_activity = {
        row.pk: row.current.interface.decoded() for row in rows if row.current and row.current.interface
    }
    allowed = agent_vendors.allowed_by_agent({pin.agent for pin in pins})
    is_limited = any(row.limits for row in allowed.values())
    calls_by_activity = reach.reached([row.current for row in rows if row.current]) if is_limited else {}

    def refusal(version: ActivityVersion, agent: Agent) -> str:
        return allowed[agent.pk].refusal_of(agent, calls_by_activity[version.pk])

    activities_by_pin: dict[Pin, list[Activity]] = {}
    for pin in pins:
        signature, owner = pin.version.decoded(), (pin.agent_id, pin.tool_id)
        activities_by_pin[pin] = [
            row
            for row in rows
            if (row.agent is None or (row.agent, row.tool_id) == owner)
            and not (
                row.pk in interfaces_by_activity
                and interfaces.why_unfit(interfaces_by_activity[row.pk], signature)
            )
            and not (is_limited and row.current and refusal(row.current, pin.agent))
        ]
    return activities_by_pin


def places_of(release: Release) -> list[CallEnvironment]:
    """Return the agent's environments, by name; those that `publishing.find` has read with the release."""
    environment_places: list[CallEnvironment] | None = getattr(release, "places", None)
    if environment_places is None:
        rows = Environment.objects.filter(agent=release.agent_id).order_by("name")
        environment_places = [CallEnvironment(*row) for row in rows.values_list("pk", "name", "is_default")]
    return environment_places


def choose_environment(release: Release, key: ApiKey | None, requested: str = "") -> CallEnvironment | None:
    """Return where a call runs: in the environment that it names, that its key names, or in the default one.

    Raises DomainError if that environment does not exist: the call must not run at a vendor instead.
    """
    places = places_of(release)
    key_environment = key.environment if key else ""
    if key_environment and requested and requested != key_environment:
        message = f"This API key runs tools in “{key_environment}” and in no other environment."
        raise DomainError("environment_of_key", message, fields={"environment": message}, status=403)
    if name := key_environment or requested:
        match = next((place for place in places if place.name == name), None)
        if match is None:
            names = ", ".join(place.name for place in places) or "none yet"
            message = f"“{release.agent}” has no environment “{printable(name, 60)}”. It has: {names}."
            if key_environment:
                message += " This API key names it. Create the environment again, or use another key."
                raise DomainError("unknown_environment", message, status=409)
            raise DomainError("unknown_environment", message, fields={"environment": message})
        return match
    return next((place for place in places if place.is_default), None)


def resolve(place: CallEnvironment | None, subject: Subject, *, agent: int) -> Resolution:
    """Return the activity that runs for one tool there. Raises DomainError if none does."""
    resolution = resolve_all(place, [subject], agent=agent)[subject]
    if fault := resolution.fault:
        # Protocols encode plain texts only.
        raise DomainError(fault.code, str(fault.message), status=fault.status)
    return resolution


def version_of(resolution: Resolution) -> ActivityVersion | None:
    """Return the activity's version that runs; None if none does."""
    if resolution.version is None:
        return None
    return ActivityVersion.objects.select_related("activity").get(pk=resolution.version)


def record_named(agent: int, resolutions: Mapping[Subject, Resolution]) -> None:
    """Record the versions that run by name for this agent's tools, if none is recorded yet."""
    NamedActivity.objects.bulk_create(
        (
            NamedActivity(
                agent_id=agent,
                tool_id=subject.tool,
                name=resolution.unrecorded_name,
                activity_version_id=resolution.version or 0,
            )
            for subject, resolution in resolutions.items()
            if resolution.unrecorded_name
        ),
        ignore_conflicts=True,
    )


def environments_using(tool: Tool, reader: User) -> list[Environment]:
    """Return the environments of the agents that have pinned the tool, as far as the reader sees them."""
    rows = Environment.objects.filter(agent__in=agents.users_of_tool(tool))
    rows = rows.filter(agent__in=Agent.objects.live().visible_to(reader)).select_related("agent")
    return list(rows.order_by("agent__name", "pk"))


def bindings_to(activities: Iterable[Activity], reader: User) -> tuple[list[Binding], dict[int, int]]:
    """Return the bindings of these activities that the reader sees, and the number of other bindings by
    activity.
    """
    rows = Binding.objects.filter(activity__in=list(activities), environment__agent__removed_at=None)
    visible_rows = rows.filter(environment__agent__in=Agent.objects.live().visible_to(reader))
    visible = list(
        visible_rows.select_related("environment__agent", "tool").order_by("environment__agent__name", "pk")
    )
    hidden_count: dict[int, int] = {}
    for pk in rows.exclude(pk__in=[row.pk for row in visible]).values_list("activity", flat=True):
        hidden_count[pk] = hidden_count.get(pk, 0) + 1
    return visible, hidden_count


def resolve_all(
    place: CallEnvironment | None, subjects: Iterable[Subject], *, agent: int = 0
) -> dict[Subject, Resolution]:
    """Resolve the activities of these tools, in one statement, or in none if nothing was decided for any.

    agent: the id of the published agent; 0 if a tool is tried without an agent.
    """
    unique_subjects = list(dict.fromkeys(subjects))
    # A removed environment has no bindings and must not be treated like one without bindings.
    relevant = [subject for subject in unique_subjects if place or subject.is_own]
    facts = _facts([place.pk] if place else [0], relevant, agent) if relevant else {}
    pk = place.pk if place else 0
    return {
        subject: resolve_facts(facts[pk, subject]) if (pk, subject) in facts else VENDOR
        for subject in unique_subjects
    }


def resolve_in_environments(
    places: Sequence[int], subjects: Sequence[Subject], *, agent: int = 0
) -> Mapping[tuple[int, Subject], Resolution]:
    """Resolve the activities in several environments by their ids; 0 means no environment."""
    return {key: resolve_facts(facts) for key, facts in _facts(places, subjects, agent).items()}


def _facts(
    places: Sequence[int], subjects: Sequence[Subject], agent: int
) -> dict[tuple[int, Subject], Facts]:
    rows = run_prepared(
        _READ_FACTS,
        [
            [subject.tool for subject in subjects],
            [subject.ordinal for subject in subjects],
            [subject.name for subject in subjects],
            [subject.is_own for subject in subjects],
            list(places),
            agent,
        ],
    )
    # A release may refer to a version that no longer exists.
    unfit = _find_unfit(
        {(version, tool) for *_, version, tool, is_asked in rows if is_asked and version and tool}
    )
    return {
        (place, subjects[index - 1]): Facts(
            is_there=is_there,
            is_own=subjects[index - 1].is_own,
            is_bound=is_bound,
            activity=activity,
            is_removed=is_removed,
            explicit=explicit,
            named=same_name,
            version=version,
            name=name,
            is_recorded=is_recorded,
            is_replaced=is_replaced,
            unfit=unfit.get((version, tool), ""),
        )
        for index, place, is_there, is_bound, activity, is_removed, explicit, same_name, *recorded in rows
        for name, is_recorded, is_replaced, version, tool, _ in [recorded]
    }


# Pairs of an activity's version and a tool's version that fit, by their ids. Neither version ever changes.
_fits: set[tuple[int, int]] = set()
MAX_CACHED = 10_000


def _find_unfit(pairs: set[tuple[int, int]]) -> dict[tuple[int, int], str]:
    # Returns why each activity's version cannot run for the tool's version. Cached pairs need no statement.
    uncached = pairs - _fits
    if not uncached:
        return {}
    activity_versions = ActivityVersion.objects.select_related("interface").in_bulk(
        {version for version, _ in uncached}
    )
    tools = ToolVersion.objects.in_bulk({tool for _, tool in uncached})
    reasons = {}
    for pair in uncached:
        version, tool = activity_versions[pair[0]], tools[pair[1]].decoded()
        if version.interface:
            reason = interfaces.why_unfit(version.interface.decoded(), tool)
        else:
            faults = kinds.get(version.kind).faults(version.config, tool)
            reason = next((fault.message for fault in faults), "")
        if reason:
            reasons[pair] = reason
    if len(_fits) > MAX_CACHED:
        _fits.clear()
    _fits.update(uncached - reasons.keys())
    return reasons


_READ_FACTS = """
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
    # The lock of its agent covers all edits of an environment.
    agent = agents.locked(environment.agent)
    current = Environment.objects.filter(pk=environment.pk).first()
    if current is None:
        message = _("“{name}” has been removed.").format(name=environment.name)
        raise DomainError("environment_removed", message, status=409)
    current.agent = agent
    return current


def _find_binding(environment: Environment, tool: Tool, expected: str) -> Binding | None:
    rows = environment.bindings.select_related("tool", "activity__current", "activity_version")
    binding = rows.filter(tool=tool).first()
    if expected not in (WHATEVER, state(binding)):
        current_binding = describe_binding(binding) if binding else "nothing"
        message = _(
            "The binding of “{tool}” in “{environment}” has changed since you opened this: it is "
            "{implementation} now. Check it, then decide again."
        ).format(tool=tool, environment=environment.name, implementation=current_binding)
        raise DomainError("binding_changed", message, status=409)
    return binding
