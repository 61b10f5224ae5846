"""Periodic work that must not depend on a scheduler: start due work, resume interrupted work, send again.

The scheduler performs it every few seconds. Each worker process performs it too, less often, because a
scheduler that is down, or whose clock was set back by a day, must not stop all enumeration. Each function may
run in any process, at any time, and twice.
"""

import logging
import random
import threading

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from django.utils.module_loading import import_string

logger = logging.getLogger(__name__)

SWEEP_EVERY = 10.0  # seconds
TICK = "catalog.enumeration.schedule.tick"
WORK = (
    TICK,
    "execution.calls.queue.sweep",
    "execution.calls.challenges.tick",
    "serving.resumed_calls.tick",
    "catalog.notifications.dispatch.tick",
    "designer.rehearsals.schedule.tick",
    "designer.translations.runs.tick",
)


def perform(name: str) -> None:
    """Run one function and log its errors, so that the caller continues."""
    close_old_connections()
    try:
        import_string(name)()
    except DatabaseError as exc:
        logger.warning("the database is unreachable: %s", exc)
    except Exception:
        logger.exception("%s failed and will be repeated", name)


def begin(**_: object) -> None:
    """Start a thread that performs the work in this worker process."""

    def sweep() -> None:
        pause = threading.Event()
        # Avoids that all processes run at the same moment.
        pause.wait(random.uniform(0, SWEEP_EVERY))  # noqa: S311 - only spreads the load
        while True:
            for name in WORK:
                perform(name)
            connection.close()
            pause.wait(SWEEP_EVERY)

    threading.Thread(target=sweep, name="sweep", daemon=True).start()
