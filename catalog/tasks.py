"""Celery tasks. A task accepts ids, may run twice, and calls one function."""

import math
import time
import uuid
from datetime import timedelta
from functools import partial

from celery import Task, shared_task
from django.conf import settings
from django.utils import timezone

from catalog import retention
from catalog.credentials.oauth import renewal
from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models.runs import RunStatus
from catalog.pictures import fetching
from catalog.review import inspector
from catalog.search import changes, recorded_searches
from catalog.second_look import runs as second_look
from catalog.tools import effective_texts
from catalog.translations import scan
from catalog.vendors import detection_jobs
from core import portions, task_dispatch, wakes
from core.failpoints import failpoint

# After that, what a run left to do has been done by the tasks that run once a minute.
LEFT_TO_OTHERS = timedelta(minutes=2)
# Seconds after its start in which a task begins another portion, and after which it is ended.
PORTION_SECONDS, PORTION_LIMIT = 200.0, 300
# For work that follows other work in the same task.
FEW_SECONDS = 30.0
# A run without parts may take 300 seconds, so a task starts no other run after this many seconds. A pool of
# threads does not end tasks.
BEGIN_RUN_SECONDS, RUN_LIMIT = 20.0, 350
# A detection takes less than a minute; afterwards its page offers to try again.
DETECTION_LIMIT = 110
# Pictures are the least urgent work: after so many seconds, a worker is free for other work.
FETCH_PICTURES_SECONDS = 20.0
RENEW_TOKEN = "catalog.tasks.renew_token"  # noqa: S105 - the name of a task


@shared_task(bind=True, soft_time_limit=RUN_LIMIT)
def enumerate_endpoint(task: "Task[..., None]", run_id: int = 0) -> None:
    """Perform the runs that are due in the queue of this message.

    run_id: for workers of earlier releases, which perform exactly this run.
    """
    delivery = task.request.delivery_info or {}
    queue = str(delivery.get("routing_key", settings.CELERY_TASK_DEFAULT_QUEUE))
    due_runs = partial(enumeration_runs.due_runs, queue)
    ends = time.monotonic() + PORTION_SECONDS
    wakes.perform_due(due_runs, partial(enumerate_run, ends=ends), seconds=BEGIN_RUN_SECONDS)


def enumerate_run(run_id: int, *, ends: float = math.inf) -> None:
    """Run the enumeration and its follow-up tasks. No portion of them begins after `ends`
    (time.monotonic).
    """
    run = enumeration_runs.perform(run_id)
    # A message that is delivered again much later does nothing, so that a long queue does not grow by itself.
    if run.status == RunStatus.SUCCEEDED and (
        run.finished_at is not None and timezone.now() - run.finished_at < LEFT_TO_OTHERS
    ):
        inspector.inspect_pending(run.endpoint_id, ends=ends)
        scan.scan_pending(ends=ends)
        # If the broker is unavailable, the next run does it.
        task_dispatch.dispatch(partial(read_versions.delay, run.endpoint_id), "reading older versions")
        failpoint("done")


@shared_task(soft_time_limit=DETECTION_LIMIT)
def detect_protocol(job_id: str) -> None:
    detection_jobs.perform(uuid.UUID(job_id))


@shared_task(soft_time_limit=PORTION_LIMIT)
def index_pending(endpoint_id: int | None = None) -> None:
    """Write texts that are not indexed yet, and delete changes that every index has read. Once a minute.

    Each host writes its own index. Workers of earlier releases send the number of an endpoint.
    """
    effective_texts.catch_up(ends=time.monotonic() + PORTION_SECONDS)
    scan.scan_pending(ends=time.monotonic() + FEW_SECONDS)
    changes.delete_old()


@shared_task(soft_time_limit=PORTION_LIMIT)
def inspect_pending() -> None:
    """Inspect versions that are not yet inspected, and all versions after the rules have changed. Once a
    minute.
    """
    inspector.inspect_pending(ends=time.monotonic() + PORTION_SECONDS)


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def fetch_pictures() -> None:
    """Fetch the images of tools that are due. Once a minute."""
    fetching.fetch_due(ends=time.monotonic() + FETCH_PICTURES_SECONDS)


@shared_task(soft_time_limit=PORTION_LIMIT)
def read_versions(endpoint_id: int, after: int = 0) -> None:
    """Read a batch of older versions, and send a message for the next batch."""
    last = older_versions.read_pending(endpoint_id, after)
    if last is not None:
        read_versions.delay(endpoint_id, last)


@shared_task(soft_time_limit=PORTION_LIMIT)
def second_looks() -> None:
    """Read endpoints as another caller, each about once a week. Once a minute."""
    second_look.tick()


@shared_task(soft_time_limit=RUN_LIMIT)
def look_again(endpoint_id: int) -> None:
    second_look.perform(endpoint_id)


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def delete_old_rows() -> None:
    """Delete old runs, calls and searches, and unused pictures, and answer unmet needs, once an hour."""
    fetching.delete_unused()
    recorded_searches.delete_old()
    recorded_searches.find_answers()
    if retention.delete_old(ends=time.monotonic() + portions.SECONDS):
        wakes.wake_worker(delete_old_rows.name)


@shared_task(soft_time_limit=PORTION_LIMIT)
def renew_tokens() -> None:
    """Renew access tokens that are used and expire soon, so that no run waits for one. Twice a minute."""
    for credential_id in renewal.due():
        wakes.wake_worker(RENEW_TOKEN, str(credential_id))


@shared_task(soft_time_limit=PORTION_LIMIT)
def renew_token(credential_id: str) -> None:
    renewal.renew_early(uuid.UUID(credential_id))
