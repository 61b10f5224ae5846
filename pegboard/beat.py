"""The scheduler: what needs no worker runs in its own process, so that it works while the broker is away."""

import logging
from typing import Any

from celery.beat import ScheduleEntry, Scheduler
from django.db import Error as DatabaseError
from django.db import close_old_connections

from catalog import enumeration, invocation
from catalog.notifications import dispatch

logger = logging.getLogger(__name__)

TICK = "catalog.enumeration.tick"
IN_PROCESS = {
    TICK: enumeration.tick,
    "catalog.invocation.sweep": invocation.sweep,
    "catalog.notifications.dispatch.tick": dispatch.tick,
}


class InProcessScheduler(Scheduler):
    """Keeps no file, because what is due is in PostgreSQL. All but IN_PROCESS goes out as messages."""

    # The inherited one waits for the broker for ever, and no tick would run meanwhile.
    producer = None  # type: ignore[assignment]

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        work = IN_PROCESS.get(entry.task or "")
        if work is None:
            super().apply_entry(entry, producer)
            return
        close_old_connections()
        try:
            work()
        except DatabaseError as exc:
            logger.warning("the database is away: %s", exc)
        except Exception:
            logger.exception("%s failed; the next one tries again", entry.task)
