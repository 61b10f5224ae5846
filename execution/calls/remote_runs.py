"""Calls that a vendor keeps as a run. They are started once and polled by any worker.

A worker polls for a while and then releases the call, so a run of a day occupies no worker. The next worker
continues (execution/calls/queue.py) with the id of the run, or with the mark that was sent with it if the
first worker died before it could store the id. No run is started twice.
"""

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from catalog.credentials import circuit_breaker, sessions
from catalog.models import Call
from catalog.models.calls import Attempt, CallStatus, Mode
from core.errors import DomainError
from core.failpoints import failpoint
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.exchange import Exchange
from core.outbound.limits import DEFAULT_LIMITS
from core.outbound.session import HttpSession
from core.postgresql.base import give_back
from execution.calls import events, results, run_hints
from execution.calls.checks import refuse_removed
from execution.calls.lease import CallHeartbeat
from execution.user_grants import context
from protocols.base import Protocol
from protocols.call_outcome import Outcome
from protocols.calls import outcomes

logger = logging.getLogger(__name__)

LIMITS = replace(DEFAULT_LIMITS, request=20.0, session=120.0)
STOP_LIMITS = replace(DEFAULT_LIMITS, request=5.0, session=8.0, backoff=())
# A worker releases a run that takes longer.
POLL_SECONDS = 20.0
FIRST_PAUSE, MAX_PAUSE = 0.2, 3.0  # seconds
MIN_RELEASE_SECONDS, MAX_RELEASE_SECONDS = 2.0, 60.0
LATE_STARTS = (0.0, 2.0, 5.0)  # seconds before each search for a run that may have started late


def are_kept(call: Call) -> bool:
    """Return whether the vendor keeps this call as a run, instead of answering in one session."""
    # A client waits for a continued call or for one of this mode, and the parent waits for its step.
    is_waited_for = call.mode == Mode.WAIT or call.continues_id or call.activity_id or call.parent_id
    return not is_waited_for and call.version.tool.endpoint.build_protocol().keeps_runs


def follow_run(call: Call, attempts: list[Attempt]) -> Outcome | None:
    """Return the outcome of the run, or None if it continues and another worker will poll it."""
    endpoint = call.version.tool.endpoint
    refuse_removed(endpoint)
    if not call.is_taken_up:
        for target in (call.version.tool, endpoint):
            circuit_breaker.admit(target, LIMITS.request)
    protocol, exchanges, began = endpoint.build_protocol(), list[Exchange](), time.monotonic()
    protocol.context = replace(context.context_of(call, protocol), webhook=run_hints.address(call))
    limits = LIMITS
    if call.mode == Mode.STREAM:
        # A stream is read to its end.
        seconds = float(call.deadline_seconds)
        limits = replace(LIMITS, request=seconds, session=seconds + LIMITS.session, is_callers_deadline=True)
    with (
        sessions.open_session(
            endpoint,
            exchanges,
            limits,
            mark=str(call.key),
            follower=events.Partials(call.key) if call.mode == Mode.STREAM else None,
        ) as session,
        CallHeartbeat(call, session) as heartbeat,
    ):
        give_back()
        try:
            outcome = _RemoteRun(call, session, protocol).poll(heartbeat)
        except ProtocolError as exc:
            outcome = outcomes.convert_error(exc)
    if heartbeat.is_lost and not call.remote_run:
        _stop_late_start(call)
    if outcome is None:
        # End the lease after a pause that grows with the age of the run. The next worker then continues.
        age = (timezone.now() - call.started_at).total_seconds() if call.started_at else 0
        pause = timedelta(seconds=min(MAX_RELEASE_SECONDS, max(MIN_RELEASE_SECONDS, age / 10)))
        running_call = Call.objects.filter(pk=call.pk, status=CallStatus.RUNNING)
        # Without a wake: a hint of the vendor may send one sooner (execution/calls/run_hints.py).
        running_call.update(gives_up_at=Now() + pause, sent_at=None)
        return None
    seconds = time.monotonic() - began
    if protocol.context.webhook:
        exchanges = run_hints.hide_address(call, exchanges)
    attempts.append(results.attempt(outcome, exchanges, 0, seconds, protocol.unshown))
    circuit_breaker.record_call(call.version.tool, outcome)
    return outcome


@dataclass(frozen=True)
class _RemoteRun:
    """The run of a call at its vendor, in a session."""

    call: Call
    session: HttpSession
    protocol: Protocol

    def poll(self, heartbeat: CallHeartbeat) -> Outcome | None:
        run = self.call.remote_run or self.start_or_find()
        if not isinstance(run, str):
            return run
        ends, pause = time.monotonic() + POLL_SECONDS, FIRST_PAUSE
        while not heartbeat.is_lost:
            try:
                if outcome := self.protocol.look(self.session, self.call.version.decoded(), run):
                    return outcome
            except UnavailableError as exc:
                logger.info("the run of call %s could not be polled: %s", self.call.pk, exc.code)
            if _is_late(self.call):
                try:
                    self.protocol.stop(self.session, run)
                except ProtocolError:
                    consequence = "The run could not be cancelled and may still be running."
                else:
                    consequence = "The run was cancelled."
                message = f"The run did not end within {self.call.deadline_seconds} seconds. {consequence}"
                return outcomes.failed("unavailable", "DEADLINE", message)
            if time.monotonic() + pause > ends:
                return None
            time.sleep(pause)
            pause = min(pause * 1.5, MAX_PAUSE)
        return None

    def start_or_find(self) -> str | Outcome | None:
        """Return the id of the run. Start it unless an earlier worker did. None: try again later."""
        if not self.call.is_taken_up:
            run = self.start()
        else:
            try:
                run = self.protocol.find(self.session) or ""
            except UnavailableError:
                if _is_late(self.call):
                    raise
                return None
        if isinstance(run, Outcome):
            return run
        if not run:
            return outcomes.failed("unknown", "WORKER_LOST", results.WORKER_LOST)
        failpoint("run-begun")
        is_stored = Call.objects.filter(pk=self.call.pk, status=CallStatus.RUNNING).update(remote_run=run)
        give_back()
        self.call.remote_run = run
        if not is_stored:
            # In a session of its own, because this one is interrupted by the end of the call.
            _stop_late_start(self.call)
            return None
        failpoint("run-started")
        return run

    def start(self) -> Outcome | str:
        tool, version = self.call.version.tool, self.call.version
        try:
            return self.protocol.start(
                self.session, tool.tool_id, version.label or None, version.decoded(), self.call.arguments
            )
        except UnavailableError:
            # Perhaps only the reply was lost.
            with suppress(ProtocolError):
                if run_id := self.protocol.find(self.session):
                    return run_id
            raise


def _stop_late_start(call: Call) -> None:
    """Stop the run of a call that ended while its run was being started."""
    for pause in LATE_STARTS:
        time.sleep(pause)
        if Call.objects.filter(pk=call.pk, status=CallStatus.RUNNING).exists() or stop(call):
            return
        give_back()


def _is_late(call: Call) -> bool:
    began = call.started_at or timezone.now()
    return timezone.now() > began + timedelta(seconds=call.deadline_seconds)


def stop(call: Call) -> bool:
    """Ask the vendor to end the run of this call. Return whether it did. Raises no error of a session."""
    endpoint = call.version.tool.endpoint
    protocol = endpoint.build_protocol()
    if not protocol.keeps_runs or not endpoint.is_live:
        return False
    protocol.context = context.context_of(call, protocol)
    try:
        with sessions.open_session(endpoint, None, STOP_LIMITS, mark=str(call.key)) as session:
            give_back()
            run_id = call.remote_run or protocol.find(session)
            if run_id:
                protocol.stop(session, run_id)
            return bool(run_id)
    except (ProtocolError, DomainError) as exc:
        logger.info("the vendor was not asked to end call %s: %s", call.pk, exc.code)
        return False
