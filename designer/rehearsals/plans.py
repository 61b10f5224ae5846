"""Stores the rule by which an agent's tests decide about publishing it: one row per agent."""

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from core.errors import invalid
from designer.agents import agents
from designer.models import Agent, Gate, RehearsalPlan
from designer.models.rehearsals import MAX_SENTENCES
from designer.rehearsals import built_in, judges, outside
from people import audit
from people.models import User


def plan_of(agent: Agent) -> RehearsalPlan:
    return plans_of([agent])[agent.pk]


def plans_of(rows: Collection[Agent]) -> dict[int, RehearsalPlan]:
    """Return the plans by agent. An agent without a stored plan has the defaults."""
    stored = RehearsalPlan.objects.select_related("asks").in_bulk([agent.pk for agent in rows])
    return {agent.pk: stored.get(agent.pk) or RehearsalPlan(agent=agent) for agent in rows}


@transaction.atomic
def set_gate(
    agent: Agent,
    *,
    actor: User,
    gate: str,
    at_least: int | None = None,
    on_flips: bool = True,
    judge: str = "",
    why: str = "",
) -> RehearsalPlan:
    """Set the gate of an agent's tests.

    at_least: None if any number of sentences is enough.
    judge: “built-in”, the id of an evaluation model, or "" to leave it unchanged.
    """
    if gate not in Gate.values:
        raise invalid(gate=_("Choose one of these: {choices}.").format(choices=", ".join(Gate.values)))
    if at_least is not None and not 1 <= at_least <= MAX_SENTENCES:
        raise invalid(
            at_least=_("Enter a number of sentences from 1 to {max_sentences}, or none.").format(
                max_sentences=MAX_SENTENCES
            )
        )
    agent = agents.lock_agent(agent)
    row = plan_of(agent)
    before = facts(row)
    if judge:
        row.asks = None if judge == built_in.NAME else judges.find(judge)
        row.judge = outside.NAME if row.asks else built_in.NAME
    row.gate, row.at_least, row.on_flips = gate, at_least, on_flips
    if facts(row) != before:
        row.save()
        audit.record(actor, "edit", agent, before=before, after=facts(row), why=why, agent=agent.pk)
    return row


def identity(row: RehearsalPlan) -> object:
    """Return the identity of the judge that decides, for digests."""
    return outside.identity(row.asks) if row.asks else built_in.NAME


def judge_of(row: RehearsalPlan) -> str:
    """Return the judge in the form that `set_gate` accepts."""
    return str(row.asks_id or built_in.NAME)


def facts(row: RehearsalPlan) -> dict[str, Any]:
    """Return the values for an audit row."""
    return {
        "rehearsal_gate": row.gate,
        "rehearsal_gate_at_least": row.at_least,
        "rehearsal_gate_on_flips": row.on_flips,
        "rehearsal_judge": judge_of(row),
    }
