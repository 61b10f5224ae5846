"""Rate limits per minute over all processes.

The counts are in Redis. While it is unreachable, each process counts alone, so a limit applies per process.
No request waits for a server that does not answer. docs/decisions/0041-limits-and-deadlines.md explains why
neither Django's cache nor DRF's throttles are used.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import redis

from core import redis_client

MINUTE = 60
BLOCKS = 1_000
AWAY_SECONDS = 5.0  # without a new attempt after a failure
_KEY = "pegboard:limit"
_lock = threading.Lock()
_local_counts: Counter[str] = Counter()
# By name: the minute, and how many more this process may allow of the block that it has reserved.
_blocks: dict[str, tuple[int, int]] = {}
_local_minute = 0
_away_until = 0.0


def spend(allowed: Mapping[str, int], now: float) -> bool:
    """Count one use of each name in the minute of `now`. Return whether all are within their limits.

    allowed: the limit per minute by name.
    """
    # A process reserves a thousandth of a limit at a time and loses what it does not use when the minute
    # ends. So the total is never above the limit, and only slightly below it.
    minute = int(now) // MINUTE
    with _lock:
        missing = []
        for name in allowed:
            block_minute, remaining = _blocks.get(name, (minute, 0))
            if block_minute == minute and remaining > 0:
                _blocks[name] = (minute, remaining - 1)
            else:
                missing.append(name)
    if not missing:
        return True
    blocks = [max(1, allowed[name] // BLOCKS) for name in missing]
    ends = count(missing, now, blocks)
    is_allowed = True
    with _lock:
        for name in [name for name, (block_minute, _) in _blocks.items() if block_minute != minute]:
            del _blocks[name]
        for name, block, end in zip(missing, blocks, ends, strict=True):
            remaining = min(end, allowed[name]) - (end - block)
            is_allowed = is_allowed and remaining > 0
            if remaining > 1:
                _, more = _blocks.get(name, (minute, 0))
                _blocks[name] = (minute, remaining - 1 + more)
    return is_allowed


def count(names: Sequence[str], now: float, times: Sequence[int] = ()) -> list[int]:
    """Add one to the count of each name, or `times`, in the minute of `now` (Unix seconds). Return the
    counts."""
    times = times or [1] * len(names)
    minute = int(now) // MINUTE
    global _away_until, _local_minute
    if time.monotonic() >= _away_until:
        try:
            with redis_client.client().pipeline(transaction=False) as pipeline:
                for name, more in zip(names, times, strict=True):
                    pipeline.incrby(f"{_KEY}:{minute}:{name}", more)
                    pipeline.expire(f"{_KEY}:{minute}:{name}", 2 * MINUTE)
                return [int(total) for total in pipeline.execute()[::2]]
        except (redis.RedisError, OSError):
            _away_until = time.monotonic() + AWAY_SECONDS
    with _lock:
        if minute != _local_minute:
            _local_counts.clear()
            _local_minute = minute
        _local_counts.update(dict(zip(names, times, strict=True)))
        return [_local_counts[name] for name in names]


def seconds_left(now: float) -> int:
    """Return the seconds until the next minute begins, from 1 to 60."""
    return MINUTE - int(now) % MINUTE
