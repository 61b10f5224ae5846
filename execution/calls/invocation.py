"""Execution of calls. One process executes a call and sends it at most once.

The process that received the request executes a call that a program waits for: it commits the row as claimed,
and then sends. A worker executes a queued call; exactly one claims it by compare-and-set. Rows are created in
execution/calls/requesting.py and given up in execution/calls/queue.py. execution/calls/results.py bounds the
vendor's replies. docs/decisions/0010-calls.md has the reasons.
"""

import contextvars
import copy
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from time import sleep
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.utils import timezone

from catalog.credentials import circuit_breaker, sessions
from catalog.models import ActivityVersion, Call, Thread, ToolVersion
from catalog.models.calls import Attempt, CallStatus, Mode
from catalog.models.threads import ThreadStatus
from catalog.notifications import callbacks
from catalog.rules import retries
from catalog.rules.retries import RetryTerms
from core.errors import DomainError
from core.failpoints import failpoint
from core.outbound.errors import ProtocolError
from core.outbound.exchange import Exchange
from core.outbound.limits import DEFAULT_LIMITS, MIB, Limits
from core.outbound.session import HttpSession
from core.postgresql.base import give_back
from core.prepared_statements import run_prepared
from execution.activities import kinds, reach
from execution.activities.base import ActivityWork, Open
from execution.activities.nesting import MAX_STEPS_IN_ALL
from execution.calls import (
    call_keys,
    cancellation,
    challenges,
    continuing,
    events,
    queue,
    refused_calls,
    remote_runs,
    requesting,
    results,
)
from execution.calls.checks import refuse_removed
from execution.calls.lease import CallHeartbeat, Conversation, Unspoken, WatchedCall, extend_lease
from execution.calls.places import NoRoomToFollowError, holder_for, holder_of, room
from execution.calls.runtime import Runtime
from execution.user_grants import context
from execution.user_grants.context import NOTHING_SENT, MissingError
from protocols.base import Protocol
from protocols.call_outcome import Outcome
from protocols.calls import outcomes
from protocols.signature import Signature

logger = logging.getLogger(__name__)

# The maximum for a streamed call that keeps reporting progress.
MAX_SECONDS_WITH_PROGRESS = 900.0
CANCEL_SECONDS = 5.0  # time for notifying the vendor after the deadline
MAX_REPLY_BYTES = 5 * MIB
MAX_SESSION_BYTES = 16 * MIB  # including handshakes, retries and events of a stream
# Time for another process to store the outcome of a call that is waited for here.
OUTCOME_GRACE_SECONDS = 3.0
WRITE_RETRY_PAUSES = (0.5, 2.0, 5.0)  # seconds, for a short outage of the database
# A worker's task claims calls for this long.
TASK_SECONDS = 60.0
# Called before an activity acts. Each raises DomainError if it may not.
BEFORE_ACTIVITIES: list[Callable[[Call, ActivityVersion], None]] = []


def call_now(version: ToolVersion, **options: Any) -> Call:
    """Execute a call in this process and return it, or return the earlier call with the same `key`.

    options: the options of `requesting.request_call`, which raises the same errors.
    """
    runtime: Runtime | None = options.get("runtime")
    api_key = runtime.key.pk if runtime and runtime.key else None
    with room(holder_for(options["actor"].pk, runtime.agent if runtime else None, api_key)):
        return _run_or_wait(requesting.request_call(version, is_claimed=True, **options))


def continue_now(call: Call, **options: Any) -> Call:
    """Continue a call like `call_now`, with the options of `continuing.continue_call`."""
    with room(holder_of(call)):
        return _run_or_wait(continuing.continue_call(call, is_claimed=True, **options))


def call_in_thread(version: ToolVersion, **options: Any) -> Call:
    """Store a call, execute it in a thread of this process, and return its row to a caller that follows it.

    The caller has a place of `room`. A thread starts sooner than a worker would. options: as for `call_now`.
    """
    return _run_in_thread(requesting.request_call(version, is_claimed=True, mode=Mode.STREAM, **options))


def continue_in_thread(call: Call, **options: Any) -> Call:
    """Continue a call like `call_in_thread`, with the options of `continuing.continue_call`."""
    return _run_in_thread(continuing.continue_call(call, is_claimed=True, mode=Mode.STREAM, **options))


def _run_in_thread(call: Call) -> Call:
    if call.is_ours:
        call.extends_with_progress = call.runtime is not None and call.runtime.side.wants_progress
        running_call = copy.copy(call)  # the caller reads the results from the row

        def run_and_close() -> None:
            try:
                _execute_claimed(running_call)
            finally:
                connection.close()

        context_copy = contextvars.copy_context()
        threading.Thread(target=context_copy.run, args=(run_and_close,), name="call").start()
    return call


def _run_or_wait(call: Call) -> Call:
    try:
        if call.is_ours:
            return _execute_claimed(call)
        # Another request created it and may still be executing it.
        return queue.wait_for(call, call.deadline_seconds + OUTCOME_GRACE_SECONDS) if call.is_active else call
    except (OperationalError, InterfaceError):
        # The call is stored, so it may have run. Advising a retry would be wrong.
        logger.exception("the database was lost during call %s", call.pk)
        return results.end_with_unknown_outcome(call)


def follow(call: Call, seconds: float, *, has_room: bool = False) -> Call:
    """Return the call when it has ended, or its state after `seconds`. Raises NoRoomToFollowError.

    has_room: the caller has a place already.
    """
    if not call.is_active or seconds <= 0:
        return queue.current_call(call)
    with nullcontext() if has_room else room(holder_of(call), NoRoomToFollowError):
        return queue.wait_for(call, seconds)


def perform_due_calls() -> None:
    """Claim and execute due calls until none is due or this task's time is over. Another task then continues.

    The limit lets a worker that is stopped come to an end.
    """
    ends = time.monotonic() + TASK_SECONDS
    while call := queue.claim_next():
        _execute_claimed(call)
        if time.monotonic() > ends:
            queue.wake_worker(call.pk)
            return


def _execute_claimed(call: Call) -> Call:
    """Execute a call that only this process has claimed. Return it as it was stored."""
    failpoint("call-claimed")
    attempts: list[Attempt] = []
    began = time.monotonic()
    outcome = _perform_call(call, attempts)
    if outcome is None:
        return call
    failpoint("call-answered")
    seconds = time.monotonic() - began
    if call.is_taken_up and call.started_at:
        seconds = (timezone.now() - call.started_at).total_seconds()
    duration = round(seconds * 1000)
    # Before the outcome is stored, so that a client that reads of a challenge finds the grant.
    if call.on_behalf_of:
        try:
            challenges.note(call, outcome)
        except DatabaseError:
            logger.exception("the authorizations that call %s requests were not stored", call.pk)
    outcome_with_notes = results.with_argument_notes(outcome, call.version.decoded(), call.arguments)
    is_safe = outcome.outcome != "ok" and call.terms.may_run_twice
    columns = results.result_columns(outcome_with_notes, attempts, is_safe=is_safe)
    if not (rows := _store_end([duration, *columns.values(), call.pk])):
        logger.warning("call %s came back too late; its result was dropped", call.pk)
        cancellation.abandon_question(call, outcome.resume)
        call.refresh_from_db()
        return call
    ((call.finished_at,),) = rows
    call.status, call.duration_ms = CallStatus.FINISHED, duration
    call.outcome, call.error_code, call.result = columns.values()
    report_end(call)
    if outcome.outcome != "ok":
        try:
            refused_calls.add_finding(call, outcome)
        except DatabaseError:
            logger.exception("the refusal of call %s was not stored", call.pk)
    return call


def _perform_call(call: Call, attempts: list[Attempt]) -> Outcome | None:
    """Return the outcome, or None if the vendor continues to work and a worker will poll it later."""
    try:
        if call.activity:
            return _perform_activity(call, call.activity, attempts)
        if call.mode != Mode.WAIT and remote_runs.are_kept(call):
            return remote_runs.follow_run(call, attempts)
        return _call_vendor(call, attempts)
    except DomainError as exc:
        return outcomes.failed("refused", exc.code, exc.message)
    except ProtocolError as exc:
        return outcomes.convert_error(exc)
    except Exception:
        logger.exception("call %s failed", call.pk)
        return outcomes.failed("unknown", "INTERNAL", results.OUR_FAULT)


# The new status of the call's thread. Other outcomes may not have changed the thread.
_STATUS = {
    "ok": ThreadStatus.IDLE,
    "invalid_arguments": ThreadStatus.IDLE,
    "refused": ThreadStatus.IDLE,
    "needs_input": ThreadStatus.INTERRUPTED,
}


def report_end(call: Call) -> None:
    """Notify followers and send the callback of a call that has ended."""
    if call.is_followed:
        events.publish(call.key, events.ENDED)
    try:
        if call.thread_id is not None:
            Thread.objects.filter(pk=call.thread_id).update(
                status=_STATUS.get(call.outcome, ThreadStatus.ERROR)
            )
        if call.mode != Mode.WAIT:
            callbacks.wake(call)
    except DatabaseError:
        logger.exception("the scheduler will send the notifications of the end of call %s", call.pk)


def _store_end(values: Sequence[object]) -> list[tuple[Any, ...]]:
    """Store the end of a call, with retries, because the vendor's reply cannot be requested again."""
    for pause in WRITE_RETRY_PAUSES:
        try:
            return run_prepared(_END, values)
        except (OperationalError, InterfaceError):
            if connection.in_atomic_block:
                raise
            connection.close()
            sleep(pause)
    return run_prepared(_END, values)


_END = """
    UPDATE catalog_call SET status = 'finished', finished_at = statement_timestamp(), duration_ms = %s,
        outcome = %s, error_code = %s, result = %s
    WHERE id = %s AND status = 'running' RETURNING finished_at
"""


@dataclass(frozen=True)
class _Conversation:
    """The requests to the vendor for one call. `again` repeats them as the protocol requires."""

    call: Call
    signature: Signature
    protocol: Protocol

    def begin(self, session: HttpSession) -> Outcome:
        """Send the call, or the answers to the call that it continues."""
        state = (self.call.continues.decoded().resume or {}) if self.call.continues else NOTHING_SENT
        if state == NOTHING_SENT:
            return self.protocol.invoke(session, *self._called_version(), self.call.arguments)
        return self.protocol.resume(session, *self._called_version(), state, self.call.answers)

    def again(self, session: HttpSession, before: Outcome) -> Outcome:
        """Repeat the request after an outcome that allows that."""
        if before.resume is None:
            return self.begin(session)
        return self.protocol.resume(session, *self._called_version(), before.resume, {})

    def _called_version(self) -> tuple[str, str | None, Signature]:
        return self.call.version.tool.tool_id, self.call.version.label or None, self.signature


def _call_vendor(call: Call, attempts: list[Attempt]) -> Outcome:
    """Send the call, and retry it if its terms allow that (catalog/rules/retries.py)."""
    terms = call.terms
    ends = time.monotonic() + min(call.deadline_seconds, terms.policy.give_up_after_seconds)
    tool, endpoint = call.version.tool, call.version.tool.endpoint
    refuse_removed(endpoint)
    protocol = endpoint.build_protocol()
    try:
        protocol.context = context.context_of(call, protocol)
    except MissingError as missing:
        return missing.outcome
    # Waiting for a user's token may have taken longer than the lease.
    if protocol.context.tokens and not extend_lease(call):
        raise DomainError("ended_meanwhile", "The call ended before anything was sent.", status=409)
    # The tool first: if it is the probe and the endpoint refuses, only this tool waits a little longer.
    for target in (tool, endpoint):
        max_seconds = min(call.deadline_seconds, requesting.MAX_DEADLINE_SECONDS)
        circuit_breaker.admit(target, max_seconds + CANCEL_SECONDS)
    exchanges: list[Exchange] = []
    conversation = _Conversation(call, call.version.decoded(), protocol)
    carried = [*protocol.context.tokens.values(), *protocol.context.secrets.values()]
    with (
        sessions.open_session(
            endpoint,
            exchanges,
            _session_limits(call),
            carried=carried,
            keeps_connection=True,
            mark=str(call.key),
            follower=events.Partials(call.key) if call.mode == Mode.STREAM else None,
        ) as session,
        _hold_lease(call, session) as held_call,
    ):
        session.holder = f"key {call.api_key_id}" if call.api_key_id else f"user {call.requested_by_id}"
        unshown = conversation.protocol.unshown
        give_back()
        outcome = _send_attempt(partial(conversation.begin, session), attempts, exchanges, unshown)
        while (pause := _seconds_before_retry(terms, outcome, len(attempts), ends)) is not None:
            held_call.sleep(pause)
            if not held_call.may_send():
                break
            request = partial(conversation.again, session, outcome)
            outcome = _send_attempt(request, attempts, exchanges, unshown, pause)
    try:
        # An interrupted request proves nothing about the vendor.
        if not held_call.is_lost:
            circuit_breaker.record_call(tool, outcome)
    except DatabaseError:
        logger.exception("the circuit breaker of tool %s did not record call %s", tool.pk, call.pk)
    return outcome


def _hold_lease(call: Call, session: Conversation) -> WatchedCall | CallHeartbeat:
    def end_call_of_gone_client(call: Call) -> None:
        if call.requested_by:
            with suppress(DomainError):  # it has ended meanwhile
                why = f"{call.runtime.why} The client hung up."
                cancellation.cancel(call, actor=call.requested_by, why=why)

    if call.mode == Mode.WAIT:
        return WatchedCall(call, session, end_call_of_gone_client)
    return CallHeartbeat(call, session)


def _perform_activity(call: Call, activity: ActivityVersion, attempts: list[Attempt]) -> Outcome:
    if call.parent_id is None:
        reach.refuse_too_many_steps(activity)
    for check in BEFORE_ACTIVITIES if kinds.get(activity.kind).acts else ():
        check(call, activity)
    ends = time.monotonic() + call.deadline_seconds
    conversation = Unspoken()
    with _hold_lease(call, conversation) as held_call:
        give_back()
        work = ActivityWork(
            call=call,
            config=activity.config,
            signature=call.version.decoded(),
            seconds_left=lambda: ends - time.monotonic(),
            may_continue=held_call.may_send,
            sleep=held_call.sleep,
            call_step=partial(_call_step, call),
            continue_step=partial(_continue_step, call),
            converse=partial(_send_for_activity, call, conversation, attempts),
        )
        return kinds.get(activity.kind).perform(work)


def _call_step(
    parent: Call,
    number: int,
    tool: int,
    ordinal: int,
    *,
    arguments: Mapping[str, Any],
    seconds: int,
    activity: ActivityVersion | None = None,
) -> Call:
    """Execute a step in the place of its parent, so that it never waits for one."""
    version = requesting.find_version(tool, ordinal)
    if version is None or parent.requested_by is None:
        raise DomainError("unknown_tool", "There is no such version of a tool any more.", status=409)
    _count_step(parent)
    step = requesting.request_call(
        version,
        actor=parent.requested_by,
        arguments=arguments,
        deadline_seconds=seconds,
        is_confirmed=True,
        key=call_keys.key_of_step(parent.pk, str(number)),
        is_claimed=True,
        mode=Mode(parent.mode),
        activity=activity,
        environment=parent.environment,
        parent=parent,
    )
    return _run_or_wait(step)


def _continue_step(parent: Call, number: int, stopped_call: Call, *, answers: Mapping[str, Any]) -> Call:
    if parent.requested_by is None:
        raise DomainError("unknown_user", "The user who asked for this call was removed.", status=409)
    _count_step(parent)
    step = continuing.continue_call(
        stopped_call,
        actor=parent.requested_by,
        answers=answers,
        key=call_keys.key_of_step(parent.pk, str(number)),
        is_claimed=True,
        mode=Mode(parent.mode),
        parent=parent,
    )
    return _run_or_wait(step)


def _count_step(parent: Call) -> None:
    """Count a step at the outermost call, because activities may have changed since it began."""
    outermost = parent
    while outermost.parent:
        outermost = outermost.parent
    outermost.steps_made += 1
    if outermost.steps_made > MAX_STEPS_IN_ALL:
        message = f"This call has run {MAX_STEPS_IN_ALL} steps, which is the limit."
        raise DomainError("activity_too_many_steps", message, status=409)


def _send_for_activity(
    call: Call,
    conversation: Unspoken,
    attempts: list[Attempt],
    open_: Open,
    request: Callable[[HttpSession], Outcome],
) -> Outcome:
    exchanges: list[Exchange] = []
    with open_(exchanges, _session_limits(call)) as session:
        session.may_send = conversation.may_send
        conversation.session = session
        try:
            return _send_attempt(partial(request, session), attempts, exchanges, ())
        finally:
            conversation.session = None


def _seconds_before_retry(terms: RetryTerms, outcome: Outcome, attempts: int, ends: float) -> float | None:
    if outcome.outcome == "ok":
        return None
    seconds_left = ends - time.monotonic()
    chance = random.random()  # noqa: S311 - spreads those who wait, protects nothing
    return retries.wait_before_next(
        terms, outcome, attempts=attempts, seconds_left=seconds_left, chance=chance
    )


def _send_attempt(
    request: Callable[[], Outcome],
    attempts: list[Attempt],
    exchanges: list[Exchange],
    unshown: Collection[str],
    waited_seconds: float = 0.0,
) -> Outcome:
    began, before = time.monotonic(), len(exchanges)
    try:
        outcome = request()
    except ProtocolError as exc:
        outcome = outcomes.convert_error(exc)
    seconds = time.monotonic() - began
    attempts.append(results.attempt(outcome, exchanges[before:], waited_seconds, seconds, unshown))
    return outcome


def _session_limits(call: Call) -> Limits:
    """Return limits that allow silence until the deadline, and a cancellation within the lease after it.

    `backoff` is empty, because only `_call_vendor` retries a call.
    """
    seconds = float(call.deadline_seconds)
    session_seconds = seconds + CANCEL_SECONDS
    return replace(
        DEFAULT_LIMITS,
        request=seconds,
        is_callers_deadline=True,
        with_progress=MAX_SECONDS_WITH_PROGRESS if call.extends_with_progress else 0.0,
        session=session_seconds,
        body=MAX_REPLY_BYTES,
        session_bytes=MAX_SESSION_BYTES,
        backoff=(),
    )
