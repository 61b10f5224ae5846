"""Detect a pooler between this process and PostgreSQL, and its mode."""

from contextlib import ExitStack
from typing import Any, Literal

import psycopg
from django.db import DatabaseError, connection
from psycopg import errors, generators
from psycopg.pq import ExecStatus

from core.server_session import session_of

Mode = Literal["none", "session", "transaction", "statement"]
# This many clients must get a session of their own before session mode is assumed.
CLIENTS = 5
WAIT_SECONDS = 2.0


NEEDS_POSTGRESQL = (
    "A pooler is in front of the database. Give this command the address of PostgreSQL itself: "
    "DATABASE_URL=postgresql://user:password@host:5432/name"
)


def is_pooled() -> bool:
    """Return whether there is a pooler. Raises DatabaseError."""
    connection.ensure_connection()
    return session_of(connection.connection).is_pooled


def find_mode() -> Mode:
    """Compare the server sessions of several clients. Raises DatabaseError."""
    if not is_pooled():
        return "none"
    with connection.wrap_database_errors, ExitStack() as clients:
        watched = clients.enter_context(_connect())
        session = _backend_pid(watched)
        for _ in range(CLIENTS):
            other = clients.enter_context(_connect())
            try:
                _query(other, b"BEGIN")
                # In session mode a client keeps its session, and no other client gets it.
                if _backend_pid(other) == session or _backend_pid(watched) != session:
                    return "transaction"
            except errors.ConnectionTimeout:
                return "session"  # idle clients occupy all sessions
            except psycopg.Error as error:
                if "statement pooling" in str(error):
                    return "statement"
                raise
    return "session"


def refusal() -> str:
    """Return a sentence if the pooler allows no transactions; "" otherwise, and without a database."""
    try:
        mode = find_mode() if is_pooled() else "none"
    except DatabaseError:
        return ""
    if mode != "statement":
        return ""
    return (
        "The pooler in front of PostgreSQL is in statement mode, which allows no transactions. "
        "Set pool_mode = transaction in its configuration."
    )


def _connect() -> psycopg.Connection[Any]:
    params = connection.get_connection_params()
    client: psycopg.Connection[Any] = psycopg.connect(**params | {"autocommit": True})
    return client


def _backend_pid(client: psycopg.Connection[Any]) -> bytes | None:
    return _query(client, b"SELECT pg_backend_pid()")


def _query(client: psycopg.Connection[Any], query: bytes) -> bytes | None:
    """Return the first value of the reply. Close the connection if no reply arrives in time."""
    client.pgconn.send_query(query)
    try:
        (result,) = client.wait(generators.execute(client.pgconn), timeout=WAIT_SECONDS)
    except errors._WaitTimeout:
        client.pgconn.finish()
        raise errors.ConnectionTimeout("the pooler has no free session") from None
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise errors.error_from_result(result)
    return result.get_value(0, 0) if result.ntuples else None
