"""Messages that wake workers. The work that waits is in PostgreSQL, so any message may be lost or come late.

A message names a row that is due when it is sent. The worker that receives it performs what is due by then,
the oldest first, until nothing is due or the time of its task is over. So no more than a few messages of a
task are ever queued, however long its rows wait and however many processes look for them.
docs/decisions/0076-queue-of-calls.md has the reasons.
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

# Of one task in one queue: as many as the largest worker has threads.
MAX_WAKES = 64
# The newest messages of a longer queue include all of a task, whose number is bounded.
MAX_READ = 1_000
# A task begins no other row after so many seconds.
TASK_SECONDS = 60.0


def count_wakes(task: str, queue: str) -> int:
    """Return how many messages of this task no worker has received yet. Raises BrokerError."""
    try:
        messages = redis_client.client().lrange(queue, 0, MAX_READ - 1)
    except redis.RedisError as exc:
        raise BrokerError(str(exc)) from exc
    return sum(json.loads(message)["headers"]["task"] == task for message in messages)


def wake_worker(task: str, *arguments: object, queue: str = "") -> bool:
    """Send a message, unless enough of the task are queued. Return whether the broker could be reached."""
    queue = queue or settings.CELERY_TASK_DEFAULT_QUEUE

    def send() -> None:
        if count_wakes(task, queue) < MAX_WAKES:
            current_app.send_task(task, args=list(arguments), queue=queue)

    return task_dispatch.give(send, f"{task} {' '.join(map(str, arguments))}")


def send_missing(task: str, due: Iterable[Any], *, queue: str = "") -> None:
    """Send as many messages as fewer of the task are queued than rows are due.

    `due` are their arguments, one for each row, the oldest first; `MAX_WAKES` of them are read.
    """
    due = list(islice(due, MAX_WAKES))
    queue = queue or settings.CELERY_TASK_DEFAULT_QUEUE
    if not due:
        return

    def send() -> None:
        missing = len(due) - count_wakes(task, queue)
        for argument in due[: max(0, missing)]:
            current_app.send_task(task, args=[argument], queue=queue)

    task_dispatch.give(send, f"{task} of {len(due)} rows")


def perform_due(
    due: Callable[[], QuerySet[Any]], perform: Callable[[Any], object], *, seconds: float = TASK_SECONDS
) -> None:
    """Perform the rows that are due, each once, until none is left or the time is over.

    `perform` gets the primary key and claims the row itself, because another worker may be faster.
    """
    ends = time.monotonic() + seconds
    performed: set[Any] = set()
    while time.monotonic() < ends:
        pk = due().exclude(pk__in=performed).values_list("pk", flat=True).first()
        if pk is None:
            return
        performed.add(pk)
        perform(pk)
