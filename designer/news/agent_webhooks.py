"""Webhooks, and the agents that they are limited to."""

from collections.abc import Collection, Iterable
from typing import Any

from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

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
    """Return the reader's own webhooks, or all for an administrator. `shown` has the agents of each that
    `reader` may see.
    """
    agents = Agent.objects.live().visible_to(reader)
    namings = (
        WebhookAgent.objects.filter(agent__in=agents).select_related("agent").order_by("agent__name", "pk")
    )
    rows = webhooks.live() if reader.can_administer else webhooks.live().filter(owner=reader)
    return rows.select_related("owner").prefetch_related(Prefetch("named", namings, to_attr="shown"))


def agents_of(webhook: Webhook) -> list[Agent]:
    # The webhook has to come from `visible_to`.
    namings: list[WebhookAgent] = getattr(webhook, "shown")  # noqa: B009 - set by the prefetch
    return [naming.agent for naming in namings]


@transaction.atomic
def create(
    *, actor: User, name: str, url: str, events: Iterable[str], agents: Collection[Agent] = ()
) -> tuple[Webhook, Secret]:
    """Create a webhook. Return it with the secret that signs its deliveries, which is shown only once."""
    events = list(events)
    owner = None if actor.can_administer else actor
    _check_options(owner, events, agents)
    webhook, secret = webhooks.create(
        actor=actor, name=name, url=url, events=events, owner=owner, is_narrowed=bool(agents)
    )
    _set_agents(webhook, agents, actor)
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
    """Change the webhook as `webhooks.update` does. `agents` replaces its agents, None leaves them."""
    named_agents = agents_of(webhook) if agents is None else agents
    _check_options(webhook.owner, changes.get("events", webhook.events), named_agents)
    row = webhooks.update(webhook, actor=actor, expected=expected, **changes)
    if agents is not None:
        webhooks.narrow(row, is_narrowed=bool(agents))
        _set_agents(row, agents, actor)
    return row


def _check_options(owner: User | None, events: Collection[str], agents: Collection[Agent]) -> None:
    if len(agents) > MAX_AGENTS:
        raise invalid(agents=_("Choose at most {max_agents} agents.").format(max_agents=MAX_AGENTS))
    if owner and not agents:
        raise invalid(
            agents=_("Choose at least one agent. Only administrators have webhooks for all agents.")
        )
    others = [event for event in events if event in kinds.KINDS and event not in kinds.agent_kinds()]
    if agents and others:
        label = kinds.KINDS[others[0]].label
        raise invalid(
            events=_(
                "“{label}” is not about an agent. A webhook with agents is only notified about these."
            ).format(label=label)
        )


def _set_agents(webhook: Webhook, agents: Collection[Agent], actor: User) -> None:
    current_rows = {
        row.agent_id: row for row in WebhookAgent.objects.filter(webhook=webhook).select_related("agent")
    }
    named_agents = {agent.pk: agent for agent in agents}
    WebhookAgent.objects.bulk_create(
        [
            WebhookAgent(webhook=webhook, agent=agent)
            for pk, agent in named_agents.items()
            if pk not in current_rows
        ]
    )
    WebhookAgent.objects.filter(
        pk__in=[row.pk for pk, row in current_rows.items() if pk not in named_agents]
    ).delete()
    # One entry per agent, because each agent has its own readers.
    for pk, agent in named_agents.items():
        if pk not in current_rows:
            audit.record(actor, "name agent", webhook, after={"agent": agent.slug}, agent=pk)
    for pk, row in current_rows.items():
        if pk not in named_agents:
            audit.record(actor, "leave agent", webhook, before={"agent": row.agent.slug}, agent=pk)
