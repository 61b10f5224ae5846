import uuid
from itertools import product

import psycopg
import pytest
from django.db import (
    DEFAULT_DB_ALIAS,
    DataError,
    IntegrityError,
    OperationalError,
    connection,
    connections,
    transaction,
)

from core import prepared_statements
from core.prepared_statements import read_prepared, run_prepared, run_together

ADD = "INSERT INTO catalog_callid (key, digest) VALUES (%s, %s)"
COUNT = "SELECT count(*) FROM catalog_callid WHERE digest LIKE %(like)s OR digest = %(like)s"


def count() -> int:
    ((row_count,),) = run_prepared(COUNT, {"like": "%"})
    return row_count


def planned() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements WHERE NOT from_sql")
        return [text for (text,) in cursor.fetchall()]


@pytest.mark.django_db
def test_a_statement_is_planned_once_for_a_connection(django_assert_num_queries):
    with django_assert_num_queries(3):
        for value in ("a % b", None, "ä"):
            assert run_prepared("SELECT %s::text, 7 %% 4, NULL", [value]) == [(value, 3, None)]

    assert planned().count("SELECT $1::text, 7 % 4, NULL") <= 2  # what has no value has a type of its own
    assert run_prepared("SELECT %(b)s::text || %(a)s::text || %(b)s::text", {"a": "x", "b": "y"}) == [
        ("yxy",)
    ]


@pytest.mark.django_db
def test_of_very_many_statements_some_are_planned_each_time(monkeypatch):
    monkeypatch.setattr(prepared_statements, "MAX_PREPARED", 0)

    assert [run_prepared("SELECT %s::int + 41", [number]) for number in (1, 2)] == [[(42,)], [(43,)]]
    assert "SELECT $1::int + 41" not in planned()


@pytest.mark.django_db(transaction=True)
def test_statements_that_go_together_are_one_transaction():
    first, second = uuid.uuid4(), uuid.uuid4()

    *_, ((count_inside,),) = run_together((ADD, [first, "1"]), (ADD, [second, "2"]), (COUNT, {"like": "%"}))
    with pytest.raises(IntegrityError):
        run_together((ADD, [uuid.uuid4(), "3"]), (ADD, [first, "4"]), (COUNT, {"like": "%"}))

    assert (count_inside, count(), connection.in_atomic_block) == (2, 2, False)


@pytest.mark.django_db
def test_in_a_transaction_they_go_with_it():
    with transaction.atomic():
        run_together((ADD, [uuid.uuid4(), "1"]), (ADD, [uuid.uuid4(), "2"]))
        assert count() == 2
        transaction.set_rollback(True)
    with pytest.raises(DataError), transaction.atomic():
        run_prepared("SELECT 1 / %s::int", [0])

    assert count() == 0


@pytest.mark.django_db
def test_a_statement_that_gives_other_columns_by_now_is_planned_again():
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE odd AS SELECT 1 AS one")
        assert run_prepared("SELECT * FROM odd", []) == [(1,)]
        cursor.execute("ALTER TABLE odd ADD two int DEFAULT 2")

    with pytest.raises(Exception, match="result type"), transaction.atomic():
        run_prepared("SELECT * FROM odd", [])
    assert run_prepared("SELECT * FROM odd", []) == [(1, 2)]


@pytest.mark.django_db(transaction=True)
def test_a_connection_whose_answers_were_not_read_is_not_used_again(monkeypatch):
    own_query, of_another = "SELECT %s::text || 'x'", "SELECT %s::text"

    def breaks_at(patch, where, error):
        def breaks(messages, *_, **__):
            if where == "wait":
                next(messages)
            raise error

        patched = connection.connection if where == "wait" else prepared_statements.generators
        patch.setattr(patched, where, breaks)

    for where, error in product(("execute", "fetch_many", "wait"), (SystemExit, psycopg.OperationalError)):
        assert run_prepared(own_query, ["mine"]) == run_prepared(own_query, ["mine"]) == [("minex",)]
        line = connection.connection
        with monkeypatch.context() as patch:
            breaks_at(patch, where, error)
            with pytest.raises((error, OperationalError)):
                run_together((of_another, ["1"]), (of_another, ["2"]), (of_another, ["3"]))
        assert line.closed
        with pytest.raises(OperationalError):
            run_prepared(own_query, ["mine"])
        connection.close_if_unusable_or_obsolete()

    # One that was left so by what speaks libpq elsewhere.
    assert run_prepared(own_query, ["mine"]) == [("minex",)]
    connection.connection.pgconn.enter_pipeline_mode()
    with pytest.raises(OperationalError, match="not read to its end"):
        run_prepared(own_query, ["mine"])
    connection.close_if_unusable_or_obsolete()
    assert run_prepared(own_query, ["mine"]) == [("minex",)]
    with monkeypatch.context() as patch:
        breaks_at(patch, "fetch_many", SystemExit)
        with pytest.raises(SystemExit), transaction.atomic():
            run_together((of_another, ["1"]), (of_another, ["2"]))
    assert run_prepared(own_query, ["mine"]) == [("minex",)]


@pytest.mark.django_db
def test_statements_that_fail_leave_no_plans_behind():
    key, add = uuid.uuid4(), "INSERT INTO catalog_callid (key, digest) VALUES ($1, $2)"
    run_together((ADD, [key, "1"]))
    before = planned().count(add)  # the connection may have planned it in other tests, too

    for _ in range(5):
        with pytest.raises(IntegrityError), transaction.atomic():
            run_together((ADD, [key, "2"]), (COUNT, {"like": "2"}))

    assert planned().count(add) == before


@pytest.mark.django_db(transaction=True)
def test_a_read_is_the_check_of_its_connection(monkeypatch):
    wrapper = connections[DEFAULT_DB_ALIAS]
    wrapper.ensure_connection()
    monkeypatch.setattr(wrapper, "health_check_enabled", True)
    monkeypatch.setattr(wrapper, "health_check_done", False)
    checks = []
    monkeypatch.setattr(wrapper, "is_usable", lambda: checks.append("asked") or True)

    assert read_prepared("SELECT 1", []) == run_prepared("SELECT 1", []) == [(1,)]

    assert checks == []


@pytest.mark.django_db(transaction=True)
def test_a_read_on_a_closed_connection_runs_again_on_a_new_one():
    ((process,),) = run_prepared("SELECT pg_backend_pid()", [])
    with psycopg.connect(connection.connection.info.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [process])
    connection.health_check_done = False

    ((later_process,),) = read_prepared("SELECT pg_backend_pid()", [])

    assert later_process != process


@pytest.mark.django_db(transaction=True)
def test_a_read_that_fails_on_an_open_connection_is_not_repeated(monkeypatch):
    ran = []
    run = prepared_statements.run_prepared
    monkeypatch.setattr(prepared_statements, "run_prepared", lambda *args: ran.append(args) or run(*args))
    connection.health_check_done = False

    run_prepared("SET statement_timeout = 50", [])

    with pytest.raises(OperationalError):
        read_prepared("SELECT pg_sleep(5)", [])
    connection.close()

    assert len(ran) == 1
