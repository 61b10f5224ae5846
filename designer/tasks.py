"""What workers do for designers. A task takes ids, may run twice, and calls one function."""

from celery import shared_task

from core import portions, wakes
from designer.rehearsals import outside, schedule
from designer.releases import rehearsed

# The portion that was begun last has to end before.
JUDGE_LIMIT = 330


# Its size is bounded: 200 sentences and 1,000 tools take some seconds.
@shared_task(soft_time_limit=portions.TASK_LIMIT)
def rehearse(agent_id: int, release_id: int | None = None) -> None:
    """As the agent is now, or as it was released."""
    if release_id is None:
        schedule.perform(agent_id)
    else:
        rehearsed.perform(agent_id, release_id)


@shared_task(soft_time_limit=JUDGE_LIMIT)
def ask_judge(run_id: int = 0) -> None:
    wakes.perform_due(outside.due_runs, outside.perform)
