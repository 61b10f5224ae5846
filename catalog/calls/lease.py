"""How a worker holds a call that is not waited for: a short lease, which a thread beside it moves on.

A worker that dies lets go of its call within `HELD`. A call that was ended meanwhile, by a user who cancelled
it or because its worker looked dead, ends its worker's conversation with the vendor.
"""

import logging
import threading
import time
from types import TracebackType
from typing import Self

from django.db import Error as DatabaseError
from django.db import connection

from catalog.calls import events
from catalog.calls.queue import held_on
from catalog.models import Call
from core.outbound.session import Session
from core.postgresql.base import give_back

logger = logging.getLogger(__name__)

BEAT_SECONDS = 8.0


class Heartbeat:
    def __init__(self, call: Call, session: Session) -> None:
        self.is_lost = False
        self._call, self._session = call, session
        self._is_done = False
        self._thread = threading.Thread(target=self._beat, name=f"call-{call.pk}", daemon=True)

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
                heard = events.after(self._call.key, seen, max(0.01, due - time.monotonic()))
                seen = heard[-1].id if heard else seen
                has_ended = any(event.kind == events.ENDED for event in heard)
                if (has_ended or time.monotonic() >= due) and not self._is_done:
                    due = time.monotonic() + BEAT_SECONDS
                    if not self._extend():
                        self.is_lost = True
                        self._session.interrupt()
                        return
        finally:
            connection.close()

    def _extend(self) -> bool:
        try:
            is_mine = held_on(self._call)
            give_back()
        except DatabaseError as exc:
            logger.warning("call %s could not extend its lease: %s", self._call.pk, exc)
            connection.close()
            return True
        return is_mine
