"""The rate limit of an endpoint: requests per second, and concurrent requests.

All processes share it through the broker's server, where one script grants a turn or returns the waiting
time.
Without that server each process applies the limit alone. docs/decisions/0014-pacing.md has the reasons.
"""

import logging
import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import redis

from catalog.models import Endpoint
from core import redis_client
from core.outbound.errors import UnavailableError
from core.outbound.session import Turns

logger = logging.getLogger(__name__)

# A request is sent a moment after its turn. Without the margin, a vendor might count one too many.
WINDOW = 1.05
# A waiting session occupies a worker.
MAX_WAIT = 30.0
RETRY_EVERY = (0.03, 0.1)
# Each try may cost a timeout, which every turn would pay.
TRY_SERVER_AGAIN_AFTER = 5.0

# Returns the milliseconds to wait for the granted turn, -1 for too many concurrent requests, -2 for too long
# a wait. The script stores as many recent starts as one window allows, so no window exceeds the limit. The
# turn of a dead process ends with its lease.
TAKE_A_TURN = """
local busy, starts = KEYS[1], KEYS[2]
local turn_id, per_second, at_once = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local lease, window, patience = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now = tonumber(ARGV[7])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
redis.call('ZREMRANGEBYSCORE', busy, '-inf', now)
if redis.call('ZCARD', busy) >= at_once then return -1 end
local start, earlier = now, redis.call('LINDEX', starts, -per_second)
if earlier then start = math.max(now, tonumber(earlier) + window) end
if start - now > patience then return -2 end
redis.call('RPUSH', starts, string.format('%.0f', start))
redis.call('LTRIM', starts, -per_second, -1)
redis.call('PEXPIRE', starts, start - now + 2 * window)
redis.call('ZADD', busy, start + lease, turn_id)
redis.call('PEXPIRE', busy, start - now + lease + window)
return start - now
"""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The limit of an endpoint's settings. `key` identifies the endpoint."""

    key: str
    per_second: int
    at_once: int


def turns(endpoint: Endpoint) -> Turns:
    """Return the function that a session of this endpoint calls before each request. Drafts have no limit."""
    if endpoint.pk is None:
        return lambda patience, longest: nullcontext()
    limit = RateLimit(
        f"pegboard:pace:{{{endpoint.pk}}}", endpoint.requests_per_second, endpoint.requests_at_once
    )
    return partial(turn, limit)


@contextmanager
def turn(limit: RateLimit, patience: float, longest: float) -> Iterator[None]:
    """Wait for the turn of one request, at most `patience` seconds. The request may take `longest` seconds.

    Raises UnavailableError `BUSY`.
    """
    turn_id = uuid.uuid4().hex
    ends = time.monotonic() + min(patience, MAX_WAIT)
    while True:
        waited_for = _reserve_turn(limit, turn_id, max(0.0, ends - time.monotonic()), longest)
        if waited_for >= 0:
            if waited_for:
                time.sleep(waited_for)
            break
        if time.monotonic() >= ends or waited_for == -2:
            message = (
                f"Too many requests wait for this endpoint. Its limit is {limit.per_second} per second."
                if waited_for == -2
                else (
                    f"{limit.at_once} requests to this endpoint are running, which is the limit in its "
                    "settings."
                )
            )
            raise UnavailableError("BUSY", message)
        time.sleep(random.uniform(*RETRY_EVERY))  # noqa: S311 - spreads waiting, guards nothing
    try:
        yield
    finally:
        # Lost with the server, it ends by itself.
        with suppress(redis.RedisError):
            if not _local.is_server_away:
                redis_client.send("ZREM", f"{limit.key}:busy", turn_id)


def _reserve_turn(limit: RateLimit, turn_id: str, patience: float, longest: float) -> float:
    # Seconds to wait for the turn that was taken, or -1 or -2 as the script has them.
    if not _local.is_server_away:
        try:
            wait = take(limit, turn_id, patience, longest)
        except redis.RedisError as exc:
            logger.warning("the broker's server is away, so this process keeps the limit alone: %s", exc)
            _local.server_is_away()
        else:
            return wait / 1000 if wait >= 0 else wait
    return _local.wait(limit)


def take(limit: RateLimit, turn_id: str, patience: float, longest: float, now: float | None = None) -> int:
    """Run TAKE_A_TURN and return its result. now: seconds that replace the server's clock.

    Raises redis.RedisError.
    """
    milliseconds = [round(seconds * 1000) for seconds in (longest, WINDOW, patience)]
    clock = "" if now is None else round(now * 1000)
    keys = (f"{limit.key}:busy", f"{limit.key}:starts")
    arguments = (turn_id, limit.per_second, limit.at_once, *milliseconds, clock)
    return int(redis_client.execute("EVAL", TAKE_A_TURN, len(keys), *keys, *arguments))


class _LocalLimit:
    """The limit of this process while the server that shares it is away: evenly spaced requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}
        self._away_until = 0.0

    @property
    def is_server_away(self) -> bool:
        return time.monotonic() < self._away_until

    def server_is_away(self) -> None:
        self._away_until = time.monotonic() + TRY_SERVER_AGAIN_AFTER

    def wait(self, limit: RateLimit) -> float:
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next.get(limit.key, 0.0))
            self._next[limit.key] = start + 1 / limit.per_second
            return start - now


_local = _LocalLimit()
