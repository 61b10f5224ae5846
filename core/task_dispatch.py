"""Messages to workers are hints: the work they name is in PostgreSQL, and is found without them.

So no process waits for a broker that is away, and no page for one that is slow.
"""

import logging
import threading
from collections.abc import Callable

from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

logger = logging.getLogger(__name__)


def give(send: Callable[[], object], what: str) -> bool:
    """Whether `send` has handed its message over; for a page within settings.BROKER_TIMEOUT seconds.

    Otherwise `what`, with which a log line begins, waits until a worker looks for it.
    """
    if settings.BROKER_TIMEOUT is None:
        return _give(send, what)
    given: list[bool] = []
    thread = threading.Thread(target=lambda: given.append(_give(send, what)), name="dispatch", daemon=True)
    thread.start()
    thread.join(settings.BROKER_TIMEOUT)
    return given == [True]


def _give(send: Callable[[], object], what: str) -> bool:
    try:
        send()
    except (BrokerError, OSError) as exc:
        logger.warning("%s waits for the broker: %s", what, exc)
        return False
    return True
