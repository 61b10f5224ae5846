"""What workers do for designers. A task takes ids, may run twice, and calls one function."""

from celery import shared_task

from core import wakes
from designer.rehearsals import outside, schedule
from designer.releases import rehearsed


@shared_task
def rehearse(agent_id: int, release_id: int | None = None) -> None:
    """As the agent is now, or as it was released."""
    if release_id is None:
        schedule.perform(agent_id)
    else:
        rehearsed.perform(agent_id, release_id)


@shared_task
def ask_judge(run_id: int = 0) -> None:
    wakes.perform_due(outside.due_runs, outside.perform)
