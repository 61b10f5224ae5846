"""How hard an endpoint is asked: so many requests a second, so many at once, and none while it is down.

The pace is shared by all processes through the broker's server, where one script takes a turn or says
how long to wait. While that server is away each process keeps the pace alone. A circuit is a row in
PostgreSQL: what a reading meets keeps back the endpoint, what a call meets keeps back its tool.
docs/decisions/0014-pacing.md says why.
"""

import logging
import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import redis
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog.models import Circuit, Endpoint, Tool, ToolCircuit
from catalog.models.circuit import OpenCircuit
from catalog.protocols.base import Outcome
from core import redis_client
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.retry_after import DAY
from core.outbound.session import Turns

logger = logging.getLogger(__name__)

OPENS_AFTER = 5
LONGEST_WAIT = timedelta(seconds=DAY)
# Seconds, from and to: the first pause, the second, ...; the last one stays. Spread, so that endpoints which
# failed together do not come back together.
BACK_OFF = ((30, 40), (300, 375), (1_500, 1_875), (2_700, 3_600))
# A request leaves a moment after its turn has come; without the margin, a vendor could count one too many.
WINDOW = 1.05
PATIENCE = 30.0
LOOK_AGAIN = (0.03, 0.1)
TRUST_AGAIN = 5.0
# What our own rules brought about says nothing about the vendor.
OURS = {"BUSY", "CIRCUIT_OPEN", "UNSTABLE"}

# Milliseconds to wait for the turn that is taken with this; -1: too many at once; -2: it would take too long.
# Of the last starts as many are kept as may lie within one window, so no window ever holds more. Whoever
# dies with a turn loses it when its lease is over.
TAKE_A_TURN = """
local busy, starts = KEYS[1], KEYS[2]
local token, per_second, at_once = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
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
redis.call('ZADD', busy, start + lease, token)
redis.call('PEXPIRE', busy, start - now + lease + window)
return start - now
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """What an endpoint's settings allow; `key` tells endpoints apart."""

    key: str
    per_second: int
    at_once: int


def turns(endpoint: Endpoint) -> Turns:
    """What a session of this endpoint waits for before each request; a draft is asked once, by a person."""
    if endpoint.pk is None:
        return lambda patience, longest: nullcontext()
    pace = Pace(f"pegboard:pace:{{{endpoint.pk}}}", endpoint.requests_per_second, endpoint.requests_at_once)
    return partial(turn, pace)


@contextmanager
def turn(pace: Pace, patience: float, longest: float) -> Iterator[None]:
    """One request's turn, within `patience` seconds; the request itself takes up to `longest` seconds.

    Raises UnavailableError `BUSY`.
    """
    token = uuid.uuid4().hex
    ends = time.monotonic() + min(patience, PATIENCE)
    while True:
        waited_for = _take(pace, token, max(0.0, ends - time.monotonic()), longest)
        if waited_for >= 0:
            if waited_for:
                time.sleep(waited_for)
            break
        if time.monotonic() >= ends or waited_for == -2:
            raise UnavailableError("BUSY", _too_busy(pace, waited_for))
        time.sleep(random.uniform(*LOOK_AGAIN))  # noqa: S311 - spreads waiting, guards nothing
    try:
        yield
    finally:
        # Lost with the server, it ends by itself.
        with suppress(redis.RedisError):
            if not _alone.is_server_away:
                redis_client.client().zrem(f"{pace.key}:busy", token)


def _too_busy(pace: Pace, answer: float) -> str:
    if answer == -2:
        return (
            f"More requests wait for this endpoint than its {pace.per_second} a second let through in time."
        )
    return f"{pace.at_once} requests to this endpoint are under way already, as many as its settings allow."


def _take(pace: Pace, token: str, patience: float, longest: float) -> float:
    """Seconds to wait for the turn that was taken, or -1 or -2 as the script has them."""
    if not _alone.is_server_away:
        try:
            wait = take(pace, token, patience, longest)
        except redis.RedisError as exc:
            logger.warning("the broker's server is away, so this process keeps the pace alone: %s", exc)
            _alone.server_is_away()
        else:
            return wait / 1000 if wait >= 0 else wait
    return _alone.wait(pace)


def take(pace: Pace, token: str, patience: float, longest: float, now: float | None = None) -> int:
    """See TAKE_A_TURN. `now` in seconds stands in for the server's clock. Raises redis.RedisError."""
    milliseconds = [round(seconds * 1000) for seconds in (longest, WINDOW, patience)]
    clock = "" if now is None else round(now * 1000)
    keys = (f"{pace.key}:busy", f"{pace.key}:starts")
    given = (token, pace.per_second, pace.at_once, *milliseconds, clock)
    return int(redis_client.client().eval(TAKE_A_TURN, len(keys), *keys, *given))


class _Alone:
    """The pace of this process while there is nobody to share it with: evenly spaced requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}
        self._away_until = 0.0

    @property
    def is_server_away(self) -> bool:
        return time.monotonic() < self._away_until

    def server_is_away(self) -> None:
        self._away_until = time.monotonic() + TRUST_AGAIN

    def wait(self, pace: Pace) -> float:
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next.get(pace.key, 0.0))
            self._next[pace.key] = start + 1 / pace.per_second
            return start - now


_alone = _Alone()


def back_off(failures: int) -> timedelta:
    """How long to leave an endpoint alone after so many failures in a row: 30 s to 1 h."""
    pause = random.uniform(*BACK_OFF[min(failures, len(BACK_OFF)) - 1])  # noqa: S311 - spreads load
    return timedelta(seconds=pause)


def asked_wait(retry_after: float | None) -> timedelta:
    """What the vendor asked for, up to a day."""
    return min(timedelta(seconds=min(retry_after or 0.0, DAY)), LONGEST_WAIT)


def admit(asked: Endpoint | Tool, seconds: float) -> None:
    """Let a call through, or raise UnavailableError `CIRCUIT_OPEN`: then nothing was sent.

    After the wait one call goes as a probe; it may take `seconds`, and meanwhile no other goes.
    """
    circuit = _circuit_of(asked).annotate(now=Now()).first()
    if circuit is None or circuit.open_until is None:
        return
    open_until, now = circuit.open_until, circuit.now
    if open_until <= now:
        if circuit.failures < OPENS_AFTER:
            return
        mine = _circuit_of(asked).filter(open_until=open_until)
        if mine.update(open_until=Now() + timedelta(seconds=seconds)):
            return
        open_until = now + timedelta(seconds=seconds)
    raise _is_open(asked, circuit.failures, open_until, now)


def _circuit_of(asked: Endpoint | Tool) -> QuerySet[Any]:
    model = Circuit if isinstance(asked, Endpoint) else ToolCircuit
    return model.objects.filter(pk=asked.pk)


def _is_open(asked: Endpoint | Tool, failures: int, until: datetime, now: datetime) -> UnavailableError:
    why = f"did not answer {failures} times in a row" if failures >= OPENS_AFTER else "asked us to wait"
    moment = until.astimezone(UTC)
    said = f"{moment:%H:%M:%S} UTC" if moment - now < timedelta(hours=12) else f"{moment:%d %b, %H:%M} UTC"
    return UnavailableError(
        "CIRCUIT_OPEN",
        f"“{asked}” {why}, so nothing was sent: it is unavailable until {said}.",
        retry_after=max(0.0, (until - now).total_seconds()),
    )


def unavailable_until(asked: Endpoint | Tool) -> datetime | None:
    """Until when calls are answered without asking the vendor; None: they are sent."""
    circuit: OpenCircuit | None = getattr(asked, "circuit", None)
    if circuit is None or circuit.open_until is None or circuit.open_until <= timezone.now():
        return None
    return circuit.open_until


def note(endpoint: Endpoint, error: ProtocolError | None) -> None:
    """How a reading ended; None: well. An answer of any kind closes the circuit."""
    if error and is_about_token(error):
        return
    if isinstance(error, UnavailableError):
        note_absence(endpoint, error.code, error.retry_after)
    else:
        note_answer(endpoint)


def note_call(tool: Tool, outcome: Outcome) -> None:
    """How a call ended. What it met is about the tool alone, whatever the vendor meant by it.

    An answer says that the vendor is there, which is true of its endpoint too.
    """
    if outcome.outcome != "unavailable":
        note_answer(tool)
        note_answer(tool.endpoint)
        return
    code = (outcome.error or {}).get("code", "")
    if not is_about_token(UnavailableError(code, "")):
        note_absence(tool, code, outcome.retry_after)


def note_answer(asked: Endpoint | Tool) -> None:
    open_or_failed = _circuit_of(asked).exclude(failures=0, open_until=None)
    open_or_failed.update(failures=0, open_until=None)


def note_fresh_start(endpoint: Endpoint) -> None:
    """A person had it read at once, or changed how it is reached: nothing from before holds, for no tool."""
    note_answer(endpoint)
    ToolCircuit.objects.filter(tool__endpoint=endpoint).delete()


@transaction.atomic
def note_absence(asked: Endpoint | Tool, code: str, retry_after: float | None) -> None:
    """One more failure in a row: the fifth opens the circuit, and so does a vendor who asks us to wait."""
    if code in OURS:
        return
    _circuit_of(asked).get_or_create(pk=asked.pk)
    circuit = _circuit_of(asked).select_for_update().annotate(now=Now()).get()
    circuit.failures += 1
    wait = asked_wait(retry_after)
    if circuit.failures >= OPENS_AFTER:
        wait = max(wait, back_off(circuit.failures - OPENS_AFTER + 1))
    if wait:
        circuit.open_until = max(circuit.open_until or circuit.now, circuit.now + wait)
    circuit.save(update_fields=["failures", "open_until"])


def is_about_token(error: ProtocolError) -> bool:
    """Whether it came up while a token was asked for, at somebody else than the vendor."""
    return error.code.startswith("TOKEN_") or error.code == "NEEDS_SIGN_IN"
