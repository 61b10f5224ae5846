"""Leases of calls that a process executes, and the interruption of calls that end meanwhile.

A worker has a short lease, which a thread renews, so the call of a dead worker is free after `WORKER_LEASE`.
If the call ends meanwhile, because a user cancelled it or the worker looked dead, the session with the vendor
is interrupted. A call that a program waits for has its whole lease at once. Its process checks from time to
time whether the call was ended or the program has hung up.
"""

import copy
import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

from django.db import Error as DatabaseError
from django.db import connection
from django.db.models.functions import Now

from catalog.credentials.oauth import clients
from catalog.models import Call
from catalog.models.calls import CallStatus, Mode
from core.outbound.session import HttpSession
from core.postgresql.base import give_back
from execution.calls import events

logger = logging.getLogger(__name__)

BEAT_SECONDS = 8.0
CHECK_SECONDS = 1.0
# A check of the row counts for this long. Nearly all calls are sent within it.
FRESH_SECONDS = 0.5
# The lease of a worker, unless it renews it.
WORKER_LEASE = timedelta(seconds=40)
# Time for parsing and storing a reply after the deadline. Then the process counts as dead.
GRACE = timedelta(seconds=15)
TOKEN_GRACE = timedelta(seconds=45)  # a slow authorization server comes before the tool


def lease_of(call: Call) -> timedelta:
    """Return the time within which the process must end the call or renew its lease."""
    if call.mode != Mode.WAIT:
        return WORKER_LEASE
    ends = timedelta(seconds=call.deadline_seconds) + GRACE
    if call.activity_id:
        # Each of its steps may have to wait for a token.
        return ends + TOKEN_GRACE
    credential = call.version.tool.endpoint.credential
    return ends + TOKEN_GRACE if credential and clients.uses_oauth(credential) else ends


def extend_lease(call: Call) -> bool:
    """Renew the lease. False: the call has ended meanwhile, and nothing may be sent for it."""
    running_call = Call.objects.filter(pk=call.pk, status=CallStatus.RUNNING)
    return bool(running_call.update(gives_up_at=Now() + lease_of(call)))


class Conversation(Protocol):
    """A session with a vendor, or its replacement in tests, which is interrupted when the call ends."""

    may_send: Callable[[], bool]

    @property
    def is_interrupted(self) -> bool: ...

    def interrupt(self) -> None: ...

    def sleep(self, seconds: float) -> None: ...


class Unspoken:
    """The conversation of a call whose activity may have one session or none."""

    def __init__(self) -> None:
        self.may_send: Callable[[], bool] = lambda: not self.is_interrupted
        self.session: HttpSession | None = None
        self._interrupted = threading.Event()

    @property
    def is_interrupted(self) -> bool:
        return self._interrupted.is_set()

    def interrupt(self) -> None:
        self._interrupted.set()
        if session := self.session:
            session.interrupt()

    def sleep(self, seconds: float) -> None:
        self._interrupted.wait(seconds)


class LeasedCall:
    """A call that this process executes, and its conversation. Both end together."""

    def __init__(self, call: Call, session: Conversation) -> None:
        self.call, self.session, self.began = call, session, time.monotonic()
        self._checked_at = self.began
        session.may_send = self.may_send

    @property
    def is_lost(self) -> bool:
        return self.session.is_interrupted

    def may_send(self) -> bool:
        """Return whether the lease is still valid. A recent check is not repeated."""
        if not self.is_lost and time.monotonic() - self._checked_at > FRESH_SECONDS:
            try:
                if not extend_lease(self.call):
                    self.session.interrupt()
                self._checked_at = time.monotonic()
                give_back()
            except DatabaseError as exc:
                # Without the database the lease is unknown, and the outcome could not be stored.
                logger.warning("call %s was not sent, as its row could not be read: %s", self.call.pk, exc)
                connection.close()
                return False
        return not self.is_lost

    def sleep(self, seconds: float) -> None:
        """Wait before a retry. Returns at once when the call ends."""
        self.session.sleep(seconds)
        self._checked_at = -math.inf


class CallHeartbeat(LeasedCall):
    def __init__(self, call: Call, session: Conversation) -> None:
        super().__init__(call, session)
        self._is_done = False
        self._thread = threading.Thread(target=self._extend_regularly, name=f"call-{call.pk}", daemon=True)

    def may_send(self) -> bool:
        # No client waits for the call, so the row is read each time.
        self._checked_at = -math.inf
        return super().may_send()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The thread is not joined: it may sleep for some seconds, and then ends.
        self._is_done = True

    def _extend_regularly(self) -> None:
        last_id = events.FIRST
        due = time.monotonic() + BEAT_SECONDS
        try:
            while not self._is_done:
                new_events = events.events_after(self.call.key, last_id, max(0.01, due - time.monotonic()))
                last_id = new_events[-1].id if new_events else last_id
                has_ended = any(event.kind == events.ENDED for event in new_events)
                if (has_ended or time.monotonic() >= due) and not self._is_done:
                    due = time.monotonic() + BEAT_SECONDS
                    if not self._try_extend():
                        self.session.interrupt()
                        return
        finally:
            connection.close()

    def _try_extend(self) -> bool:
        try:
            is_extended = extend_lease(self.call)
            give_back()
        except DatabaseError as exc:
            logger.warning("call %s could not extend its lease: %s", self.call.pk, exc)
            connection.close()
            return True
        return is_extended


class WatchedCall(LeasedCall):
    """A call that a program waits for. One thread watches all of them. `end` ends the call of a gone
    program."""

    def __init__(self, call: Call, session: Conversation, end: Callable[[Call], object]) -> None:
        super().__init__(call, session)
        self._end = end

    def end_if_left(self) -> None:
        """End the call in a thread of its own if its program has hung up, because the vendor may have to
        be notified."""

        def end() -> None:
            try:
                self._end(copy.copy(self.call))
            except DatabaseError as exc:
                logger.warning("call %s, whose client has hung up, could not be ended: %s", self.call.pk, exc)
            finally:
                connection.close()

        has_left = self.call.runtime.side.has_left if self.call.runtime else None
        if has_left and not self.is_lost and has_left():
            threading.Thread(target=end, name="left", daemon=True).start()

    def __enter__(self) -> Self:
        _watch.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _watch.remove(self)


class _Watch:
    def __init__(self) -> None:
        self._watched: set[WatchedCall] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, call: WatchedCall) -> None:
        with self._lock:
            self._watched.add(call)
            # The thread of a parent process does not exist here.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch_calls, name="watch", daemon=True)
                self._thread.start()

    def remove(self, call: WatchedCall) -> None:
        with self._lock:
            self._watched.discard(call)

    def interrupt(self, call: int) -> None:
        with self._lock:
            ended_calls = [watched for watched in self._watched if watched.call.pk == call]
        for watched in ended_calls:
            watched.session.interrupt()

    def _watch_calls(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                # Most calls end before their first check.
                due = time.monotonic() - CHECK_SECONDS
                slow = {watched.call.pk: watched for watched in self._watched if watched.began < due}
            for ended in _find_ended(slow):
                slow[ended].session.interrupt()
            for watched in slow.values():
                watched.end_if_left()


def _find_ended(calls: Collection[int]) -> list[int]:
    if not calls:
        return []
    try:
        ended = Call.objects.filter(pk__in=calls).exclude(status=CallStatus.RUNNING)
        return list(ended.values_list("pk", flat=True))
    except DatabaseError as exc:
        logger.warning("waiting calls could not be checked: %s", exc)
        return []
    finally:
        connection.close()


_watch = _Watch()


def interrupt(call: int) -> None:
    """Interrupt the session of a call that has ended, if this process executes it for a waiting program."""
    _watch.interrupt(call)
