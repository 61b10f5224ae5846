"""Our own connection to the broker's server, for data that processes share and that may be lost."""

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

TIMEOUT = 1.0  # seconds; every caller can do without an answer
MAX_WAIT_SECONDS = 10.0  # seconds


def client() -> redis.Redis:
    """Raises redis.RedisError when used while the server is away. Safe to share between threads."""
    return _client(settings.REDIS_URL, settings.CA_FILE, TIMEOUT)


def waiting_client() -> redis.Redis:
    """For commands that block for up to `MAX_WAIT_SECONDS` seconds."""
    return _client(settings.REDIS_URL, settings.CA_FILE, MAX_WAIT_SECONDS + TIMEOUT)


@lru_cache
def _client(url: str, ca_file: str, timeout: float) -> redis.Redis:
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
class _Line:
    """One connection, and how many answers are still to come that no one waits for."""

    connection: Any  # redis-py's own
    unread: int = 0

    def is_usable(self) -> bool:
        """Raises redis.TimeoutError while the server does not answer."""
        try:
            while self.unread:
                self.unread -= 1
                try:
                    self.connection.read_response()
                except redis.ResponseError:
                    continue
            if not self.connection.can_read():
                return True
        except redis.ConnectionError:
            pass
        # The server has closed it since.
        self.connection.disconnect()
        return False


def ask(*command: str | int) -> Any:
    """The answer to one command that every call of a runtime gives.

    As `client().execute_command`, without what redis-py does around each command, which takes longer than the
    command. Raises redis.RedisError.
    """
    line = _line()
    try:
        line.connection.send_command(*command, check_health=False)
        return line.connection.read_response()
    finally:
        _keep(line)


def tell(*command: str | int) -> None:
    """Gives a command whose answer matters to no one, and does not wait for it. Raises redis.RedisError."""
    line = _line()
    try:
        line.connection.send_command(*command, check_health=False)
        line.unread += 1
    finally:
        _keep(line)


def _line() -> _Line:
    # The one that was used last is taken first: what a process tells is done before what it asks then.
    kept = _kept(settings.REDIS_URL)
    while kept:
        try:
            line = kept.pop()
        except IndexError:  # another thread has taken the last one
            break
        if line.is_usable():
            return line
    connection: Any = client().connection_pool.make_connection()
    connection.connect()
    return _Line(connection)


def _keep(line: _Line) -> None:
    # One that has failed is closed already.
    if line.connection.is_connected:
        _kept(settings.REDIS_URL).append(line)


@lru_cache
def _kept(url: str) -> deque[_Line]:
    return deque()


# A child has the same sockets as its parent, who goes on using them.
os.register_at_fork(after_in_child=_kept.cache_clear)
