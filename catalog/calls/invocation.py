"""A worker runs one call, and sends it at most once.

Exactly one worker claims it, by compare-and-set, and only then is anything sent. How the row is made and
given up: catalog/calls/queue.py. How the vendor's answer is bounded: catalog/calls/results.py.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from django.db.models.functions import Now

from catalog.calls import refused_calls, results
from catalog.calls.queue import refuse_removed
from catalog.credentials import circuit_breaker, sessions
from catalog.credentials.oauth import clients
from catalog.models import Call
from catalog.models.calls import Attempt, CallStatus
from catalog.protocols.base import Outcome, Protocol
from catalog.protocols.calls import outcomes
from catalog.protocols.signature import Signature
from core.errors import DomainError
from core.failpoints import failpoint
from core.outbound.errors import ProtocolError
from core.outbound.exchange import Exchange
from core.outbound.limits import DEFAULT_LIMITS, MIB, Limits
from core.outbound.session import Session

logger = logging.getLogger(__name__)

# What comes after the deadline: the answer is read, judged and stored. Then the worker counts as dead.
GRACE = timedelta(seconds=15)
TOKEN_GRACE = timedelta(seconds=45)  # a slow authorization server comes before the tool
CANCEL_SECONDS = 5.0  # in which a call that runs too long is told to stop
RETRY_PAUSES = (0.5, 2.0)  # seconds
# A user waits. A vendor that asks for more time is told of at once, and the user decides.
MAX_PAUSE_SECONDS = 10.0
MAX_REPLY_BYTES = 5 * MIB
MAX_SESSION_BYTES = 16 * MIB  # handshakes, repetitions and events of a stream included


def perform(call_id: int, pauses: Sequence[float] = RETRY_PAUSES) -> None:
    """Run one queued call. Does nothing when it was claimed before, whatever became of it since."""
    call = _claim(call_id)
    if call is None:
        return
    failpoint("call-claimed")
    attempts: list[Attempt] = []
    began = time.monotonic()
    try:
        outcome = _converse(call, attempts, pauses)
    except DomainError as exc:
        outcome = outcomes.failed("refused", exc.code, exc.message)
    except ProtocolError as exc:
        outcome = outcomes.after(exc)
    except Exception:
        logger.exception("call %s failed", call.pk)
        outcome = outcomes.failed("unavailable", "INTERNAL", results.OUR_FAULT)
    failpoint("call-answered")
    duration = round((time.monotonic() - began) * 1000)
    running = Call.objects.filter(pk=call.pk, status=CallStatus.RUNNING)
    ending = results.ending(outcome, attempts, is_safe=is_safe(call.version.decoded()))
    if not running.update(duration_ms=duration, **ending):
        logger.warning("call %s came back too late; its result was dropped", call.pk)
    refused_calls.tell(call, outcome)


def is_safe(signature: Signature) -> bool:
    """Whether the vendor promises that running it twice does no more than running it once."""
    return signature.annotations.read_only is True or signature.annotations.idempotent is True


def _claim(call_id: int) -> Call | None:
    # There is no second claim of a call that a worker has had, so nothing is ever sent twice.
    calls = Call.objects.filter(pk=call_id, status=CallStatus.QUEUED, gives_up_at__gt=Now())
    call = calls.select_related(
        "version__tool__endpoint__vendor", "version__tool__endpoint__credential", "continues"
    ).first()
    if call is None:
        return None
    ends = Now() + timedelta(seconds=call.deadline_seconds) + GRACE
    credential = call.version.tool.endpoint.credential
    if credential and clients.uses_oauth(credential):
        ends += TOKEN_GRACE
    claimed = calls.update(status=CallStatus.RUNNING, started_at=Now(), gives_up_at=ends)
    return call if claimed else None


@dataclass(frozen=True)
class _Conversation:
    """What is said to the vendor for one call; `again` says it once more as the protocol wants it."""

    call: Call
    signature: Signature
    protocol: Protocol

    def begin(self, session: Session) -> Outcome:
        if self.call.continues is None:
            return self.protocol.invoke(session, *self._tool(), self.call.arguments)
        state = self.call.continues.decoded().resume or {}
        return self.protocol.resume(session, *self._tool(), state, self.call.answers)

    def again(self, session: Session, before: Outcome) -> Outcome:
        if before.resume is None:
            return self.begin(session)
        return self.protocol.resume(session, *self._tool(), before.resume, {})

    def _tool(self) -> tuple[str, str | None, Signature]:
        return self.call.version.tool.tool_id, self.call.version.label or None, self.signature


def _converse(call: Call, attempts: list[Attempt], pauses: Sequence[float]) -> Outcome:
    # Sent once; a safe tool again after a pause, while its vendor is unavailable and the time allows.
    ends = time.monotonic() + call.deadline_seconds
    tool, endpoint = call.version.tool, call.version.tool.endpoint
    refuse_removed(endpoint)
    # The tool first: if it is the probe and the endpoint then says no, only this tool waits a moment longer.
    for asked in (tool, endpoint):
        circuit_breaker.admit(asked, call.deadline_seconds + CANCEL_SECONDS)
    exchanges: list[Exchange] = []
    signature = call.version.decoded()
    conversation = _Conversation(call, signature, endpoint.speak())
    with sessions.open_session(endpoint, exchanges, _limits(call)) as session:
        unshown = conversation.protocol.unshown
        outcome = _attempt(partial(conversation.begin, session), attempts, exchanges, unshown)
        for pause in pauses if is_safe(signature) else ():
            wait = pause if outcome.retry_after is None else outcome.retry_after
            if outcome.outcome != "unavailable" or wait >= min(ends - time.monotonic(), MAX_PAUSE_SECONDS):
                break
            time.sleep(wait)
            speak = partial(conversation.again, session, outcome)
            outcome = _attempt(speak, attempts, exchanges, unshown, wait)
    circuit_breaker.record_call(tool, outcome)
    return outcome


def _attempt(
    speak: Callable[[], Outcome],
    attempts: list[Attempt],
    exchanges: list[Exchange],
    unshown: Collection[str],
    waited: float = 0.0,
) -> Outcome:
    began, before = time.monotonic(), len(exchanges)
    try:
        outcome = speak()
    except ProtocolError as exc:
        outcome = outcomes.after(exc)
    took = time.monotonic() - began
    attempts.append(results.attempt(outcome, exchanges[before:], waited, took, unshown))
    return outcome


def _limits(call: Call) -> Limits:
    # A tool may be silent for as long as it may run, and what runs too long can still be told to stop within
    # the lease of the call. `backoff` is empty because `_converse` alone repeats a call.
    seconds = float(call.deadline_seconds)
    longest = seconds + CANCEL_SECONDS
    return replace(
        DEFAULT_LIMITS,
        request=seconds,
        is_asked_for=True,
        session=longest,
        body=MAX_REPLY_BYTES,
        session_bytes=MAX_SESSION_BYTES,
        backoff=(),
    )
