"""Rules for changes of activities, which hold because of the environments in which they run."""

from django.db.models import Q
from django.utils.translation import gettext as _

from catalog.models import Activity, ActivityVersion, Call
from core.errors import DomainError
from core.prepared_statements import run_prepared
from designer.agents import agent_vendors
from designer.environments.environments import check_protection
from designer.models import Agent, Binding, Environment, NamedActivity, Pin
from execution.activities import reach
from people.models import User


def check_name(actor: User, name: str) -> None:
    """Raise DomainError if an activity of this name would run for tools of agents that the actor may not
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
    """Raise DomainError if the activity runs for tools of agents that the actor may not change.

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
        check_protection(environment, actor)


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
    """Raise DomainError if the call's agent may not run the activity now.

    Both the activity's steps and the agent's allowed vendors may have changed since it was bound.
    """
    if call.agent is None:
        return
    condition = Q(pk=call.agent)
    if call.sub_agent:
        # A release names a sub-agent by the address that it had then.
        condition |= Q(slug=call.sub_agent, removed_at=None) | Q(addresses__slug=call.sub_agent)
    agent_vendors.check_activity(list(Agent.objects.filter(condition).distinct()), activity)
