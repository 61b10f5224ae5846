"""Calls that their vendors keep as runs of their own: started once, looked after by whichever worker lives.

A worker looks for a while and lets go again, so that a run of a day holds no worker. What it lets go of, and
what a dead worker leaves, is taken up by the next one (catalog/calls/queue.py): by the run's id, or by the
mark that was sent with it where the worker died before it could write the id down. Nothing is started twice.
"""

import logging
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from catalog.calls import events, results, run_hints
from catalog.calls.checks import refuse_removed
from catalog.calls.lease import Heartbeat
from catalog.credentials import circuit_breaker, sessions
from catalog.models import Call
from catalog.models.calls import Attempt, CallStatus, Mode
from catalog.user_grants import context
from core.errors import DomainError
from core.failpoints import failpoint
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.exchange import Exchange
from core.outbound.limits import DEFAULT_LIMITS, Limits
from core.outbound.session import Session
from core.postgresql.base import give_back
from protocols.base import Outcome, Protocol
from protocols.calls import outcomes

logger = logging.getLogger(__name__)

LIMITS = replace(DEFAULT_LIMITS, request=20.0, session=120.0)
STOP_LIMITS = replace(DEFAULT_LIMITS, request=5.0, session=8.0, backoff=())
# A run that takes longer is let go of between two looks.
LOOKS_SECONDS = 20.0
FIRST_PAUSE, MAX_PAUSE = 0.2, 3.0  # seconds
MIN_LET_GO, MAX_LET_GO = 2.0, 60.0
LATE_STARTS = (0.0, 2.0, 5.0)  # seconds to wait before each look for a run that should not have begun


def are_kept(call: Call) -> bool:
    """Whether this call is started and looked after, and not waited for in one conversation."""
    is_long = call.mode != Mode.WAIT and call.continues_id is None
    # A step is waited for by its whole.
    is_long = is_long and call.activity_id is None and call.parent_id is None
    return is_long and call.version.tool.endpoint.speak().keeps_runs


def attend(call: Call, attempts: list[Attempt]) -> Outcome | None:
    """What came of the run; None where it goes on and another worker will look."""
    endpoint = call.version.tool.endpoint
    refuse_removed(endpoint)
    if not call.is_taken_up:
        for asked in (call.version.tool, endpoint):
            circuit_breaker.admit(asked, LIMITS.request)
    protocol, exchanges, began = endpoint.speak(), list[Exchange](), time.monotonic()
    protocol.context = replace(context.of(call, protocol), webhook=run_hints.address(call))
    with (
        sessions.open_session(
            endpoint, exchanges, _limits(call), mark=str(call.key), follower=events.follower_of(call)
        ) as session,
        Heartbeat(call, session) as heartbeat,
    ):
        give_back()
        try:
            outcome = _looked(call, session, protocol, heartbeat)
        except ProtocolError as exc:
            outcome = outcomes.after(exc)
    if heartbeat.is_lost and not call.remote_run:
        _stop_late_start(call)
    if outcome is None:
        _let_go(call)
        return None
    took = time.monotonic() - began
    attempts.append(results.attempt(outcome, exchanges, 0, took, protocol.unshown))
    circuit_breaker.record_call(call.version.tool, outcome)
    return outcome


def _looked(call: Call, session: Session, protocol: Protocol, heartbeat: Heartbeat) -> Outcome | None:
    known = call.remote_run or _begun(call, session, protocol)
    if not isinstance(known, str):
        return known
    ends, pause = time.monotonic() + LOOKS_SECONDS, FIRST_PAUSE
    while not heartbeat.is_lost:
        try:
            if outcome := protocol.look(session, call.version.decoded(), known):
                return outcome
        except UnavailableError as exc:
            logger.info("run of call %s could not be looked at: %s", call.pk, exc.code)
        if _is_late(call):
            return _given_up(call, session, protocol, known)
        if time.monotonic() + pause > ends:
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, MAX_PAUSE)
    return None


def _begun(call: Call, session: Session, protocol: Protocol) -> str | Outcome | None:
    # The id of the run, which is started here unless a worker before has sent it. None: to be asked later.
    if not call.is_taken_up:
        begun = _started(call, session, protocol)
    else:
        try:
            begun = protocol.find(session) or ""
        except UnavailableError:
            if _is_late(call):
                raise
            return None
    if isinstance(begun, Outcome):
        return begun
    if not begun:
        return outcomes.failed("unknown", "WORKER_LOST", results.WORKER_LOST)
    failpoint("run-begun")
    is_wanted = Call.objects.filter(pk=call.pk, status=CallStatus.RUNNING).update(remote_run=begun)
    give_back()
    call.remote_run = begun
    if not is_wanted:
        # In a conversation of its own: this one ends as soon as the end of the call is heard of.
        _stop_late_start(call)
        return None
    failpoint("run-started")
    return begun


def _started(call: Call, session: Session, protocol: Protocol) -> Outcome | str:
    tool, version = call.version.tool, call.version
    try:
        return protocol.start(session, tool.tool_id, version.label or None, version.decoded(), call.arguments)
    except UnavailableError:
        # The answer got lost, and perhaps only that.
        with suppress(ProtocolError):
            if found := protocol.find(session):
                return found
        raise


def _stop_late_start(call: Call) -> None:
    """Of a call that was ended while its run was being started. Its end found no run to stop, and the vendor
    may have begun it all the same."""
    for pause in LATE_STARTS:
        time.sleep(pause)
        if Call.objects.filter(pk=call.pk, status=CallStatus.RUNNING).exists() or stop(call):
            return
        give_back()


def _limits(call: Call) -> Limits:
    if call.mode != Mode.STREAM:
        return LIMITS
    # A stream is read to its end.
    seconds = float(call.deadline_seconds)
    return replace(LIMITS, request=seconds, session=seconds + LIMITS.session, is_asked_for=True)


def _is_late(call: Call) -> bool:
    began = call.started_at or timezone.now()
    return timezone.now() > began + timedelta(seconds=call.deadline_seconds)


def _given_up(call: Call, session: Session, protocol: Protocol, run_id: str) -> Outcome:
    try:
        protocol.stop(session, run_id)
    except ProtocolError:
        stopped = "The run could not be cancelled and may still be going on."
    else:
        stopped = "The run was cancelled."
    message = f"The run did not end within {call.deadline_seconds} seconds. {stopped}"
    return outcomes.failed("unavailable", "DEADLINE", message)


def _let_go(call: Call) -> None:
    # The older the run, the rarer the looks. Its lease ends then, and so the next worker takes it up.
    age = (timezone.now() - call.started_at).total_seconds() if call.started_at else 0
    pause = timedelta(seconds=min(MAX_LET_GO, max(MIN_LET_GO, age / 10)))
    mine = Call.objects.filter(pk=call.pk, status=CallStatus.RUNNING)
    # Without a message on its way: a hint of the vendor may send one sooner (catalog/calls/run_hints.py).
    mine.update(gives_up_at=Now() + pause, sent_at=None)


def stop(call: Call) -> bool:
    """Whether the vendor was told to end the run of this call. Never raises what a session does."""
    endpoint = call.version.tool.endpoint
    protocol = endpoint.speak()
    if not protocol.keeps_runs or not endpoint.is_live:
        return False
    protocol.context = context.of(call, protocol)
    try:
        with sessions.open_session(endpoint, None, STOP_LIMITS, mark=str(call.key)) as session:
            give_back()
            run_id = call.remote_run or protocol.find(session)
            if run_id:
                protocol.stop(session, run_id)
            return bool(run_id)
    except (ProtocolError, DomainError) as exc:
        logger.info("the vendor was not told to end call %s: %s", call.pk, exc.code)
        return False
