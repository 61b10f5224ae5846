"""Run several calls of one release together.

They are ordinary calls that run in parallel, within a common time limit, and until as many have ended as
requested.
“Tool.all”, “Tool.any” and “Tool.race”: https://github.com/idealic-ai/docs, rfc/03_agent_calls.md
"""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import ceil
from threading import Event, Lock

from django.db import DatabaseError, connection

from catalog.models import Call
from catalog.models.calls import ACTIVE_CALLS, Mode
from core.errors import DomainError
from core.postgresql.base import give_back
from designer.exports import transfers
from designer.models import Release
from execution.calls import cancellation, requesting
from execution.calls.call_keys import ClientCallId
from execution.calls.places import NoRoomError
from execution.calls.requesting import TooManyCallsError
from people.models import ApiKey, User
from serving import calls, stored_calls
from serving.calls import Answer, CallRequest
from serving.released_documents import load_sealed_release

logger = logging.getLogger(__name__)
MAX_CALLS = 20
# Each call occupies a thread, and other requests need threads too.
MAX_PARALLEL_CALLS = 8
# In seconds, between attempts to start a call: the running calls of a key may last a day.
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0
# In seconds, until calls that are no longer needed are cancelled again: one may have started just now.
CANCEL_INTERVAL = 0.1
# For a call that is always awaited.
NEVER = Event()
# Outcomes of calls that wait for an answer, so they have not ended.
WAITING_OUTCOMES = {"latent", "needs_input", "needs_authorization"}


class Until(StrEnum):
    """The calls of a batch that are awaited."""

    ALL = "all"
    ANY = "any"
    RACE = "race"

    def is_over_with(self, outcome: str) -> bool:
        """Return whether a call with this outcome ends the wait for the others."""
        match self:
            case Until.ALL:
                return False
            case Until.ANY:
                return outcome in ("ok", transfers.KIND)
            case Until.RACE:
                return outcome not in WAITING_OUTCOMES


class NoTimeError(DomainError):
    retry_after = 1

    def __init__(self) -> None:
        message = "The batch ran out of time before this call. This call was not sent. Send it again."
        super().__init__("no_time", message, status=503)


class NotWaitedForError(DomainError):
    def __init__(self) -> None:
        message = "Another call of the batch ended first. This call was not sent."
        super().__init__("cancelled", message, status=409)


@dataclass(frozen=True, kw_only=True)
class BatchCall:
    """A call of a batch. `admit` raises if the caller may not send one more call now."""

    call_request: CallRequest
    admit: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """The results in the order of the calls. A call that raised has its exception as result.

    first: index of the call that ended the wait for the others.
    """

    answers: Sequence[Answer | Exception]
    first: int | None = None


def run(
    release: Release,
    batch_calls: Sequence[BatchCall],
    *,
    actor: User,
    key: ApiKey | None,
    seconds: float,
    until: Until = Until.ALL,
) -> BatchResult:
    """Run the calls and return their results."""
    caller, deadline = _Caller(release, actor, key), time.monotonic() + seconds
    if until != Until.ALL:
        # The ids allow to find and cancel the other calls.
        batch_calls = [
            replace(
                call,
                call_request=replace(
                    call.call_request,
                    call_id=call.call_request.call_id or ClientCallId("", part=str(uuid.uuid4())),
                ),
            )
            for call in batch_calls
        ]
    first_index, sent_before = caller.find_earlier_results(batch_calls, until)
    state = _BatchState(until, first_index)
    give_back()
    parallel_count = min(
        MAX_PARALLEL_CALLS, len(batch_calls), key.calls_at_once if key else requesting.USERS_CALLS_AT_ONCE
    )
    with ThreadPoolExecutor(max_workers=max(1, parallel_count), thread_name_prefix="batch") as threads:
        ids = {}
        for index, call in enumerate(batch_calls):
            # A call that was sent before is not sent again, and returns its result.
            is_over = NEVER if call.call_request.call_id in sent_before else state.are_over
            make = partial(caller.run_when_possible, call, deadline, is_over)
            future = threads.submit(copy_context().run, state.run, index, make)
            ids[future] = call.call_request.call_id
        waiting = set(ids)
        while waiting:
            pause = CANCEL_INTERVAL if state.are_over.is_set() else None
            _, waiting = wait(waiting, timeout=pause, return_when=FIRST_COMPLETED)
            call_ids = [call_id for future in waiting if (call_id := ids[future])]
            if state.are_over.is_set() and call_ids:
                caller.cancel_calls(call_ids)
        return BatchResult(answers=[future.result() for future in ids], first=state.first)


@dataclass(frozen=True)
class _Caller:
    """A caller that runs several tools of a release together."""

    release: Release
    actor: User
    key: ApiKey | None

    def find_earlier_results(
        self, batch_calls: Sequence[BatchCall], until: Until
    ) -> tuple[int | None, set[ClientCallId]]:
        """Return what an earlier request with the same batch has done: the index of the call that ended its
        wait, and the ids of the calls that it sent.
        """
        if until == Until.ALL:
            return None, set()
        indexes = {
            call.call_request.call_id: index
            for index, call in enumerate(batch_calls)
            if call.call_request.call_id
        }
        ids = {
            derived: call_id
            for call_id in indexes
            for derived in stored_calls.keys_of_caller(call_id, actor=self.actor, key=self.key)
        }
        rows = Call.objects.filter(key__in=ids, requested_by=self.actor, api_key=self.key, continues=None)
        earlier = [(ids[row.key], row.outcome) for row in rows.order_by("finished_at", "pk")]
        ending_indexes = (
            indexes[call_id] for call_id, outcome in earlier if outcome and until.is_over_with(outcome)
        )
        return next(ending_indexes, None), {call_id for call_id, _ in earlier}

    def cancel_calls(self, ids: Sequence[ClientCallId]) -> None:
        reason = f"{calls.runtime_of(self.release, self.key).why} Another call of its array came first."
        active = Call.objects.filter(status__in=ACTIVE_CALLS)
        rows = stored_calls.find_calls_with_ids(ids, active, actor=self.actor, key=self.key)
        try:
            for call in rows.select_related("version__tool__endpoint__vendor", "activity"):
                with suppress(DomainError):  # it has ended in the meantime
                    cancellation.cancel(call, actor=self.actor, why=reason)
        except DatabaseError:
            logger.exception("calls of a batch that are not waited for were not cancelled")
        give_back()

    def run_when_possible(self, batch_call: BatchCall, deadline: float, is_over: Event) -> Answer:
        pause = FIRST_PAUSE
        is_admitted, call_request, is_waited_for = (
            False,
            batch_call.call_request,
            batch_call.call_request.mode == Mode.WAIT,
        )
        tool = load_sealed_release(self.release).tool(call_request.tool, call_request.sub_agent)
        default_deadline = tool.retry_policy.give_up_after_seconds if tool else requesting.DEADLINE
        while (remaining := ceil(deadline - time.monotonic())) > 0:
            if is_over.is_set():
                raise NotWaitedForError
            if not is_admitted:
                batch_call.admit()
                is_admitted = True
            if is_waited_for and (call_request.deadline_seconds or default_deadline) > remaining:
                call_request = replace(call_request, deadline_seconds=remaining)
            try:
                return calls.run(self.release, call_request, actor=self.actor, key=self.key)
            except (TooManyCallsError, NoRoomError):
                if not is_waited_for:
                    raise
            give_back()
            is_over.wait(pause)
            pause = min(pause * 1.5, MAX_PAUSE)
        raise NoTimeError


class _BatchState:
    """Tracks whether the remaining calls are still awaited; each call that ends reports its outcome."""

    def __init__(self, until: Until, first: int | None) -> None:
        self.until, self.first = until, first
        self.are_over = Event()
        self._lock = Lock()
        if first is not None:
            self.are_over.set()

    def run(self, index: int, make: Callable[[], Answer]) -> Answer | Exception:
        """Run a call in its thread."""
        try:
            answer = make()
        except Exception as error:  # noqa: BLE001 - the other calls have run, and their answers are returned
            return error
        else:
            # Reported here, so that the thread does not start another call first.
            self.report(index, answer)
            return answer
        finally:
            connection.close()

    def report(self, index: int, answer: Answer) -> None:
        # A refused call was not sent, so it cannot end the wait.
        was_sent = answer.call is not None or answer.outcome == transfers.KIND
        if not (was_sent and answer.outcome and self.until.is_over_with(answer.outcome)):
            return
        with self._lock:
            if self.first is None:
                self.first = index
                self.are_over.set()
