"""The time that the queries of one request may take together, and those of a long write."""

import pytest
from django.db import OperationalError, connection, transaction

from core import query_deadline
from core.db_errors import QueryDeadlineError
from core.query_deadline import TooManyLongWritesError, limit_connection, limit_queries, long_transaction


@pytest.fixture
def limited(transactional_db):
    """The connection of this test obeys the budget of a request; it is closed afterwards."""
    connection.ensure_connection()
    limit_connection(connection)
    yield
    connection.close()


def sleep(seconds):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [seconds])


def statement_timeout():
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return cursor.fetchone()[0]


def test_queries_of_a_request_end_with_its_budget(limited):
    with limit_queries(0.1), pytest.raises(OperationalError) as caught:
        sleep(5)
    assert isinstance(caught.value.__cause__, QueryDeadlineError)


def test_a_long_transaction_has_time_of_its_own(limited):
    with limit_queries(0.1):
        with long_transaction():
            assert statement_timeout() == "30s"
            sleep(0.3)
        with transaction.atomic():
            assert statement_timeout() != "30s"


def test_a_long_transaction_inside_another_takes_no_second_place(limited, monkeypatch):
    monkeypatch.setattr(query_deadline, "_long_writes", query_deadline.threading.BoundedSemaphore(1))
    with limit_queries(0.1), long_transaction(), long_transaction():
        sleep(0.3)


def test_only_some_long_transactions_run_at_once(limited, monkeypatch):
    monkeypatch.setattr(query_deadline, "_long_writes", query_deadline.threading.BoundedSemaphore(1))
    query_deadline._long_writes.acquire()
    with limit_queries(1.0), pytest.raises(TooManyLongWritesError) as refused, long_transaction():
        pass
    assert (refused.value.status, refused.value.code, refused.value.retry_after) == (503, "unavailable", 5)
    query_deadline._long_writes.release()
    with limit_queries(1.0), long_transaction():
        pass


def test_outside_a_request_a_long_transaction_is_a_plain_one(limited):
    query_deadline._long_writes.acquire()
    try:
        with long_transaction():
            assert statement_timeout() != "30s"
    finally:
        query_deadline._long_writes.release()
