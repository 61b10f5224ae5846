"""How a worker holds a call that is not waited for: a short lease, which a thread beside it moves on.

A worker that dies lets go of its call within `HELD`. A call that was ended meanwhile, by a user who cancelled
it or because its worker looked dead, ends its worker's conversation with the vendor. A call that is waited
for has its whole lease at once, and its process looks from time to time whether it was ended, or whether the
program that waits has hung up; where that process ends it itself, its conversation ends at once.
"""

import copy
import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Protocol, Self

from django.db import Error as DatabaseError
from django.db import connection

from catalog.calls import events
from catalog.calls.queue import extend_lease
from catalog.models import Call
from catalog.models.calls import CallStatus
from core.outbound.session import Session
from core.postgresql.base import give_back

logger = logging.getLogger(__name__)

BEAT_SECONDS = 8.0
LOOK_SECONDS = 1.0
# So long what was seen of a row holds: nearly all calls are sent within it.
FRESH_SECONDS = 0.5


class Conversation(Protocol):
    """What ends with a call: a session with its vendor, or what stands for one."""

    may_send: Callable[[], bool]

    @property
    def is_interrupted(self) -> bool: ...

    def interrupt(self) -> None: ...

    def sleep(self, seconds: float) -> None: ...


class Unspoken:
    """Stands for the conversation of a call whose activity may hold one or none."""

    def __init__(self) -> None:
        self.may_send: Callable[[], bool] = lambda: not self.is_interrupted
        self.session: Session | None = None
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


class Held:
    """A call that this process holds, and the conversation with its vendor: both end together."""

    def __init__(self, call: Call, session: Conversation) -> None:
        self.call, self.session, self.began = call, session, time.monotonic()
        self._seen = self.began
        session.may_send = self.may_send

    @property
    def is_lost(self) -> bool:
        return self.session.is_interrupted

    def may_send(self) -> bool:
        """Whether it is still held. What has just been seen is not looked at again."""
        if not self.is_lost and time.monotonic() - self._seen > FRESH_SECONDS:
            try:
                if not extend_lease(self.call):
                    self.session.interrupt()
                self._seen = time.monotonic()
                give_back()
            except DatabaseError as exc:
                # Without the database no one knows, and what came of it could not be written either.
                logger.warning("call %s was not sent, as its row could not be read: %s", self.call.pk, exc)
                connection.close()
                return False
        return not self.is_lost

    def sleep(self, seconds: float) -> None:
        """Before it is sent again; ends at once with the call."""
        self.session.sleep(seconds)
        self._seen = -math.inf


class Heartbeat(Held):
    def __init__(self, call: Call, session: Conversation) -> None:
        super().__init__(call, session)
        self._is_done = False
        self._thread = threading.Thread(target=self._beat, name=f"call-{call.pk}", daemon=True)

    def may_send(self) -> bool:
        # It is not waited for, so there is time to look at its row each time.
        self._seen = -math.inf
        return super().may_send()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The thread is not waited for: it may sleep for some seconds, and does nothing any more.
        self._is_done = True

    def _beat(self) -> None:
        seen = events.FIRST
        due = time.monotonic() + BEAT_SECONDS
        try:
            while not self._is_done:
                heard = events.after(self.call.key, seen, max(0.01, due - time.monotonic()))
                seen = heard[-1].id if heard else seen
                has_ended = any(event.kind == events.ENDED for event in heard)
                if (has_ended or time.monotonic() >= due) and not self._is_done:
                    due = time.monotonic() + BEAT_SECONDS
                    if not self._extend():
                        self.session.interrupt()
                        return
        finally:
            connection.close()

    def _extend(self) -> bool:
        try:
            is_mine = extend_lease(self.call)
            give_back()
        except DatabaseError as exc:
            logger.warning("call %s could not extend its lease: %s", self.call.pk, exc)
            connection.close()
            return True
        return is_mine


class Watched(Held):
    """A call that is waited for, while this process makes it. One thread looks after all of them. `end` ends
    a call whose program has hung up."""

    def __init__(self, call: Call, session: Conversation, end: Callable[[Call], object]) -> None:
        super().__init__(call, session)
        self._end = end

    def end_if_left(self) -> None:
        """Ends it in a thread of its own, which may have to tell the vendor, where no one waits any more."""
        has_left = self.call.runtime.side.has_left if self.call.runtime else None
        if has_left and not self.is_lost and has_left():
            threading.Thread(target=self._end_it, name="left", daemon=True).start()

    def _end_it(self) -> None:
        try:
            self._end(copy.copy(self.call))
        except DatabaseError as exc:
            logger.warning("call %s, for which no one waits, could not be ended: %s", self.call.pk, exc)
        finally:
            connection.close()

    def __enter__(self) -> Self:
        _watch.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _watch.remove(self)


class _Watch:
    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        with self._lock:
            self._watched.add(watched)
            # One that a parent process had is not alive here.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
                self._thread.start()

    def remove(self, watched: Watched) -> None:
        with self._lock:
            self._watched.discard(watched)

    def interrupt(self, call: int) -> None:
        with self._lock:
            ended = [each for each in self._watched if each.call.pk == call]
        for each in ended:
            each.session.interrupt()

    def _look(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                # Most calls are over before they are looked at.
                due = time.monotonic() - LOOK_SECONDS
                slow = {each.call.pk: each for each in self._watched if each.began < due}
            for ended in _ended(slow):
                slow[ended].session.interrupt()
            for each in slow.values():
                each.end_if_left()


def _ended(calls: Collection[int]) -> list[int]:
    if not calls:
        return []
    try:
        ended = Call.objects.filter(pk__in=calls).exclude(status=CallStatus.RUNNING)
        return list(ended.values_list("pk", flat=True))
    except DatabaseError as exc:
        logger.warning("calls that are waited for could not be looked at: %s", exc)
        return []
    finally:
        connection.close()


_watch = _Watch()


def interrupt(call: int) -> None:
    """Ends the conversation of a call that has ended, where this process makes it and it is waited for."""
    _watch.interrupt(call)
