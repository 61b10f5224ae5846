"""What must happen whether or not a scheduler runs: start what is due, resume what died, send again.

The scheduler does it every few seconds. Each process of a worker does it too, more rarely, because a
scheduler that is down, or whose clock was set back by a day, must not stop all enumeration. All of it may
run anywhere, at any time and twice.
"""

import logging
import random
import threading

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from django.utils.module_loading import import_string

logger = logging.getLogger(__name__)

WORKERS_LOOK_EVERY = 10.0  # seconds
TICK = "catalog.enumeration.schedule.tick"
WORK = (
    TICK,
    "catalog.calls.queue.sweep",
    "catalog.calls.challenges.tick",
    "executor.resumed_calls.tick",
    "catalog.notifications.dispatch.tick",
    "designer.rehearsals.schedule.tick",
)


def perform(name: str) -> None:
    """Never raises, so that its caller runs on and calls it the next time."""
    close_old_connections()
    try:
        import_string(name)()
    except DatabaseError as exc:
        logger.warning("the database is away: %s", exc)
    except Exception:
        logger.exception("%s failed; the next one tries again", name)


def begin(**_: object) -> None:
    """In a worker's process, beside its tasks."""
    threading.Thread(target=_sweep, name="sweep", daemon=True).start()


def _sweep() -> None:
    pause = threading.Event()
    # Not all in step.
    pause.wait(random.uniform(0, WORKERS_LOOK_EVERY))  # noqa: S311 - spreads load, guards nothing
    while True:
        for name in WORK:
            perform(name)
        connection.close()
        pause.wait(WORKERS_LOOK_EVERY)
