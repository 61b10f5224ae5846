"""The scheduler: calls `enumeration.tick` in its own process, so that it works while the broker is away."""

import logging
from typing import Any

from celery.beat import ScheduleEntry, Scheduler
from django.db import Error as DatabaseError
from django.db import close_old_connections

from catalog import enumeration

logger = logging.getLogger(__name__)


class InProcessScheduler(Scheduler):
    """Keeps no file: what is due is in PostgreSQL, and the only entry is the tick."""

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        close_old_connections()
        try:
            enumeration.tick()
        except DatabaseError as exc:
            logger.warning("the database is away: %s", exc)
