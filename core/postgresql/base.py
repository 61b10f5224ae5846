"""Django's PostgreSQL with a few connections for all threads of a process.

Threads that wait for a vendor need none, and there are many of them. Django's own `pool` option does the same
with another package (psycopg_pool); docs/decisions/0010-calls.md says why that is not used.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.pq import TransactionStatus

from core.pooler_safe import base

WAIT_SECONDS = 10.0  # seconds, in which many requests that come at once have their turn


class NoFreeConnectionError(psycopg.OperationalError):
    """All connections that this process may have to the database are in use."""


class Pool:
    """At most so many connections, of which the one that was given back last is taken first."""

    def __init__(self, most: int) -> None:
        self._free: deque[psycopg.Connection[Any]] = deque()
        self._room = threading.BoundedSemaphore(most)

    def take(
        self, make: Callable[[], psycopg.Connection[Any]], wait: float = WAIT_SECONDS
    ) -> psycopg.Connection[Any]:
        """Raises NoFreeConnectionError where none becomes free in time."""
        if not self._room.acquire(timeout=wait):
            raise NoFreeConnectionError("all connections of this process to the database are in use")
        try:
            return self._usable() or make()
        except BaseException:
            self._room.release()
            raise

    def has_room(self, seconds: float) -> bool:
        """Whether one more connection could be taken within so many seconds."""
        if not self._room.acquire(timeout=seconds):
            return False
        self._room.release()
        return True

    def take_kept(self) -> psycopg.Connection[Any] | None:
        """One that is free at once, if there is one."""
        if not self._free or not self._room.acquire(blocking=False):
            return None
        kept = self._usable()
        if kept is None:
            self._room.release()
        return kept

    def _usable(self) -> psycopg.Connection[Any] | None:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                kept = self._free.pop()
                if _is_usable(kept):
                    return kept
                kept.close()
        return None

    def give(self, kept: psycopg.Connection[Any]) -> None:
        if kept.closed or kept.pgconn.transaction_status != TransactionStatus.IDLE or not kept.autocommit:
            kept.close()
        else:
            self._free.append(kept)
        self._room.release()


def _is_usable(kept: psycopg.Connection[Any]) -> bool:
    # Nothing was asked of it, so what there is to read is that its server went away. `select` would refuse
    # the numbers of files beyond 1,024, which a process with many threads has.
    if kept.closed:
        return False
    line = select.poll()
    line.register(kept.fileno(), select.POLLIN)
    return not line.poll(0)


_pools: dict[str, Pool] = {}
# A child has the same sockets as its parent, who goes on using them.
os.register_at_fork(after_in_child=_pools.clear)


class DatabaseWrapper(base.DatabaseWrapper):
    @property
    def _shared(self) -> Pool:
        name = str(self.settings_dict["NAME"])
        return _pools.get(name) or _pools.setdefault(name, Pool(settings.DATABASE_CONNECTIONS))

    def connect(self) -> None:
        """As Django's own, without what a kept connection has behind it: its parameters, its state, and those
        who wait to hear of a new one. That takes longer than most statements."""
        kept = self._shared.take_kept() if self.settings_dict["AUTOCOMMIT"] else None
        if kept is None:
            super().connect()
            return
        self.connection, self.autocommit = kept, True
        self.in_atomic_block = self.needs_rollback = self.closed_in_transaction = False
        self.savepoint_ids, self.atomic_blocks, self.run_on_commit = [], [], []
        self.errors_occurred, self.health_check_done = False, True
        self.health_check_enabled = self.settings_dict["CONN_HEALTH_CHECKS"]
        max_age = self.settings_dict["CONN_MAX_AGE"]
        self.close_at = None if max_age is None else time.monotonic() + max_age

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        make = super().get_new_connection
        return self._shared.take(lambda: make(conn_params))

    def has_free_connection(self, seconds: float) -> bool:
        """Whether this thread has a connection, or could have one within so many seconds."""
        return self.connection is not None or self._shared.has_room(seconds)

    def _close(self) -> None:
        kept, self.connection = self.connection, None
        if kept is not None:
            with self.wrap_database_errors:
                self._shared.give(kept)


def give_back() -> None:
    """Before a long wait for something else: other threads may have this one's connection meanwhile."""
    ours = connections[DEFAULT_DB_ALIAS]
    if isinstance(ours, DatabaseWrapper) and not ours.in_atomic_block:
        ours.close()
