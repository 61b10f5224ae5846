"""Django's PostgreSQL backend with a few connections for all threads of a process.

Most threads wait for a vendor and need no connection. docs/decisions/0010-calls.md explains why Django's
`pool` option (psycopg_pool) is not used.
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

WAIT_SECONDS = 10.0  # long enough for a burst of requests


class NoFreeConnectionError(psycopg.OperationalError):
    """All database connections of this process are in use."""


class Pool:
    """A limited number of connections. The one that was returned last is used first."""

    def __init__(self, max_connections: int) -> None:
        self._idle: deque[psycopg.Connection[Any]] = deque()
        self._slots = threading.BoundedSemaphore(max_connections)

    def acquire(
        self, make: Callable[[], psycopg.Connection[Any]], wait: float = WAIT_SECONDS
    ) -> psycopg.Connection[Any]:
        """Return an idle or a new connection. Raises NoFreeConnectionError after `wait` seconds."""
        if not self._slots.acquire(timeout=wait):
            raise NoFreeConnectionError("all connections of this process to the database are in use")
        try:
            return self._take_usable() or make()
        except BaseException:
            self._slots.release()
            raise

    def has_room(self, seconds: float) -> bool:
        """Return whether a connection could be acquired within this time."""
        if not self._slots.acquire(timeout=seconds):
            return False
        self._slots.release()
        return True

    def acquire_idle(self) -> psycopg.Connection[Any] | None:
        """Return an idle connection if there is one, without waiting."""
        if not self._idle or not self._slots.acquire(blocking=False):
            return None
        connection = self._take_usable()
        if connection is None:
            self._slots.release()
        return connection

    def _take_usable(self) -> psycopg.Connection[Any] | None:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                connection = self._idle.pop()
                if not connection.closed:
                    # An idle connection has data to read only when its server has closed it. `select` would
                    # reject file numbers over 1,024, which occur in a process with many threads.
                    poll = select.poll()
                    poll.register(connection.fileno(), select.POLLIN)
                    if not poll.poll(0):
                        return connection
                connection.close()
        return None

    def give_back(self, connection: psycopg.Connection[Any]) -> None:
        is_idle = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if is_idle and connection.autocommit:
            self._idle.append(connection)
        else:
            connection.close()
        self._slots.release()


_pools: dict[str, Pool] = {}
# A child process shares the sockets of its parent, which continues to use them.
os.register_at_fork(after_in_child=_pools.clear)


class DatabaseWrapper(base.DatabaseWrapper):
    @property
    def _shared_pool(self) -> Pool:
        name = ":".join(str(self.settings_dict[part]) for part in ("HOST", "PORT", "NAME"))
        return _pools.get(name) or _pools.setdefault(name, Pool(settings.DATABASE_CONNECTIONS))

    def connect(self) -> None:
        """Use an idle connection without Django's setup, which takes longer than most statements:
        parameters, state and the signal for a new connection."""
        idle = self._shared_pool.acquire_idle() if self.settings_dict["AUTOCOMMIT"] else None
        if idle is None:
            super().connect()
            return
        self.connection, self.autocommit = idle, True
        self.in_atomic_block = self.needs_rollback = self.closed_in_transaction = False
        self.savepoint_ids, self.atomic_blocks, self.run_on_commit = [], [], []
        self.errors_occurred, self.health_check_done = False, True
        self.health_check_enabled = self.settings_dict["CONN_HEALTH_CHECKS"]
        max_age = self.settings_dict["CONN_MAX_AGE"]
        self.close_at = None if max_age is None else time.monotonic() + max_age

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        make = super().get_new_connection
        return self._shared_pool.acquire(lambda: make(conn_params))

    def has_free_connection(self, seconds: float) -> bool:
        """Return whether this thread has a connection or could acquire one within this time."""
        return self.connection is not None or self._shared_pool.has_room(seconds)

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with self.wrap_database_errors:
                self._shared_pool.give_back(connection)


def give_back() -> None:
    """Return the connection of this thread before a long wait, so that other threads can use it."""
    wrapper = connections[DEFAULT_DB_ALIAS]
    if isinstance(wrapper, DatabaseWrapper) and not wrapper.in_atomic_block:
        wrapper.close()
