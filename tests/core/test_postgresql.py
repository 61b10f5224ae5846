"""A few connections for many threads."""

import threading

import psycopg
import pytest
from django.db import OperationalError, connection, connections

from core import db_errors
from core.postgresql import base
from core.postgresql.base import DatabaseWrapper, Pool


@pytest.fixture
def shared(db, settings, monkeypatch):
    """A connection of the pool, as each thread makes it."""
    settings.DATABASE_CONNECTIONS = 2
    monkeypatch.setattr(base, "_pools", {})
    wrappers = []

    def one() -> DatabaseWrapper:
        facts = connection.settings_dict | {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}
        wrappers.append(DatabaseWrapper(facts, "default"))
        return wrappers[-1]

    yield one
    for wrapper in wrappers:
        wrapper.close()
    for pool in base._pools.values():
        for idle_connection in pool._idle:
            idle_connection.close()


def process_of(one: DatabaseWrapper) -> int:
    with one.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def test_a_health_check_reports_that_no_connection_is_free(shared, monkeypatch, client):
    monkeypatch.setattr(db_errors, "CONNECTION_WAIT", 0.01)
    own_connection = shared()
    monkeypatch.setattr(db_errors, "connection", own_connection)
    others = [shared(), shared()]
    for other in others:
        process_of(other)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, "no free connection")
    others[0].close()
    assert (client.get("/readyz").status_code, client.get("/readyz").json()["database"]) == (200, "ok")


def test_a_request_without_a_free_connection_is_told_that_the_database_is_busy(shared, monkeypatch):
    monkeypatch.setattr(base, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(Pool.acquire, "__defaults__", (0.01,))
    for other in (shared(), shared()):
        process_of(other)
    with pytest.raises(OperationalError) as raised:
        process_of(shared())
    assert db_errors.outage(raised.value) is db_errors.BUSY


def test_what_one_thread_gives_back_the_next_one_takes(shared):
    first, second = shared(), shared()
    number = process_of(first)
    first.close()
    assert process_of(second) == number
    assert process_of(first) != number


def test_what_is_taken_again_is_as_a_new_connection_would_be(shared):
    first, second = shared(), shared()
    number = process_of(first)
    first.run_on_commit, first.errors_occurred = [(set(), print, False)], True
    first.close()
    for one in (second, first):
        assert process_of(one) == number
        assert (one.get_autocommit(), one.in_atomic_block, one.run_on_commit) == (True, False, [])
        assert (one.errors_occurred, one.savepoint_ids, one.needs_rollback) == (False, [], False)
        one.close()
    first.set_autocommit(False)
    first.close()
    assert process_of(second) != number


def test_there_are_never_more_and_waiting_for_one_ends(shared, monkeypatch):
    first, second, third = shared(), shared(), shared()
    process_of(first), process_of(second)
    monkeypatch.setattr(Pool.acquire, "__defaults__", (0.05,))
    with pytest.raises(OperationalError, match="in use"):
        process_of(third)
    monkeypatch.setattr(Pool.acquire, "__defaults__", (5.0,))
    threading.Timer(0.1, second.close).start()
    second.inc_thread_sharing()
    assert process_of(third)


def test_one_whose_server_has_gone_is_not_taken_again(shared):
    first, second = shared(), shared()
    number = process_of(first)
    first.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 2000)", [number])
    assert process_of(second) != number


def test_one_in_the_middle_of_a_transaction_is_not_given_to_another(shared):
    first, second = shared(), shared()
    number = process_of(first)
    first.set_autocommit(False)
    process_of(first)
    first.close()
    assert process_of(second) != number


def test_without_sharing_nothing_is_given_back(db):
    before = connection.connection
    base.give_back()
    assert connection.connection is before
    assert not isinstance(connections["default"], DatabaseWrapper)
    assert isinstance(before, psycopg.Connection)
