"""Addresses of agents. An address where an agent has published is never assigned to another agent."""

from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

from designer.models import Agent, AgentAddress
from people.models import ApiKey, User


class MovedAgent(NamedTuple):
    agent: Agent
    since: datetime


def reserve(agent: Agent) -> None:
    """Reserve the agent's address. Called in the transaction that publishes. Idempotent."""
    # The redirect of another agent ends: runtimes request what is published here.
    AgentAddress.objects.filter(slug=agent.slug, is_held=False).delete()
    AgentAddress.objects.bulk_create([AgentAddress(slug=agent.slug, agent=agent)], ignore_conflicts=True)


def move(agent: Agent, *, before: str) -> None:
    """Record that the agent's address was `before`. Called in the transaction that changed it."""
    rows = AgentAddress.objects.filter(agent=agent)
    if rows.filter(is_held=True).exists():
        reserve(agent)
    # Nothing was published there, so another agent may use the address; until then it redirects to this
    # agent.
    signpost = AgentAddress(slug=before, agent=agent, is_held=False)
    AgentAddress.objects.bulk_create([signpost], ignore_conflicts=True)
    rows.filter(slug=agent.slug).update(left_at=None)
    rows.exclude(slug=agent.slug).filter(left_at=None).update(left_at=timezone.now())


def claim(agent: Agent) -> bool:
    """Return whether the agent may have its new address. Called in the transaction that set it."""
    others = AgentAddress.objects.filter(slug=agent.slug).exclude(agent=agent.pk)
    others.filter(is_held=False).delete()
    return not others.exists()


def reserved_like(stem: str) -> set[str]:
    reserved = AgentAddress.objects.filter(slug__startswith=stem, is_held=True)
    return set(reserved.values_list("slug", flat=True))


def agent_at(slug: str, reader: User) -> Agent | None:
    """Return the agent at this address, or the one that moved away from it, for forms that name an agent."""
    agent = Agent.objects.live().visible_to(reader).filter(slug=slug).first()
    moved = None if agent else find_moved(slug, reader)
    return moved.agent if moved else agent


def find_moved(slug: str, reader: User, key: ApiKey | None = None) -> MovedAgent | None:
    """Return the agent that had this address, if it has another one now and `reader` may see it with this
    key.
    """
    agents = Agent.objects.live().visible_to(reader, key)
    addresses = AgentAddress.objects.filter(slug=slug, agent__in=agents).exclude(left_at=None)
    row = addresses.select_related("agent").first()
    return MovedAgent(row.agent, row.left_at) if row and row.left_at else None
