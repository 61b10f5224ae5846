"""Connections to Redis for data that processes share and that may be lost."""

import os
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from core.broker_address import parse_broker_address

TIMEOUT = 1.0  # seconds; every caller can continue without a reply
MAX_WAIT_SECONDS = 10.0  # seconds


def client() -> redis.Redis:
    """Return a client, safe to share between threads. Its commands raise redis.RedisError."""
    return _connect(settings.REDIS_URL, settings.CA_FILE, TIMEOUT)


def is_up() -> bool:
    """Return whether the broker answers."""
    try:
        return bool(client().ping())
    except redis.RedisError:
        return False


def waiting_client() -> redis.Redis:
    """Return a client for commands that block for up to `MAX_WAIT_SECONDS` seconds."""
    return _connect(settings.REDIS_URL, settings.CA_FILE, MAX_WAIT_SECONDS + TIMEOUT)


@lru_cache
def _connect(url: str, ca_file: str, timeout: float) -> redis.Redis:
    address = parse_broker_address(url, ca_file)
    return redis.Redis.from_url(
        address.client_url,
        socket_timeout=timeout,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        **address.tls,
    )


@dataclass(slots=True)
class _Connection:
    """One connection. unread: the number of replies to `send`, which nobody has read yet."""

    redis: Any  # a connection of redis-py
    unread: int = 0

    def is_usable(self) -> bool:
        """Read outstanding replies. Return whether the connection is open. Raises redis.TimeoutError."""
        try:
            while self.unread:
                self.unread -= 1
                try:
                    self.redis.read_response()
                except redis.ResponseError:
                    continue
            if not self.redis.can_read():
                return True
        except redis.ConnectionError:
            pass
        # The server has closed it.
        self.redis.disconnect()
        return False


def execute(*command: str | int) -> Any:
    """Return the reply to one command of a busy path. Raises redis.RedisError.

    It omits the work that `client().execute_command` does around each command and that takes longer than the
    command.
    """
    connection = _open_connection()
    try:
        connection.redis.send_command(*command, check_health=False)
        return connection.redis.read_response()
    finally:
        _give_back(connection)


def send(*command: str | int) -> None:
    """Send a command without waiting for its reply. Raises redis.RedisError."""
    connection = _open_connection()
    try:
        connection.redis.send_command(*command, check_health=False)
        connection.unread += 1
    finally:
        _give_back(connection)


def _open_connection() -> _Connection:
    # The last used connection comes first, so a command that was sent runs before the next one of the
    # process.
    idle = _idle_connections(settings.REDIS_URL)
    while idle:
        try:
            connection = idle.pop()
        except IndexError:  # another thread has taken the last one
            break
        if connection.is_usable():
            return connection
    redis_connection: Any = client().connection_pool.make_connection()
    redis_connection.connect()
    return _Connection(redis_connection)


def _give_back(connection: _Connection) -> None:
    # A failed connection is already closed.
    if connection.redis.is_connected:
        _idle_connections(settings.REDIS_URL).append(connection)


@lru_cache
def _idle_connections(url: str) -> deque[_Connection]:
    return deque()


# A child process shares the sockets of its parent, which continues to use them.
os.register_at_fork(after_in_child=_idle_connections.cache_clear)
