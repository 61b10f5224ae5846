"""Agents are rehearsed again by themselves after a change of what a model is shown.

Nothing that changes an agent knows of it: a digest of all that a run is made of is computed in one query, for
a few agents at a time, and compared with that of the newest run. So no write waits, and none is forgotten.
"""

from collections.abc import Collection
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from core import wakes
from designer.models import Agent, Rehearsal, RehearsalPlan
from designer.rehearsals import outside, runs

TASK = "designer.tasks.rehearse"
LOOK_EVERY, RESEND_AFTER = timedelta(seconds=4), timedelta(minutes=1)
# As many as one look takes; with more of them each has its turn later.
AT_ONCE = 200


def tick() -> None:
    """Every few seconds. It may run anywhere and twice."""
    outside.tick()
    with transaction.atomic():
        rows = RehearsalPlan.objects.filter(
            Exists(Rehearsal.objects.filter(agent=OuterRef("agent"))),
            agent__in=Agent.objects.active(),
            looked_at__lt=Now() - LOOK_EVERY,
        )
        due = dict(
            rows.select_for_update(skip_locked=True, of=("self",), no_key=True)
            .order_by("looked_at")
            .values_list("agent", "made_of")[:AT_ONCE]
        )
        RehearsalPlan.objects.filter(agent__in=due).update(looked_at=Now())
    changed = [agent for agent, now in made_of(due).items() if now != due[agent]]
    waits = Q(asked_at=None) | Q(asked_at__lt=Now() - RESEND_AFTER)
    for agent in changed:
        if RehearsalPlan.objects.filter(waits, agent=agent).update(asked_at=Now()):
            wakes.wake_worker(TASK, agent)


def perform(agent_id: int) -> None:
    """In a worker: rehearses the agent if it has changed."""
    agent = Agent.objects.active().filter(pk=agent_id).first()
    if agent is None:
        return
    # Before the rows: what changes meanwhile is looked at again.
    now = made_of([agent_id])[agent_id]
    runs.refreshed(agent)
    RehearsalPlan.objects.filter(agent=agent_id).update(made_of=now, asked_at=None)


def made_of(agents: Collection[int]) -> dict[int, str]:
    """By agent, a digest of every row that a run is made of. A version never changes, so its number does."""
    if not agents:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_MADE_OF, [list(agents)])
        return dict(cursor.fetchall())


_MADE_OF = """
SELECT a.id, md5(ROW((
    SELECT array_agg(md5(ROW(p.tool_id, p.version_id, p.name, p.configuration_id,
        everywhere.title, everywhere.description, everywhere.parameters, everywhere.outputs,
        everywhere.effects, here.title, here.description, here.parameters, here.outputs, here.effects
    )::text) ORDER BY p.id)
    FROM designer_pin p
    LEFT JOIN designer_tuning everywhere ON everywhere.tool_id = p.tool_id
    LEFT JOIN designer_tuning here ON here.pin_id = p.id
    WHERE p.agent_id = a.id AND p.removed_at IS NULL
), (
    SELECT array_agg(ROW(t.name, t.description, child.slug, child.name, child.description,
        child.removed_at, child.archived_at)::text ORDER BY t.id)
    FROM designer_transfer t JOIN designer_agent child ON child.id = t.child_id WHERE t.agent_id = a.id
), (
    SELECT array_agg(ROW(r.says, r.tool_id, r.child_id, r.inputs)::text ORDER BY r.id)
    FROM designer_rehearsal r WHERE r.agent_id = a.id
))::text) FROM designer_agent a WHERE a.id = ANY(%s)
"""
