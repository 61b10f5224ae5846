"""The scheduler: what needs no worker runs in its own process, and so while the broker is away."""

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
# Many ticks long, so that one that is late does not look like a scheduler that is gone.
ALIVE_SECONDS = 60
SPREAD = timedelta(seconds=5)


class InProcessScheduler(Scheduler):
    """Keeps no file, because what is due is in PostgreSQL. All but `periodic.WORK` is sent as messages."""

    # The inherited one waits for the broker for ever, and no tick would run meanwhile.
    producer = None  # type: ignore[assignment]

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Tells pages, `doctor` and the container's health check that a scheduler runs.

        It also runs while that cannot be stored.
        """
        report_ready()
        with suppress(redis.RedisError):
            redis_client.client().set(ALIVE, int(time.time()), ex=ALIVE_SECONDS)
        wait: float = super().tick(*args, **kwargs)
        return wait

    def setup_schedule(self) -> None:
        """Spread the messages, because a worker starts a process for each of those that come at once."""
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
