"""What workers do for designers. A task takes ids, may run twice, and calls one function."""

from celery import shared_task

from designer.rehearsals import schedule


@shared_task
def rehearse(agent_id: int) -> None:
    schedule.perform(agent_id)
