"""Send messages to workers. A message is a hint: the work it names is in PostgreSQL and is found without it.

Therefore no process waits for an unreachable broker, and no page waits for a slow one.
"""

import logging
import threading
from collections.abc import Callable

from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

logger = logging.getLogger(__name__)


def dispatch(send: Callable[[], object], description: str) -> bool:
    """Call `send` and return whether the broker accepted its message, within settings.BROKER_TIMEOUT seconds.

    description: the work, for the log. If the broker did not accept the message, a worker finds the work
    later.
    """
    if settings.BROKER_TIMEOUT is None:
        return _try_send(send, description)
    results: list[bool] = []
    thread = threading.Thread(
        target=lambda: results.append(_try_send(send, description)), name="dispatch", daemon=True
    )
    thread.start()
    thread.join(settings.BROKER_TIMEOUT)
    return results == [True]


def _try_send(send: Callable[[], object], description: str) -> bool:
    try:
        send()
    except (BrokerError, OSError) as exc:
        logger.warning("%s waits for the broker: %s", description, exc)
        return False
    return True
