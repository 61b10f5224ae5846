"""How often something was done in this minute, over all processes.

The counts live in the broker's server. While that is away each process counts for itself, so a limit
holds for each process instead of for all of them together: nobody is let in who was kept out, and
nobody waits for a server that does not answer.
"""

import threading
import time
from collections import Counter
from collections.abc import Sequence

import redis

from people import broker

MINUTE = 60
AWAY_SECONDS = 5.0  # after a failure, the server is left alone for so long
_KEY = "pegboard:limit"
_lock = threading.Lock()
_own: Counter[str] = Counter()
_own_minute = 0
_away_until = 0.0


def count(names: Sequence[str], now: float) -> list[int]:
    """Counts each of `names` once more and answers with how often that makes, in the minute of `now`.

    `now` is in seconds since 1970.
    """
    minute = int(now) // MINUTE
    global _away_until
    if time.monotonic() >= _away_until:
        try:
            return _count_in_server([f"{_KEY}:{minute}:{name}" for name in names])
        except (redis.RedisError, OSError):
            _away_until = time.monotonic() + AWAY_SECONDS
    return _count_here(names, minute)


def seconds_left(now: float) -> int:
    """Until the next minute begins, from 1 to 60."""
    return MINUTE - int(now) % MINUTE


def _count_in_server(keys: list[str]) -> list[int]:
    with broker.client().pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.incr(key)
            pipeline.expire(key, 2 * MINUTE)
        return [int(each) for each in pipeline.execute()[::2]]


def _count_here(names: Sequence[str], minute: int) -> list[int]:
    global _own_minute
    with _lock:
        if minute != _own_minute:
            _own.clear()
            _own_minute = minute
        _own.update(names)
        return [_own[name] for name in names]
