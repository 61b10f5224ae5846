"""Run the tests of agents again after a change of their tools or sentences.

The code that changes an agent does not know about tests. One query computes a digest of all inputs of a run,
for a few agents at a time, and compares it with the digest of the newest run. So writes do not wait, and no
change is missed.
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
CHECK_INTERVAL, RESEND_AFTER = timedelta(seconds=4), timedelta(minutes=1)
# Agents beyond this number wait for a later tick.
MAX_AGENTS_PER_TICK = 200


def tick() -> None:
    """Queue runs for changed agents. Called every few seconds by any process, possibly twice."""
    outside.tick()
    with transaction.atomic():
        rows = RehearsalPlan.objects.filter(
            Exists(Rehearsal.objects.filter(agent=OuterRef("agent"))),
            agent__in=Agent.objects.active(),
            looked_at__lt=Now() - CHECK_INTERVAL,
        )
        due = dict(
            rows.select_for_update(skip_locked=True, of=("self",), no_key=True)
            .order_by("looked_at")
            .values_list("agent", "made_of")[:MAX_AGENTS_PER_TICK]
        )
        RehearsalPlan.objects.filter(agent__in=due).update(looked_at=Now())
    changed = [agent for agent, digest in input_digests(due).items() if digest != due[agent]]
    is_due = Q(asked_at=None) | Q(asked_at__lt=Now() - RESEND_AFTER)
    for agent in changed:
        if RehearsalPlan.objects.filter(is_due, agent=agent).update(asked_at=Now()):
            wakes.wake_worker(TASK, agent)


def perform(agent_id: int) -> None:
    """Run the agent's tests if it has changed. Workers call this."""
    agent = Agent.objects.active().filter(pk=agent_id).first()
    if agent is None:
        return
    # Computed before the rows are read, so that a change meanwhile starts another run.
    current_digest = input_digests([agent_id])[agent_id]
    runs.rerun_if_changed(agent)
    RehearsalPlan.objects.filter(agent=agent_id).update(made_of=current_digest, asked_at=None)


def input_digests(agents: Collection[int]) -> dict[int, str]:
    """Return a digest of every row that a run depends on, by agent. Versions are immutable, so their ids
    suffice.
    """
    if not agents:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_INPUT_DIGESTS, [list(agents)])
        return dict(cursor.fetchall())


_INPUT_DIGESTS = """
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
