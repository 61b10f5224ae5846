"""Messages that wake workers. The queue is in PostgreSQL, so a message may be lost or arrive late.

A message names a row that is due when it is sent. The worker that receives it performs all due rows, the
oldest first, until none is left or its time is over. Few messages of a task are queued at any time,
regardless of how many rows wait. docs/decisions/0076-queue-of-calls.md has the reasons.
"""

import json
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import redis
from celery import current_app
from django.conf import settings
from django.db.models import QuerySet
from kombu.exceptions import OperationalError as BrokerError

from core import redis_client, task_dispatch

# Per task and queue: the number of threads of the largest worker.
MAX_WAKES = 64
# The newest messages of a longer queue include all messages of a task, because their number is bounded.
MAX_READ = 1_000
# A task starts no new row after this many seconds.
TASK_SECONDS = 60.0


def count_wakes(task: str, queue: str) -> int:
    """Return the number of messages of this task that no worker has received yet. Raises BrokerError."""
    try:
        messages = redis_client.client().lrange(queue, 0, MAX_READ - 1)
    except redis.RedisError as exc:
        raise BrokerError(str(exc)) from exc
    return sum(json.loads(message)["headers"]["task"] == task for message in messages)


def wake_worker(task: str, *arguments: object, queue: str = "") -> bool:
    """Send a message, unless enough messages of the task are queued. Return whether the broker answered."""
    queue = queue or settings.CELERY_TASK_DEFAULT_QUEUE

    def send() -> None:
        if count_wakes(task, queue) < MAX_WAKES:
            current_app.send_task(task, args=list(arguments), queue=queue)

    return task_dispatch.dispatch(send, f"{task} {' '.join(map(str, arguments))}")


def send_job(task: str, *arguments: object) -> bool:
    """Send a message about work that has no row. Return whether it is queued, which a full queue refuses."""
    queue = settings.CELERY_TASK_DEFAULT_QUEUE

    def send() -> None:
        if count_wakes(task, queue) >= MAX_WAKES:
            raise BrokerError(f"{MAX_WAKES} messages of this task are queued")
        current_app.send_task(task, args=list(arguments), queue=queue)

    return task_dispatch.dispatch(send, f"{task} {' '.join(map(str, arguments))}")


def send_missing(task: str, due: Iterable[Any], *, queue: str = "") -> None:
    """Send messages until as many are queued as rows are due, at most `MAX_WAKES`.

    due: the argument of the task for each due row, the oldest first.
    """
    due = list(islice(due, MAX_WAKES))
    queue = queue or settings.CELERY_TASK_DEFAULT_QUEUE
    if not due:
        return

    def send() -> None:
        missing = len(due) - count_wakes(task, queue)
        for argument in due[: max(0, missing)]:
            current_app.send_task(task, args=[argument], queue=queue)

    task_dispatch.dispatch(send, f"{task} of {len(due)} rows")


def perform_due(
    due: Callable[[], QuerySet[Any]], perform: Callable[[Any], object], *, seconds: float = TASK_SECONDS
) -> None:
    """Perform each due row once, until none is left or the time is over.

    perform: receives the primary key and claims the row, because another worker may be faster.
    """
    ends = time.monotonic() + seconds
    performed: set[Any] = set()
    while time.monotonic() < ends:
        pk = due().exclude(pk__in=performed).values_list("pk", flat=True).first()
        if pk is None:
            return
        performed.add(pk)
        perform(pk)
