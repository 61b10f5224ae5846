"""Messages to workers are hints: what they speak of is in PostgreSQL, and is found without them.

So nobody waits for a broker that is away, and no page for one that dawdles.
"""

import logging
import threading
from collections.abc import Callable

from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

logger = logging.getLogger(__name__)


def give(send: Callable[[], object], what: str) -> bool:
    """Whether `send` has handed its message over, in a page within settings.BROKER_PATIENCE seconds.

    Otherwise `what`, which a log line begins with, waits until somebody looks for it.
    """
    if settings.BROKER_PATIENCE is None:
        return _give(send, what)
    given: list[bool] = []
    thread = threading.Thread(target=lambda: given.append(_give(send, what)), name="hint", daemon=True)
    thread.start()
    thread.join(settings.BROKER_PATIENCE)
    return given == [True]


def _give(send: Callable[[], object], what: str) -> bool:
    try:
        send()
    except (BrokerError, OSError) as exc:
        logger.warning("%s waits for the broker: %s", what, exc)
        return False
    return True
