"""Reads of requests on a replica of the database, where DATABASE_REPLICA_URL names one.

A request may read there once the replica has replayed everything that requests wrote, so people and programs
read back what they and others have written. Only what workers write may be a few seconds older than on the
primary.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import redis
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, connections

from core import redis_client

logger = logging.getLogger(__name__)

ALIAS = "replica"
# The replica has replayed what the primary had written so long ago, or up to twice as long.
SAMPLE_SECONDS = 5.0
# A replica that did not answer is left alone for so long.
PAUSE_SECONDS = 10.0
# The highest position in the log of the primary that a request has written to.
WRITTEN = "replica-reads:written"
_KEPT_SECONDS = 3_600


class _Sample(NamedTuple):
    """A position in the log of the primary, and when it was read there."""

    taken_at: float
    position: int


class _Process:
    """The state of both servers, as the threads of this process last read it."""

    def __init__(self) -> None:
        self.paused_until = 0.0
        self.samples: list[_Sample] = []


_process = _Process()
_thread = threading.local()


def is_configured() -> bool:
    return ALIAS in settings.DATABASES


@contextmanager
def on_replica() -> Iterator[bool]:
    """Let all queries of this thread go to the replica; yield whether they do.

    They do not while the replica is away, or too far behind.
    """
    primary = connections[DEFAULT_DB_ALIAS]
    if not _is_current():
        yield False
        return
    _thread.primary = primary
    connections[DEFAULT_DB_ALIAS] = connections[ALIAS]
    try:
        yield True
    finally:
        connections[DEFAULT_DB_ALIAS] = primary
        _thread.primary = None


@contextmanager
def on_primary() -> Iterator[None]:
    """Let the queries of this thread go to the primary, such as a write that a read makes."""
    primary = getattr(_thread, "primary", None)
    if primary is None:
        yield
        return
    replica = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = primary
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = replica


def record_write() -> None:
    """Record that a request has written: later reads wait for it, or go to the primary."""
    try:
        position = _read_position("pg_current_wal_insert_lsn()", connection)
        client = redis_client.client()
        client.zadd(WRITTEN, {"position": position or 0}, gt=True)
        client.expire(WRITTEN, _KEPT_SECONDS)
    except (redis.RedisError, DatabaseError) as error:
        logger.warning("A write could not be recorded for reads on the replica: %s", error)


def pause() -> None:
    """Leave the replica alone for a while."""
    _process.paused_until = time.monotonic() + PAUSE_SECONDS


def _is_current() -> bool:
    """Return whether the replica has replayed what requests wrote, and what the primary had a moment ago."""
    if time.monotonic() < _process.paused_until:
        return False
    try:
        written = redis_client.client().zscore(WRITTEN, "position")
        needed = max(int(written or 0), _position_a_moment_ago())
    except redis.RedisError:
        return False
    try:
        replayed = _read_position("pg_last_wal_replay_lsn()", connections[ALIAS])
    except DatabaseError as error:
        logger.warning("The replica is left alone for %s seconds: %s", PAUSE_SECONDS, error)
        connections[ALIAS].close()
        pause()
        return False
    # A server that replays nothing is no replica, or none any more.
    return replayed is not None and replayed >= needed


def _position_a_moment_ago() -> int:
    """Return the position in the log of the primary at the sample before the newest one."""
    now = time.monotonic()
    samples = _process.samples
    if not samples or now - samples[-1].taken_at > SAMPLE_SECONDS:
        position = _read_position("pg_current_wal_insert_lsn()", connections[DEFAULT_DB_ALIAS]) or 0
        samples = _process.samples = [*samples[-1:], _Sample(now, position)]
    return samples[0].position


def _read_position(function: str, database: Any) -> int | None:
    with database.cursor() as cursor:
        cursor.execute(f"SELECT pg_wal_lsn_diff({function}, '0/0')::bigint")
        (position,) = cursor.fetchone()
    return None if position is None else int(position)
