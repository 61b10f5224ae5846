"""Environments of agents, and bindings of tools to activities in them.

Bindings take effect at once and are not part of a release: changing one changes no signature and moves no
channel.
Each binding refers to one version of an activity, so an edited activity runs nowhere until someone moves the
binding.
docs/environments.md describes them.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Activity, ActivityVersion, Tool
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from designer.agents import agent_vendors, agents
from designer.environments.bound_tools import Subject, pins_of, resolve_all
from designer.models import Agent, Binding, CallEnvironment, Environment, NamedActivity, Pin, Release
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


@transaction.atomic
def create(agent: Agent, *, actor: User, name: str, is_default: bool = False) -> Environment:
    agent = agents.lock_agent(agent)
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
    environment = _lock_environment(environment)
    if environment.is_default == is_default:
        return environment
    others = Environment.objects.filter(agent=environment.agent_id, is_default=True)
    for row in (environment, *others):
        check_protection(row, actor)
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
    environment = _lock_environment(environment)
    if environment.is_protected == is_protected:
        return environment
    check_protection(environment, actor)
    environment.is_protected = is_protected
    environment.save(update_fields=["is_protected"])
    before, after = {"is_protected": not is_protected}, {"is_protected": is_protected}
    audit.record(actor, "edit", environment, before=before, after=after, agent=environment.agent_id)
    return environment


def check_protection(environment: Environment, actor: User, version: ActivityVersion | None = None) -> None:
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
    environment = _lock_environment(environment)
    if environment.is_default:
        message = _(
            "Calls that name no environment run in “{name}”. Make another one the default first, or "
            "remove the default."
        ).format(name=environment.name)
        raise DomainError("environment_is_default", message, status=409)
    check_protection(environment, actor)
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
    environment = _lock_environment(environment)
    binding_before = _find_binding(environment, tool, expected)
    is_same = binding_before is not None and binding_before.activity_id == (activity.pk if activity else None)
    if binding_before and is_same and version in (None, binding_before.bound_version):
        return binding_before
    if activity and version is None:
        # The caller's row may be older than an edit.
        version = operations.current(Activity.objects.select_related("current").get(pk=activity.pk))
    check_protection(environment, actor, version if activity else None)
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
    agent = agents.lock_agent(agent)
    pin = next((pin for pin in pins_of(agent) if pin.tool_id == tool.pk), None)
    if pin is None:
        raise invalid(tool=_("“{agent}” has no such tool.").format(agent=agent))
    check(pin, activity, version)
    for environment in agent.environments.all():
        check_protection(environment, actor, version)
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
    environment = _lock_environment(environment)
    binding = _find_binding(environment, tool, expected)
    if binding is None:
        return
    check_protection(environment, actor)
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
    """Raise DomainError if the activity's version cannot run for this tool."""
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


def bindings_of(environment: Environment) -> list[Binding]:
    return list(
        environment.bindings.select_related("tool", "activity__current", "activity_version").order_by("pk")
    )


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
    calls_by_activity = reach.find_reach([row.current for row in rows if row.current]) if is_limited else {}

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
                message += " This API key selects it. Create the environment again, or use another key."
                raise DomainError("unknown_environment", message, status=409)
            raise DomainError("unknown_environment", message, fields={"environment": message})
        return match
    return next((place for place in places if place.is_default), None)


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


def _lock_environment(environment: Environment) -> Environment:
    # The lock of its agent covers all edits of an environment.
    agent = agents.lock_agent(environment.agent)
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
            "The implementation of “{tool}” in “{environment}” has changed since you opened this: it is "
            "{implementation} now. Check it, then decide again."
        ).format(tool=tool, environment=environment.name, implementation=current_binding)
        raise DomainError("binding_changed", message, status=409)
    return binding
