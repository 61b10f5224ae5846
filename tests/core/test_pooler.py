"""Connections through a pooler that lends one server session to many clients, and what stays safe there."""

import threading
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection, connections, transaction
from hypothesis import given
from hypothesis import strategies as st

from core.pooler_safe.base import DatabaseWrapper
from core.prepared_statements import run_prepared, run_together, statement_name
from core.server_session import session_of
from tests.pooler import behind_pooler, in_threads, needs_pgbouncer

TYPES = st.lists(st.integers(min_value=0, max_value=2**32 - 1), max_size=5).map(tuple)
STATEMENTS = st.tuples(st.text(max_size=30).map(str.encode), TYPES)


@given(STATEMENTS, STATEMENTS)
def test_different_statements_have_different_names(one, other):
    assert (statement_name(*one) == statement_name(*other)) == (one == other)
    assert len(statement_name(*one)) < 64


@given(st.integers(min_value=0), st.text(max_size=5))
def test_a_type_is_never_taken_for_text(number, text):
    names = {
        statement_name(f"{number}:{text}".encode(), ()),
        statement_name(text.encode(), (number,)),
        statement_name(f"{number},{number}:{text}".encode(), ()),
        statement_name(text.encode(), (number, number)),
    }
    assert len(names) == 4


@pytest.fixture
def pooled(transactional_db) -> Iterator[None]:
    with behind_pooler():
        yield


def show_setting(name):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT current_setting('{name}')")
        return cursor.fetchone()[0]


@pytest.mark.django_db
def test_a_connection_without_a_pooler_has_a_session_of_its_own():
    assert isinstance(connections["default"], DatabaseWrapper)
    assert not session_of(connection.connection).is_pooled
    assert show_setting("statement_timeout") == "1min"


@needs_pgbouncer
def test_clients_that_prepare_in_another_order_get_rows_of_their_own(pooled):
    statements = [f"SELECT %s::int, {number}, 'of {number}'" for number in range(12)]
    start = threading.Barrier(8)

    def ask(client):
        start.wait()
        wrong = []
        for number in range(60):
            nth = (number * (client + 1) + client) % len(statements)
            rows = run_prepared(statements[nth], [client])
            more = run_together((statements[nth - 1], [client]), (statements[nth], [number]))
            if rows != [(client, nth, f"of {nth}")] or more[1] != [(number, nth, f"of {nth}")]:
                wrong.append((rows, more))
        return wrong

    assert in_threads(8, ask) == [[]] * 8
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        assert cursor.fetchone() == (0,)


@needs_pgbouncer
def test_limits_hold_in_each_transaction_and_stay_with_nobody(pooled):
    assert session_of_new_connection().is_pooled
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    expected = ["1min", "5s", "30s"]
    assert [show_setting(name) for name in names] == expected
    ask = "SELECT current_setting(%s)"
    assert [run_prepared(ask, [name])[0][0] for name in names] == expected
    assert [rows[0][0] for rows in run_together(*((ask, [name]) for name in names))] == expected
    with transaction.atomic():
        assert [show_setting(name) for name in names] == expected
        assert [run_prepared(ask, [name])[0][0] for name in names] == expected
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        assert cursor.fetchone() == ("5s",)
    # Nothing of it is left in the sessions.
    connection.connection.execute("SHOW statement_timeout")
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",)


def session_of_new_connection():
    connection.ensure_connection()
    return session_of(connection.connection)


@needs_pgbouncer
def test_a_statement_that_takes_too_long_is_ended_behind_a_pooler(pooled, monkeypatch):
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "limits", {"statement_timeout": "200ms"})
    sleep = "SELECT pg_sleep(5), %s::int"
    for ask in (lambda: run_prepared(sleep, [1]), lambda: execute(sleep, [1])):
        with pytest.raises(OperationalError, match="statement timeout"):
            ask()
        with pytest.raises(OperationalError, match="statement timeout"), transaction.atomic():
            ask()
    assert run_prepared("SELECT 1", []) == [(1,)]


def execute(sql, values=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else None


@needs_pgbouncer
def test_a_cursor_of_the_server_lives_only_inside_a_transaction(pooled):
    with connection.chunked_cursor() as cursor:
        cursor.execute("SELECT generate_series(1, 500)")
        first = cursor.fetchmany(100)
        in_threads(4, lambda _: execute("SELECT 1"))
        assert len(first) + len(cursor.fetchall()) == 500
    execute("CREATE TABLE odd (id int)")
    execute("VACUUM odd")
    execute("  ( SELECT 1 ) UNION SELECT 2")
    execute("DROP TABLE odd")


@needs_pgbouncer
def test_writes_of_many_clients_are_written_once(pooled):
    add = "INSERT INTO catalog_callid (key, digest) VALUES (gen_random_uuid(), %s)"

    def write(client):
        for number in range(20):
            run_together((add, [f"{client} {number} a"]), (add, [f"{client} {number} b"]))
            with transaction.atomic():
                run_prepared(add, [f"{client} {number} c"])

    in_threads(8, write)
    assert execute("SELECT count(*), count(DISTINCT digest) FROM catalog_callid") == [(480, 480)]


@pytest.mark.django_db(transaction=True)
def test_a_session_that_lost_a_statement_gets_it_again():
    """The pooler passes the server's process ids on, so the product does not notice it."""
    add = "INSERT INTO catalog_callid (key, digest) VALUES (gen_random_uuid(), %s)"
    ask = "SELECT %s::text || 'x'"
    run_prepared(add, ["1"])
    execute("DEALLOCATE ALL")
    run_together((add, ["2"]), (ask, ["a"]))
    assert session_of(connection.connection).is_pooled
    assert run_prepared(ask, ["a"]) == [("ax",)]
    assert execute("SELECT count(*) FROM catalog_callid") == [(2,)]
    connection.close()

    # Another client has prepared it there.
    execute("SELECT 1")
    name = statement_name(b"SELECT $1::text || 'x'", (25,)).decode()
    other = connection.connection.pgconn
    other.prepare(name.encode(), b"SELECT $1::text || 'x'", [25])
    assert run_prepared(ask, ["b"]) == [("bx",)]
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_lost_a_statement_fails_whole_and_can_be_repeated(client):
    add = "INSERT INTO catalog_callid (key, digest) VALUES (gen_random_uuid(), %s)"
    run_prepared(add, ["1"])
    execute("DEALLOCATE ALL")

    def write():
        with transaction.atomic():
            execute("INSERT INTO catalog_callid (key, digest) VALUES (gen_random_uuid(), 'first')")
            run_prepared(add, ["2"])

    with pytest.raises(OperationalError):
        write()
    assert execute("SELECT count(*) FROM catalog_callid") == [(1,)]
    write()
    assert execute("SELECT count(*) FROM catalog_callid") == [(3,)]
    connection.close()
