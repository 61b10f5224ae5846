"""Webhooks, and the agents that are named for them.

A designer's webhook names at least one: it hears of these alone, as long as its owner may see them. Those of
administrators hear of all, unless they name some.
"""

from collections.abc import Collection, Iterable
from typing import Any

from django.db import transaction
from django.db.models import Prefetch, QuerySet

from catalog.notifications import kinds, webhooks
from catalog.notifications.models import Webhook
from core.encryption import Secret
from core.errors import invalid
from designer.models import Agent, WebhookAgent
from people import audit
from people.audit import edit_conflicts
from people.models import User

MAX_AGENTS = 50


def visible_to(reader: User) -> QuerySet[Webhook]:
    """One's own; an administrator sees all. Each with `shown`: its named agents that `reader` may know of."""
    agents = Agent.objects.live().visible_to(reader)
    named = (
        WebhookAgent.objects.filter(agent__in=agents).select_related("agent").order_by("agent__name", "pk")
    )
    rows = webhooks.live() if reader.can_administer else webhooks.live().filter(owner=reader)
    return rows.select_related("owner").prefetch_related(Prefetch("named", named, to_attr="shown"))


def agents_of(webhook: Webhook) -> list[Agent]:
    # Of a webhook out of `visible_to`.
    shown: list[WebhookAgent] = getattr(webhook, "shown")  # noqa: B009 - put there by the prefetch
    return [naming.agent for naming in shown]


@transaction.atomic
def create(
    *, actor: User, name: str, url: str, events: Iterable[str], agents: Collection[Agent] = ()
) -> tuple[Webhook, Secret]:
    """With the secret that signs its deliveries, which is shown this once."""
    events = list(events)
    owner = None if actor.can_administer else actor
    _check(owner, events, agents)
    webhook, secret = webhooks.create(
        actor=actor, name=name, url=url, events=events, owner=owner, is_narrowed=bool(agents)
    )
    _name(webhook, agents, actor)
    return webhook, secret


@transaction.atomic
def update(
    webhook: Webhook,
    *,
    actor: User,
    agents: Collection[Agent] | None = None,
    expected: str = edit_conflicts.ANY_STATE,
    **changes: Any,
) -> Webhook:
    """As `webhooks.update`; `agents` are all that it names from now on, None leaves them."""
    wanted = agents_of(webhook) if agents is None else agents
    _check(webhook.owner, changes.get("events", webhook.events), wanted)
    row = webhooks.update(webhook, actor=actor, expected=expected, **changes)
    if agents is not None:
        webhooks.narrow(row, is_narrowed=bool(agents))
        _name(row, agents, actor)
    return row


def _check(owner: User | None, events: Collection[str], agents: Collection[Agent]) -> None:
    if len(agents) > MAX_AGENTS:
        raise invalid(agents=f"Name at most {MAX_AGENTS} agents.")
    if owner and not agents:
        raise invalid(agents="Name the agents that it is for. Webhooks for all agents are administrators'.")
    others = [event for event in events if event in kinds.KINDS and event not in kinds.of_agents()]
    if agents and others:
        label = kinds.KINDS[others[0]].label
        raise invalid(
            events=f"“{label}” is about no agent. A webhook that names agents hears of those alone."
        )


def _name(webhook: Webhook, agents: Collection[Agent], actor: User) -> None:
    had = {row.agent_id: row for row in WebhookAgent.objects.filter(webhook=webhook).select_related("agent")}
    wanted = {agent.pk: agent for agent in agents}
    WebhookAgent.objects.bulk_create(
        [WebhookAgent(webhook=webhook, agent=agent) for pk, agent in wanted.items() if pk not in had]
    )
    WebhookAgent.objects.filter(pk__in=[row.pk for pk, row in had.items() if pk not in wanted]).delete()
    # An entry each, as each agent has its own readers.
    for pk, agent in wanted.items():
        if pk not in had:
            audit.record(actor, "name agent", webhook, after={"agent": agent.slug}, agent=pk)
    for pk, row in had.items():
        if pk not in wanted:
            audit.record(actor, "leave agent", webhook, before={"agent": row.agent.slug}, agent=pk)
