"""What the rehearsals of an agent mean for publishing it: one row for each agent."""

from collections.abc import Collection
from typing import Any

from django.db import transaction

from core.errors import invalid
from designer import agents
from designer.models import Agent, Gate, RehearsalPlan
from designer.rehearsals import sentences
from people import audit
from people.models import User


def of(agent: Agent) -> RehearsalPlan:
    return of_several([agent])[agent.pk]


def of_several(rows: Collection[Agent]) -> dict[int, RehearsalPlan]:
    """By primary key; one that was never saved has the defaults."""
    kept = RehearsalPlan.objects.in_bulk([agent.pk for agent in rows])
    return {agent.pk: kept.get(agent.pk) or RehearsalPlan(agent=agent) for agent in rows}


@transaction.atomic
def set_gate(
    agent: Agent, *, actor: User, gate: str, at_least: int | None = None, on_flips: bool = True, why: str = ""
) -> RehearsalPlan:
    """`at_least` None: any number of sentences is enough."""
    if gate not in Gate.values:
        raise invalid(gate=f"Choose one of these: {', '.join(Gate.values)}.")
    if at_least is not None and not 1 <= at_least <= sentences.MAX_SENTENCES:
        raise invalid(at_least=f"Give a number of sentences from 1 to {sentences.MAX_SENTENCES}, or none.")
    agent = agents.locked(agent)
    row = of(agent)
    before = facts(row)
    row.gate, row.at_least, row.on_flips = gate, at_least, on_flips
    if facts(row) != before:
        row.save()
        audit.record(actor, "edit", agent, before=before, after=facts(row), why=why, agent=agent.pk)
    return row


def facts(row: RehearsalPlan) -> dict[str, Any]:
    """What an audit row says about it."""
    return {
        "rehearsal_gate": row.gate,
        "rehearsal_gate_at_least": row.at_least,
        "rehearsal_gate_on_flips": row.on_flips,
    }
