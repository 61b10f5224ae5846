"""Celery tasks for designers. A task accepts ids, may run twice, and calls one function."""

from celery import shared_task

from core import portions, wakes
from designer.rehearsals import outside, schedule
from designer.releases import rehearsed
from designer.translations import runs as translation_runs

# The last portion that a task begins has to end within this time.
JUDGE_LIMIT = 330


# The size is bounded: 200 sentences and 1,000 tools take a few seconds.
@shared_task(soft_time_limit=portions.TASK_LIMIT)
def rehearse(agent_id: int, release_id: int | None = None) -> None:
    """Run the tests of the agent's draft, or of a release."""
    if release_id is None:
        schedule.perform(agent_id)
    else:
        rehearsed.perform(agent_id, release_id)


@shared_task(soft_time_limit=JUDGE_LIMIT)
def ask_judge(run_id: int = 0) -> None:
    wakes.perform_due(outside.due_runs, outside.perform)


@shared_task(soft_time_limit=JUDGE_LIMIT)
def translate(run_id: int = 0) -> None:
    wakes.perform_due(translation_runs.due_runs, translation_runs.perform)
