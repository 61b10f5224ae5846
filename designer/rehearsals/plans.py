"""What the rehearsals of an agent mean for publishing it: one row for each agent."""

from collections.abc import Collection
from typing import Any

from django.db import transaction

from core.errors import invalid
from designer import agents
from designer.models import Agent, Gate, RehearsalPlan
from designer.rehearsals import built_in, judges, outside, sentences
from people import audit
from people.models import User


def of(agent: Agent) -> RehearsalPlan:
    return of_several([agent])[agent.pk]


def of_several(rows: Collection[Agent]) -> dict[int, RehearsalPlan]:
    """By primary key; one that was never saved has the defaults."""
    kept = RehearsalPlan.objects.select_related("asks").in_bulk([agent.pk for agent in rows])
    return {agent.pk: kept.get(agent.pk) or RehearsalPlan(agent=agent) for agent in rows}


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
    """`at_least` None: any number of sentences is enough. `judge` is “built-in” or the id of one that an
    administrator has set up, empty for the one that it is."""
    if gate not in Gate.values:
        raise invalid(gate=f"Choose one of these: {', '.join(Gate.values)}.")
    if at_least is not None and not 1 <= at_least <= sentences.MAX_SENTENCES:
        raise invalid(at_least=f"Give a number of sentences from 1 to {sentences.MAX_SENTENCES}, or none.")
    agent = agents.locked(agent)
    row = of(agent)
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
    """Of the judge whose figure counts, as it is in digests."""
    return outside.identity(row.asks) if row.asks else built_in.NAME


def judge_of(row: RehearsalPlan) -> str:
    """As `set_gate` takes it."""
    return str(row.asks_id or built_in.NAME)


def facts(row: RehearsalPlan) -> dict[str, Any]:
    """What an audit row says about it."""
    return {
        "rehearsal_gate": row.gate,
        "rehearsal_gate_at_least": row.at_least,
        "rehearsal_gate_on_flips": row.on_flips,
        "rehearsal_judge": judge_of(row),
    }
