"""Addresses of agents. One that an agent has published at is never given to another agent.

A runtime knows an agent by its address. If that became free, another agent that took it would answer the
runtimes of the first. So an address is held from the first publishing on. Every earlier address of an agent
leads to its new one, for pages that are still open; one never published at, until another agent takes it.
"""

from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

from designer.models import Agent, AgentAddress
from people.models import ApiKey, User


class MovedAgent(NamedTuple):
    agent: Agent
    since: datetime


def hold(agent: Agent) -> None:
    """Called in the transaction that publishes. Safe to call again."""
    # The signpost of another agent gives way: what is published here is what runtimes ask for.
    AgentAddress.objects.filter(slug=agent.slug, is_held=False).delete()
    AgentAddress.objects.bulk_create([AgentAddress(slug=agent.slug, agent=agent)], ignore_conflicts=True)


def move(agent: Agent, *, before: str) -> None:
    """Called in the transaction that gave the agent another address than `before`."""
    rows = AgentAddress.objects.filter(agent=agent)
    if rows.filter(is_held=True).exists():
        hold(agent)
    # Nothing was published there, so another agent may take it; until then it leads here.
    signpost = AgentAddress(slug=before, agent=agent, is_held=False)
    AgentAddress.objects.bulk_create([signpost], ignore_conflicts=True)
    rows.filter(slug=agent.slug).update(left_at=None)
    rows.exclude(slug=agent.slug).filter(left_at=None).update(left_at=timezone.now())


def claim(agent: Agent) -> bool:
    """Called after the agent got its address, in that transaction. False if another agent holds it."""
    others = AgentAddress.objects.filter(slug=agent.slug).exclude(agent=agent.pk)
    others.filter(is_held=False).delete()
    return not others.exists()


def held_like(stem: str) -> set[str]:
    held = AgentAddress.objects.filter(slug__startswith=stem, is_held=True)
    return set(held.values_list("slug", flat=True))


def agent_at(slug: str, reader: User) -> Agent | None:
    """The living agent at this address, or else the one that was there, for what names it in a form."""
    found = Agent.objects.live().visible_to(reader).filter(slug=slug).first()
    left = None if found else moved_from(slug, reader)
    return left.agent if left else found


def moved_from(slug: str, reader: User, key: ApiKey | None = None) -> MovedAgent | None:
    """The agent that was there, if it has another address now and `reader` may see it with this key."""
    agents = Agent.objects.live().visible_to(reader, key)
    left = AgentAddress.objects.filter(slug=slug, agent__in=agents).exclude(left_at=None)
    row = left.select_related("agent").first()
    return MovedAgent(row.agent, row.left_at) if row and row.left_at else None
