"""Several calls of one release, asked for at once. Each is a call like any other: only that they are made
side by side, within a time that holds for all of them, and until as many have ended as were asked for.

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

from catalog.calls import cancellation, requesting
from catalog.calls.call_keys import ClientCallId
from catalog.calls.invocation import NoRoomError
from catalog.calls.requesting import TooManyCallsError
from catalog.models import Call
from catalog.models.calls import ACTIVE_CALLS, Mode
from core.errors import DomainError
from core.postgresql.base import give_back
from designer.exports import transfers
from designer.models import Release
from executor import calls
from executor.calls import Answer, Wish
from executor.released_documents import sealed
from people.models import ApiKey, User

logger = logging.getLogger(__name__)
MAX_CALLS = 20
# Each holds a thread, of which other requests want some, too.
AT_ONCE = 8
# In seconds, until another call may have ended: calls of a day may hold all places of a key.
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0
# In seconds, until calls that are not waited for any more are looked for again: one may just have begun.
CANCEL_AGAIN = 0.1
# Of a call that is waited for in any case.
NEVER = Event()
# These wait for an answer, and so have not ended.
ASKING = {"latent", "needs_input", "needs_authorization"}


class Until(StrEnum):
    """Which calls of a batch are waited for."""

    ALL = "all"
    ANY = "any"
    RACE = "race"

    def is_over_with(self, outcome: str) -> bool:
        """Whether a call that ended so is the one that was waited for, and the others are not any more."""
        match self:
            case Until.ALL:
                return False
            case Until.ANY:
                return outcome in ("ok", transfers.KIND)
            case Until.RACE:
                return outcome not in ASKING


class NoTimeError(DomainError):
    retry_after = 1

    def __init__(self) -> None:
        message = "The time of the batch was over before this call's turn. Nothing was sent. Send it again."
        super().__init__("no_time", message, status=503)


class NotWaitedForError(DomainError):
    def __init__(self) -> None:
        message = "Another call of the array came first, so this one was not made. Nothing was sent."
        super().__init__("cancelled", message, status=409)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A call of a batch. `admit` raises where the caller may not make one more call now."""

    wish: Wish
    admit: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Came:
    """What came of each call of a batch, in their order: what it raised stands in the place of an answer.
    `first` is the place of the one that ended the wait for the others."""

    answers: Sequence[Answer | Exception]
    first: int | None = None


def run(
    release: Release,
    wanted: Sequence[Wanted],
    *,
    actor: User,
    key: ApiKey | None,
    seconds: float,
    until: Until = Until.ALL,
) -> Came:
    """A call that would be one too many for its key or for this process waits for its turn. None runs longer
    than what is left of the `seconds`, and what has had no turn by then is not made. Nor is what has had none
    when the wait is over, as `until` has it; what is under way then is cancelled. What a call raises is as of
    `executor.calls.run`.
    """
    ends = time.monotonic() + seconds
    if until != Until.ALL:
        # By their ids the others are found and cancelled.
        wanted = [
            replace(each, wish=replace(each.wish, call_id=each.wish.call_id or _own_id())) for each in wanted
        ]
    first, made_before = _as_before(wanted, until, actor, key)
    others = _Others(until, first)
    give_back()
    at_once = min(AT_ONCE, len(wanted), key.calls_at_once if key else requesting.USERS_CALLS_AT_ONCE)
    with ThreadPoolExecutor(max_workers=max(1, at_once), thread_name_prefix="batch") as threads:
        ids = {}
        for place, each in enumerate(wanted):
            # What was made before sends nothing again, and says what came of it.
            is_over = NEVER if each.wish.call_id in made_before else others.are_over
            make = partial(_in_turn, release, each, ends, is_over, actor, key)
            made = threads.submit(copy_context().run, _of_a_thread, make, partial(others.hear, place))
            ids[made] = each.wish.call_id
        waiting = set(ids)
        while waiting:
            pause = CANCEL_AGAIN if others.are_over.is_set() else None
            _, waiting = wait(waiting, timeout=pause, return_when=FIRST_COMPLETED)
            if others.are_over.is_set() and (left := [one for made in waiting if (one := ids[made])]):
                _cancel(left, release, actor, key)
        return Came(answers=[made.result() for made in ids], first=others.first)


def _own_id() -> ClientCallId:
    return ClientCallId("", part=str(uuid.uuid4()))


class _Others:
    """Whether the others are waited for yet, which each call that ends says for them."""

    def __init__(self, until: Until, first: int | None) -> None:
        self.until, self.first = until, first
        self.are_over = Event()
        self._lock = Lock()
        if first is not None:
            self.are_over.set()

    def hear(self, place: int, came: Answer) -> None:
        # What was refused has not run, and so it has not ended either.
        was_made = came.call is not None or came.outcome == transfers.KIND
        if not (was_made and came.outcome and self.until.is_over_with(came.outcome)):
            return
        with self._lock:
            if self.first is None:
                self.first = place
                self.are_over.set()


def _as_before(
    wanted: Sequence[Wanted], until: Until, actor: User, key: ApiKey | None
) -> tuple[int | None, set[ClientCallId]]:
    # Of a batch that was sent before: which call was the first one then, and which were made at all.
    if until == Until.ALL:
        return None, set()
    places = {each.wish.call_id: place for place, each in enumerate(wanted) if each.wish.call_id}
    ids = {derived: call_id for call_id in places for derived in calls.keys_of(call_id, actor=actor, key=key)}
    rows = Call.objects.filter(key__in=ids, requested_by=actor, api_key=key, continues=None)
    earlier = [(ids[row.key], row.outcome) for row in rows.order_by("finished_at", "pk")]
    over = (places[call_id] for call_id, outcome in earlier if outcome and until.is_over_with(outcome))
    return next(over, None), {call_id for call_id, _ in earlier}


def _cancel(ids: Sequence[ClientCallId], release: Release, actor: User, key: ApiKey | None) -> None:
    why = f"{calls.runtime_of(release, key).why} Another call of its array came first."
    active = Call.objects.filter(status__in=ACTIVE_CALLS)
    rows = calls.made_with(ids, active, actor=actor, key=key)
    try:
        for call in rows.select_related("version__tool__endpoint__vendor", "activity"):
            with suppress(DomainError):  # it ended meanwhile
                cancellation.cancel(call, actor=actor, why=why)
    except DatabaseError:
        logger.exception("calls of a batch that are not waited for were not cancelled")
    give_back()


def _of_a_thread(make: Callable[[], Answer], hear: Callable[[Answer], None]) -> Answer | Exception:
    try:
        answer = make()
    except Exception as error:  # noqa: BLE001 - the other calls have run, and their answers go out
        return error
    else:
        # Here, so that the thread begins no other call meanwhile.
        hear(answer)
        return answer
    finally:
        connection.close()


def _in_turn(
    release: Release, wanted: Wanted, ends: float, is_over: Event, actor: User, key: ApiKey | None
) -> Answer:
    pause = FIRST_PAUSE
    is_admitted, wish, is_waited_for = False, wanted.wish, wanted.wish.mode == Mode.WAIT
    tool = sealed(release).tool(wish.tool, wish.sub_agent)
    usual = tool.retry_policy.give_up_after_seconds if tool else requesting.DEADLINE
    while (left := ceil(ends - time.monotonic())) > 0:
        if is_over.is_set():
            raise NotWaitedForError
        if not is_admitted:
            wanted.admit()
            is_admitted = True
        if is_waited_for and (wish.deadline_seconds or usual) > left:
            wish = replace(wish, deadline_seconds=left)
        try:
            return calls.run(release, wish, actor=actor, key=key)
        except (TooManyCallsError, NoRoomError):
            if not is_waited_for:
                raise
        give_back()
        is_over.wait(pause)
        pause = min(pause * 1.5, MAX_PAUSE)
    raise NoTimeError
