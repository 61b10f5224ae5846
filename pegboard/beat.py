"""The scheduler: calls `enumeration.tick` in its own process, so that it works while the broker is away."""

import logging
from typing import Any

from celery.beat import ScheduleEntry, Scheduler
from django.db import Error as DatabaseError
from django.db import close_old_connections

from catalog import enumeration

logger = logging.getLogger(__name__)

TICK = "catalog.enumeration.tick"


class InProcessScheduler(Scheduler):
    """Keeps no file, because what is due is in PostgreSQL. Everything but the tick goes out as a message."""

    # The inherited one waits for the broker for ever, and no tick would run meanwhile.
    producer = None  # type: ignore[assignment]

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        if entry.task != TICK:
            super().apply_entry(entry, producer)
            return
        close_old_connections()
        try:
            enumeration.tick()
        except DatabaseError as exc:
            logger.warning("the database is away: %s", exc)
        except Exception:
            logger.exception("a tick failed; the next one tries again")
