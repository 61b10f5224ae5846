"""Addresses of agents that something was published at: they are never given to another agent.

A runtime knows an agent by its address. If that became free, whoever took it would answer the runtimes of the
agent before. So an address is held from the first publishing on, and leads to its agent after a new name.
"""

from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

from designer.models import Agent, AgentAddress
from people.models import ApiToken, User


class Moved(NamedTuple):
    agent: Agent
    since: datetime


def hold(agent: Agent) -> None:
    """In the transaction that publishes. Safe to call again."""
    AgentAddress.objects.bulk_create([AgentAddress(slug=agent.slug, agent=agent)], ignore_conflicts=True)


def move(agent: Agent) -> None:
    """In the transaction that gave the agent another address; what was never published leaves nothing."""
    rows = AgentAddress.objects.filter(agent=agent)
    if rows.exists():
        hold(agent)
        rows.filter(slug=agent.slug).update(left_at=None)
        rows.exclude(slug=agent.slug).filter(left_at=None).update(left_at=timezone.now())


def is_held(slug: str, *, besides: Agent) -> bool:
    return AgentAddress.objects.filter(slug=slug).exclude(agent=besides.pk).exists()


def held_like(stem: str) -> set[str]:
    return set(AgentAddress.objects.filter(slug__startswith=stem).values_list("slug", flat=True))


def moved_from(slug: str, reader: User, key: ApiToken | None = None) -> Moved | None:
    """The agent that was there, if it has another address now and `reader` may see it with this key."""
    agents = Agent.objects.live().visible_to(reader, key)
    left = AgentAddress.objects.filter(slug=slug, agent__in=agents).exclude(left_at=None)
    row = left.select_related("agent").first()
    return Moved(row.agent, row.left_at) if row and row.left_at else None
