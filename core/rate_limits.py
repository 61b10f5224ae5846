"""How often something was done in this minute, over all processes.

The counts live in the broker's server. While that is away each process counts for itself, so a limit
holds for each process instead of for all of them together: nobody is let in who was kept out, and
nobody waits for a server that does not answer.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import redis

from core import redis_client

MINUTE = 60
BLOCKS = 1_000
AWAY_SECONDS = 5.0  # after a failure, the server is left alone for so long
_KEY = "pegboard:limit"
_lock = threading.Lock()
_own: Counter[str] = Counter()
# By name: the minute, and how many more this process may let through of what it has counted already.
_blocks: dict[str, tuple[int, int]] = {}
_own_minute = 0
_away_until = 0.0


def spend(allowed: Mapping[str, int], now: float) -> bool:
    """Whether each of these may be done once more in the minute of `now`; as often as each says, at most.

    The server is asked for a thousandth of the limit at a time, and what is not done of it in this process is
    lost with the minute. So no more is ever let through than the limit, and at most so much less.
    """
    minute = int(now) // MINUTE
    wanted = [name for name in allowed if not _take_from_block(name, minute)]
    if not wanted:
        return True
    blocks = [max(1, allowed[name] // BLOCKS) for name in wanted]
    ends = count(wanted, now, blocks)
    is_allowed = True
    for name, block, end in zip(wanted, blocks, ends, strict=True):
        left = min(end, allowed[name]) - (end - block)
        is_allowed = is_allowed and left > 0
        _keep_block(name, minute, left - 1)
    return is_allowed


def _take_from_block(name: str, minute: int) -> bool:
    with _lock:
        of, left = _blocks.get(name, (minute, 0))
        if of != minute or left <= 0:
            return False
        _blocks[name] = (minute, left - 1)
        return True


def _keep_block(name: str, minute: int, left: int) -> None:
    with _lock:
        if left <= 0:
            return
        for old in [other for other, (of, _) in _blocks.items() if of != minute]:
            del _blocks[old]
        _, more = _blocks.get(name, (minute, 0))
        _blocks[name] = (minute, left + more)


def count(names: Sequence[str], now: float, times: Sequence[int] = ()) -> list[int]:
    """Counts each of `names` once more, or so many times, and answers with how often that makes.

    In the minute of `now`, which is in seconds since 1970.
    """
    times = times or [1] * len(names)
    minute = int(now) // MINUTE
    global _away_until
    if time.monotonic() >= _away_until:
        try:
            return _count_in_server([f"{_KEY}:{minute}:{name}" for name in names], times)
        except (redis.RedisError, OSError):
            _away_until = time.monotonic() + AWAY_SECONDS
    return _count_here(names, minute, times)


def seconds_left(now: float) -> int:
    """Until the next minute begins, from 1 to 60."""
    return MINUTE - int(now) % MINUTE


def _count_in_server(keys: Sequence[str], times: Sequence[int]) -> list[int]:
    with redis_client.client().pipeline(transaction=False) as pipeline:
        for key, more in zip(keys, times, strict=True):
            pipeline.incrby(key, more)
            pipeline.expire(key, 2 * MINUTE)
        return [int(each) for each in pipeline.execute()[::2]]


def _count_here(names: Sequence[str], minute: int, times: Sequence[int]) -> list[int]:
    global _own_minute
    with _lock:
        if minute != _own_minute:
            _own.clear()
            _own_minute = minute
        _own.update(dict(zip(names, times, strict=True)))
        return [_own[name] for name in names]
