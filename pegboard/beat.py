"""The scheduler: what needs no worker runs in its own process, so that it works while the broker is away."""

from typing import Any

from celery.beat import ScheduleEntry, Scheduler

from pegboard import sweeping


class InProcessScheduler(Scheduler):
    """Keeps no file, because what is due is in PostgreSQL. All but sweeping.WORK goes out as messages."""

    # The inherited one waits for the broker for ever, and no tick would run meanwhile.
    producer = None  # type: ignore[assignment]

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        if entry.task in sweeping.WORK:
            sweeping.perform(entry.task)
        else:
            super().apply_entry(entry, producer)
