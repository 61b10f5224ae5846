"""Extends the lease of a run, and stores its progress and the pages so far, while the main thread reads."""

import logging
import threading
import time
from types import TracebackType

from django.db import Error as DatabaseError
from django.db import connection
from django.db.models.functions import Now

from catalog.enumeration import kept_replies, last_reply, lease, store
from catalog.models import Run

logger = logging.getLogger(__name__)

# Far below the lease, so that a few late beats do not lose it.
HEARTBEAT_SECONDS = 1.0
# A long enumeration loses this much with its worker.
STORE_SECONDS = 10.0


class Heartbeat:
    """A thread that extends the lease, and stores the progress and the pages so far, on its own database
    connection.

    The main thread may wait for the vendor meanwhile. It learns from `is_lost` that another worker has taken
    the run up, or that the endpoint has moved: `has_moved`.
    """

    def __init__(self, run: Run, replies: kept_replies.Replies) -> None:
        self.progress: dict[str, int] = {}
        self.heard = last_reply.new_exchange_log()
        self.is_lost = False
        self.has_moved = False
        self._run = run
        self._replies = replies
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=self._extend_regularly, name=f"heartbeat-{run.pk}", daemon=True
        )

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _extend_regularly(self) -> None:
        stored = time.monotonic()
        try:
            while not self._done.wait(HEARTBEAT_SECONDS):
                now = time.monotonic()
                try:
                    claimed = lease.claimed_run(self._run)
                    is_mine = bool(claimed.update(lease_until=Now() + lease.LEASE, **self.progress))
                    self.has_moved = not store.as_it_was_read(self._run).exists()
                    self.is_lost = self.has_moved or not is_mine
                except DatabaseError as exc:
                    # Perhaps a short outage. The lease is valid until another worker has claimed the run.
                    logger.warning("run %s could not extend its lease: %s", self._run.pk, exc)
                    connection.close()
                    self.is_lost = False
                if now - stored >= STORE_SECONDS:
                    self._replies.store()
                    stored = now
        finally:
            connection.close()
