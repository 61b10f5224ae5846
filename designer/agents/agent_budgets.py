"""The limit that a designer sets for the tokens of an agent's tools and procedures in each request."""

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from core.compiled_queries import PreparedQuery, named_keys
from core.errors import invalid
from designer.agents.agents import lock_agent
from designer.models import Agent, TokenLimit
from designer.models.budgets import MAX_TOKENS
from people import audit
from people.models import User


def limit_of(agent: Agent) -> TokenLimit | None:
    return limits_of([agent]).get(agent.pk)


def limits_of(agents: Collection[Agent]) -> dict[int, TokenLimit]:
    """Return the limits by agent. Agents without a limit are left out."""
    return {row.agent_id: row for row in _LIMITS.rows(agents=[agent.pk for agent in agents])}


_LIMITS: PreparedQuery[TokenLimit] = PreparedQuery(
    lambda: TokenLimit.objects.filter(agent__in=named_keys("agents"))
)


@transaction.atomic
def set_limit(
    agent: Agent, *, actor: User, limit: int | None, stops: bool = False, why: str = ""
) -> TokenLimit | None:
    """Set the limit. None removes it."""
    if limit is not None and not 0 < limit <= MAX_TOKENS:
        raise invalid(
            limit=_("Enter a number of tokens from 1 to {max_tokens}, or none.").format(
                max_tokens=f"{MAX_TOKENS:,}"
            )
        )
    agent = lock_agent(agent)
    row = limit_of(agent)
    before = facts(row)
    if limit is None:
        TokenLimit.objects.filter(agent=agent).delete()
        row = None
    else:
        row = TokenLimit.objects.update_or_create(agent=agent, defaults={"tokens": limit, "stops": stops})[0]
    if facts(row) != before:
        audit.record(actor, "edit", agent, before=before, after=facts(row), why=why, agent=agent.pk)
    return row


def facts(row: TokenLimit | None) -> dict[str, Any]:
    """Return the values for an audit row."""
    return {"token_limit": row.tokens if row else None, "token_limit_stops": row.stops if row else False}
