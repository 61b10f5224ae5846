"""The scheduler. Work that needs no worker runs in its own process, so it continues while the broker is
down."""

import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import redis
from celery.beat import ScheduleEntry, Scheduler
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from core import redis_client, wakes
from pegboard import periodic
from pegboard.celery import report_ready

ALIVE = "pegboard:scheduler"
# Many ticks long, so that one late tick does not look like a missing scheduler.
ALIVE_SECONDS = 60
SPREAD = timedelta(seconds=5)


class InProcessScheduler(Scheduler):
    """A scheduler that stores no file, because due work is in PostgreSQL. It sends messages for all work but
    `periodic.WORK`."""

    # The inherited producer waits for the broker without limit, and no tick would run meanwhile.
    producer = None  # type: ignore[assignment]

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Record for pages, `doctor` and the health check of the container that a scheduler runs.

        A failure to record it does not stop the tick.
        """
        report_ready()
        with suppress(redis.RedisError):
            redis_client.client().set(ALIVE, int(time.time()), ex=ALIVE_SECONDS)
        wait: float = super().tick(*args, **kwargs)
        return wait

    def setup_schedule(self) -> None:
        """Spread the messages, because a worker starts a process for each message of a burst."""
        super().setup_schedule()
        messages = [entry for entry in self.schedule.values() if entry.task not in periodic.WORK]
        for position, entry in enumerate(messages):
            entry.last_run_at = entry.default_now() + position * SPREAD

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        if entry.task in periodic.WORK:
            periodic.perform(entry.task)
            return
        # While no worker receives messages, one of each is enough.
        with suppress(BrokerError):
            if not wakes.count_wakes(str(entry.task), settings.CELERY_TASK_DEFAULT_QUEUE):
                super().apply_entry(entry, producer)
