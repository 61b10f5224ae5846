"""Tasks of calls and grants. Their names are those that earlier releases send and know."""

import time

from celery import shared_task

from catalog.tasks import PORTION_LIMIT, RUN_LIMIT
from core import portions, wakes
from execution.calls import call_keys, challenges, invocation
from execution.threads import threads
from execution.user_grants import end_users


@shared_task(name="catalog.tasks.perform_call", soft_time_limit=RUN_LIMIT)
def perform_call(call_id: int = 0) -> None:
    """Perform the calls that are due. call_id: for workers of earlier releases, which run only this call."""
    invocation.perform_due_calls()


@shared_task(name="catalog.tasks.forget_call_ids", soft_time_limit=portions.TASK_LIMIT)
def forget_call_ids() -> None:
    if call_keys.forget_ids():
        wakes.wake_worker(forget_call_ids.name)


@shared_task(name="catalog.tasks.forget_threads", soft_time_limit=portions.TASK_LIMIT)
def forget_threads() -> None:
    if threads.forget(ends=time.monotonic() + portions.SECONDS):
        wakes.wake_worker(forget_threads.name)


@shared_task(name="catalog.tasks.check_user_grant", soft_time_limit=PORTION_LIMIT)
def check_user_grant(grant_id: str = "") -> None:
    wakes.perform_due(challenges.due_checks, challenges.check)


@shared_task(name="catalog.tasks.forget_end_users", soft_time_limit=portions.TASK_LIMIT)
def forget_end_users() -> None:
    if end_users.forget_idle():
        wakes.wake_worker(forget_end_users.name)
