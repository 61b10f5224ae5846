"""How often something was done in the current minute, over all processes.

The counts are kept in the broker's server. While that is away, each process counts alone: a limit then holds
for each process instead of for all together. No request waits for a server that does not answer.
docs/decisions/0041-limits-and-deadlines.md says why neither Django's cache nor DRF's throttles count here.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import redis

from core import redis_client

MINUTE = 60
BLOCKS = 1_000
AWAY_SECONDS = 5.0  # for so long the server is not asked again after a failure
_KEY = "pegboard:limit"
_lock = threading.Lock()
_own: Counter[str] = Counter()
# By name: the minute, and how many more this process may let through of what it has counted already.
_blocks: dict[str, tuple[int, int]] = {}
_own_minute = 0
_away_until = 0.0


def spend(allowed: Mapping[str, int], now: float) -> bool:
    """Whether each of these may be done once more in the minute of `now`; as often as each says, at most."""
    # The server is asked for a thousandth of a limit at a time; what this process does not use of it is lost
    # with the minute. So never more than the limit is let through, and at most that much less.
    minute = int(now) // MINUTE
    with _lock:
        wanted = []
        for name in allowed:
            of, left = _blocks.get(name, (minute, 0))
            if of == minute and left > 0:
                _blocks[name] = (minute, left - 1)
            else:
                wanted.append(name)
    if not wanted:
        return True
    blocks = [max(1, allowed[name] // BLOCKS) for name in wanted]
    ends = count(wanted, now, blocks)
    is_allowed = True
    with _lock:
        for old in [name for name, (of, _) in _blocks.items() if of != minute]:
            del _blocks[old]
        for name, block, end in zip(wanted, blocks, ends, strict=True):
            left = min(end, allowed[name]) - (end - block)
            is_allowed = is_allowed and left > 0
            if left > 1:
                _, more = _blocks.get(name, (minute, 0))
                _blocks[name] = (minute, left - 1 + more)
    return is_allowed


def count(names: Sequence[str], now: float, times: Sequence[int] = ()) -> list[int]:
    """Counts each of `names` once more, or so many `times`; returns the new counts.

    In the minute of `now`, which is in seconds since 1970.
    """
    times = times or [1] * len(names)
    minute = int(now) // MINUTE
    global _away_until, _own_minute
    if time.monotonic() >= _away_until:
        try:
            return _count_in_server([f"{_KEY}:{minute}:{name}" for name in names], times)
        except (redis.RedisError, OSError):
            _away_until = time.monotonic() + AWAY_SECONDS
    with _lock:
        if minute != _own_minute:
            _own.clear()
            _own_minute = minute
        _own.update(dict(zip(names, times, strict=True)))
        return [_own[name] for name in names]


def _count_in_server(keys: Sequence[str], times: Sequence[int]) -> list[int]:
    with redis_client.client().pipeline(transaction=False) as pipeline:
        for key, more in zip(keys, times, strict=True):
            pipeline.incrby(key, more)
            pipeline.expire(key, 2 * MINUTE)
        return [int(each) for each in pipeline.execute()[::2]]


def seconds_left(now: float) -> int:
    """Until the next minute begins, from 1 to 60."""
    return MINUTE - int(now) % MINUTE
