"""One process makes one call, and sends it at most once.

A call that a program waits for is made by the process that is asked: its row is committed as claimed, and
only then is anything sent. One that was queued is made by a worker, exactly one of which claims it, by
compare-and-set. How the row is made: catalog/calls/requesting.py. How it is given up: catalog/calls/queue.py.
How the vendor's answer is bounded: catalog/calls/results.py. docs/decisions/0010-calls.md says why.
"""

import contextvars
import copy
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from time import sleep
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.utils import timezone

from catalog.activities import kinds, reach
from catalog.activities.base import Open, Work
from catalog.activities.nesting import MAX_STEPS_IN_ALL
from catalog.calls import (
    call_keys,
    cancellation,
    challenges,
    events,
    queue,
    refused_calls,
    remote_runs,
    requesting,
    results,
    versions,
)
from catalog.calls.checks import refuse_removed
from catalog.calls.lease import Conversation, Heartbeat, Unspoken, Watched
from catalog.calls.places import CallPlaces, Holder
from catalog.calls.runtime import Runtime
from catalog.credentials import circuit_breaker, sessions
from catalog.models import ActivityVersion, Call, Thread, ToolVersion
from catalog.models.calls import Attempt, CallStatus, Mode
from catalog.models.threads import ThreadStatus
from catalog.notifications import callbacks
from catalog.rules import retries
from catalog.rules.retries import Terms
from catalog.user_grants import context
from catalog.user_grants.context import NOTHING_SENT, MissingError
from core.errors import DomainError
from core.failpoints import failpoint
from core.outbound.errors import ProtocolError
from core.outbound.exchange import Exchange
from core.outbound.limits import DEFAULT_LIMITS, MIB, Limits
from core.outbound.session import Session
from core.postgresql.base import give_back
from core.prepared_statements import run_prepared
from people.models import User
from protocols.base import Outcome, Protocol
from protocols.calls import outcomes
from protocols.signature import Signature

logger = logging.getLogger(__name__)

# In all, of a call that its caller streams and that keeps reporting progress.
MAX_SECONDS_WITH_PROGRESS = 900.0
CANCEL_SECONDS = 5.0  # in which a call that runs too long is told to stop
MAX_REPLY_BYTES = 5 * MIB
MAX_SESSION_BYTES = 16 * MIB  # handshakes, repetitions and events of a stream included
# Until the other process has written down what came of a call that is waited for here.
SECONDS_ON_THE_WAY = 3.0
WRITE_AGAIN_AFTER = (0.5, 2.0, 5.0)  # seconds: a database that is away for a moment is waited for
ROOM_SECONDS = 1.0
# A task of a worker claims calls for so long.
TASK_SECONDS = 60.0
# Asked before an activity of a call acts. Each raises DomainError where it must not.
BEFORE_ACTIVITIES: list[Callable[[Call, ActivityVersion], None]] = []
_places = CallPlaces()


class NoRoomError(DomainError):
    retry_after = 1

    def __init__(self, means: str = "Nothing was sent.") -> None:
        message = f"Too many calls are running. {means} Try again in 1 second."
        super().__init__("busy", message, status=503)


class NoRoomToFollowError(NoRoomError):
    """As it is met by who asks about a call that was made before."""

    def __init__(self) -> None:
        super().__init__("The call is still running, but its progress cannot be streamed right now.")


def call_now(version: ToolVersion, **wish: Any) -> Call:
    """The call as it ended, made by this process, or the one that was made with the same `key` before.

    `wish` is as for `requesting.request_call`, and so is what it raises.
    """
    with room(_holder_of_request(wish["actor"], wish.get("runtime"))):
        return _answered(requesting.request_call(version, is_claimed=True, **wish))


def continue_now(call: Call, **wish: Any) -> Call:
    """As `call_now`, for `requesting.continue_call`."""
    with room(holder_of(call)):
        return _answered(requesting.continue_call(call, is_claimed=True, **wish))


def call_beside(version: ToolVersion, **wish: Any) -> Call:
    """The call as it was written down, for a caller that follows it and holds a place of `room`: a thread of
    this process makes it meanwhile, which is sooner than a worker would.

    `wish` is as for `requesting.request_call`, and so is what it raises.
    """
    return _made_beside(requesting.request_call(version, is_claimed=True, mode=Mode.STREAM, **wish))


def continue_beside(call: Call, **wish: Any) -> Call:
    """As `call_beside`, for `requesting.continue_call`."""
    return _made_beside(requesting.continue_call(call, is_claimed=True, mode=Mode.STREAM, **wish))


def _made_beside(call: Call) -> Call:
    if call.is_ours:
        call.extends_with_progress = True
        # What the thread learns of it the caller reads from the row, which is whole at any time.
        told = contextvars.copy_context()
        threading.Thread(target=told.run, args=(_make_beside, copy.copy(call)), name="call").start()
    return call


def _make_beside(call: Call) -> None:
    try:
        _make(call)
    finally:
        connection.close()


@contextmanager
def room(holder: Holder, error: type[NoRoomError] = NoRoomError) -> Iterator[None]:
    """A place among the calls of this process. Raises `error` where the holder gets none within a second."""
    # A slow vendor must not take all threads of a process that has other things to do.
    with _places.place(holder, 0.0) as has_place:
        if has_place:
            yield
            return
    give_back()
    with _places.place(holder, ROOM_SECONDS) as has_place:
        if not has_place:
            raise error
        yield


def holder_of(call: Call) -> Holder:
    return holder_for(call.requested_by_id, call.agent, call.api_key_id)


def holder_for(user: int | None, agent: int | None = None, api_key: int | None = None) -> Holder:
    """Who holds a place: the API key, or a user without one, and the agent that the call is for."""
    return Holder(agent, f"key {api_key}" if api_key else f"user {user}")


def _holder_of_request(actor: User, runtime: Runtime | None) -> Holder:
    if runtime is None:
        return holder_for(actor.pk)
    return holder_for(actor.pk, runtime.agent, runtime.key.pk if runtime.key else None)


def _answered(call: Call) -> Call:
    try:
        if call.is_ours:
            return _make(call)
        # Another request made it, and may still be at it.
        return queue.wait_for(call, call.deadline_seconds + SECONDS_ON_THE_WAY) if call.is_active else call
    except (OperationalError, InterfaceError):
        # It was written down before, so it may have run: “try again” would be wrong advice.
        logger.exception("the database was lost during call %s", call.pk)
        return results.end_with_unknown_outcome(call)


def follow(call: Call, seconds: float, *, has_room: bool = False) -> Call:
    """The call as it ended, or as far as it is after so many seconds. Raises NoRoomToFollowError, except for
    a caller that has taken a place before."""
    if not call.is_active or seconds <= 0:
        return queue.settled(call)
    with nullcontext() if has_room else room(holder_of(call), NoRoomToFollowError):
        return queue.wait_for(call, seconds)


def perform_due_calls() -> None:
    """Claim and run due calls, one after the other, until none is due or the time of this task is over.

    Another task continues then, so that a worker that is told to stop finds an end.
    """
    ends = time.monotonic() + TASK_SECONDS
    while call := queue.claim_next():
        _make(call)
        if time.monotonic() > ends:
            queue.wake_worker(call.pk)
            return


def _make(call: Call) -> Call:
    # This process alone has claimed it. What is returned is what was written.
    failpoint("call-claimed")
    attempts: list[Attempt] = []
    began = time.monotonic()
    outcome = _outcome(call, attempts)
    if outcome is None:
        return call
    failpoint("call-answered")
    took = time.monotonic() - began
    if call.is_taken_up and call.started_at:
        took = (timezone.now() - call.started_at).total_seconds()
    duration = round(took * 1000)
    _note_challenges(call, outcome)
    noted = results.with_argument_notes(outcome, call.version.decoded(), call.arguments)
    told = results.told(noted, attempts, is_safe=call.terms.may_run_twice)
    if not (ended := _written([duration, *told.values(), call.pk])):
        logger.warning("call %s came back too late; its result was dropped", call.pk)
        cancellation.tell_of_no_answer(call, outcome.resume)
        call.refresh_from_db()
        return call
    ((call.finished_at,),) = ended
    call.status, call.duration_ms = CallStatus.FINISHED, duration
    call.outcome, call.error_code, call.result = told.values()
    tell_the_end(call)
    try:
        refused_calls.tell(call, outcome)
    except DatabaseError:
        logger.exception("what call %s says of its tool was not noted", call.pk)
    return call


def _outcome(call: Call, attempts: list[Attempt]) -> Outcome | None:
    # None: it goes on at its vendor, and another worker will look.
    try:
        if call.activity:
            return _perform_activity(call, call.activity, attempts)
        if remote_runs.are_kept(call):
            return remote_runs.attend(call, attempts)
        return _converse(call, attempts)
    except DomainError as exc:
        return outcomes.failed("refused", exc.code, exc.message)
    except ProtocolError as exc:
        return outcomes.after(exc)
    except Exception:
        logger.exception("call %s failed", call.pk)
        return outcomes.failed("unknown", "INTERNAL", results.OUR_FAULT)


# Of the thread that it was made on, until the vendor is asked. What is not known to have run changes nothing.
_STATUS = {
    "ok": ThreadStatus.IDLE,
    "invalid_arguments": ThreadStatus.IDLE,
    "refused": ThreadStatus.IDLE,
    "needs_input": ThreadStatus.INTERRUPTED,
}


def tell_the_end(call: Call) -> None:
    """To whoever follows the call or is called back."""
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
        logger.exception("the scheduler will look whether the end of call %s is to be told", call.pk)


def _note_challenges(call: Call, outcome: Outcome) -> None:
    # Before the outcome is written, so that who reads of a challenge finds the grant.
    try:
        challenges.note(call, outcome)
    except DatabaseError:
        logger.exception("what call %s asks of its user was not noted", call.pk)


def _written(values: Sequence[object]) -> list[tuple[Any, ...]]:
    # The vendor has answered, and cannot be asked again what came of this call.
    for pause in WRITE_AGAIN_AFTER:
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
    """What is said to the vendor for one call; `again` says it once more as the protocol wants it."""

    call: Call
    signature: Signature
    protocol: Protocol

    def begin(self, session: Session) -> Outcome:
        state = (self.call.continues.decoded().resume or {}) if self.call.continues else NOTHING_SENT
        if state == NOTHING_SENT:
            return self.protocol.invoke(session, *self._tool(), self.call.arguments)
        return self.protocol.resume(session, *self._tool(), state, self.call.answers)

    def again(self, session: Session, before: Outcome) -> Outcome:
        if before.resume is None:
            return self.begin(session)
        return self.protocol.resume(session, *self._tool(), before.resume, {})

    def _tool(self) -> tuple[str, str | None, Signature]:
        return self.call.version.tool.tool_id, self.call.version.label or None, self.signature


def _converse(call: Call, attempts: list[Attempt]) -> Outcome:
    # Sent once, and again only as the terms of the call have it (catalog/rules/retries.py).
    terms = call.terms
    ends = time.monotonic() + min(call.deadline_seconds, terms.policy.give_up_after_seconds)
    tool, endpoint = call.version.tool, call.version.tool.endpoint
    refuse_removed(endpoint)
    protocol = endpoint.speak()
    try:
        protocol.context = context.of(call, protocol)
    except MissingError as missing:
        return missing.outcome
    # A user's token may have been waited for longer than the call was held.
    if protocol.context.tokens and not queue.extend_lease(call):
        raise DomainError("ended_meanwhile", "The call ended before anything was sent.", status=409)
    # The tool first: if it is the probe and the endpoint then says no, only this tool waits a moment longer.
    for asked in (tool, endpoint):
        longest = min(call.deadline_seconds, requesting.MAX_DEADLINE_SECONDS)
        circuit_breaker.admit(asked, longest + CANCEL_SECONDS)
    exchanges: list[Exchange] = []
    conversation = _Conversation(call, call.version.decoded(), protocol)
    carried = [*protocol.context.tokens.values(), *protocol.context.secrets.values()]
    with (
        sessions.open_session(
            endpoint,
            exchanges,
            _limits(call),
            carried=carried,
            keeps_connection=True,
            mark=str(call.key),
            follower=events.follower_of(call),
        ) as session,
        _held(call, session) as held,
    ):
        session.holder = f"key {call.api_key_id}" if call.api_key_id else f"user {call.requested_by_id}"
        unshown = conversation.protocol.unshown
        give_back()
        outcome = _attempt(partial(conversation.begin, session), attempts, exchanges, unshown)
        while (wait := _wait(terms, outcome, len(attempts), ends)) is not None:
            held.sleep(wait)
            if not held.may_send():
                break
            speak = partial(conversation.again, session, outcome)
            outcome = _attempt(speak, attempts, exchanges, unshown, wait)
    try:
        # What was cut short says nothing of the vendor.
        if not held.is_lost:
            circuit_breaker.record_call(tool, outcome)
    except DatabaseError:
        logger.exception("the circuit of tool %s was not told of call %s", tool.pk, call.pk)
    return outcome


def _held(call: Call, session: Conversation) -> Watched | Heartbeat:
    return Watched(call, session, _end_left) if call.mode == Mode.WAIT else Heartbeat(call, session)


def _end_left(call: Call) -> None:
    if call.requested_by:
        with suppress(DomainError):  # it has ended meanwhile
            cancellation.cancel(call, actor=call.requested_by, why=f"{call.runtime.why} The client hung up.")


def _perform_activity(call: Call, activity: ActivityVersion, attempts: list[Attempt]) -> Outcome:
    if call.parent_id is None:
        reach.refuse_too_many_steps(activity)
    for check in BEFORE_ACTIVITIES if kinds.get(activity.kind).acts else ():
        check(call, activity)
    ends = time.monotonic() + call.deadline_seconds
    spoken = Unspoken()
    with _held(call, spoken) as held:
        give_back()
        work = Work(
            call=call,
            config=activity.config,
            signature=call.version.decoded(),
            seconds_left=lambda: ends - time.monotonic(),
            may_go_on=held.may_send,
            sleep=held.sleep,
            call_step=partial(_call_step, call),
            continue_step=partial(_continue_step, call),
            converse=partial(_converse_alone, call, spoken, attempts),
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
    # It has the place of its parent, so it cannot be kept waiting for one by calls that wait for theirs.
    version = versions.find(tool, ordinal)
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
    return _answered(step)


def _continue_step(parent: Call, number: int, stopped: Call, *, answers: Mapping[str, Any]) -> Call:
    if parent.requested_by is None:
        raise DomainError("unknown_user", "The user who asked for this call was removed.", status=409)
    _count_step(parent)
    step = requesting.continue_call(
        stopped,
        actor=parent.requested_by,
        answers=answers,
        key=call_keys.key_of_step(parent.pk, str(number)),
        is_claimed=True,
        mode=Mode(parent.mode),
        parent=parent,
    )
    return _answered(step)


def _count_step(parent: Call) -> None:
    # What a step runs may have been changed since the whole was begun. One process makes all of its steps.
    whole = parent
    while whole.parent:
        whole = whole.parent
    whole.steps_made += 1
    if whole.steps_made > MAX_STEPS_IN_ALL:
        message = f"{MAX_STEPS_IN_ALL} steps were made for this call, as many as may be."
        raise DomainError("activity_too_many_steps", message, status=409)


def _converse_alone(
    call: Call,
    spoken: Unspoken,
    attempts: list[Attempt],
    open_: Open,
    speak: Callable[[Session], Outcome],
) -> Outcome:
    exchanges: list[Exchange] = []
    with open_(exchanges, _limits(call)) as session:
        session.may_send = spoken.may_send
        spoken.session = session
        try:
            return _attempt(partial(speak, session), attempts, exchanges, ())
        finally:
            spoken.session = None


def _wait(terms: Terms, outcome: Outcome, attempts: int, ends: float) -> float | None:
    left = ends - time.monotonic()
    chance = random.random()  # noqa: S311 - spreads those who wait, protects nothing
    return retries.wait_before_next(terms, outcome, attempts=attempts, seconds_left=left, chance=chance)


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
        with_progress=MAX_SECONDS_WITH_PROGRESS if call.extends_with_progress else 0.0,
        session=longest,
        body=MAX_REPLY_BYTES,
        session_bytes=MAX_SESSION_BYTES,
        backoff=(),
    )
