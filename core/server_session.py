"""The server session behind a connection, which a pooler may lend to other clients between two transactions.

A pooler in transaction mode runs each transaction in any free server session. A setting or a prepared
statement that outlives its transaction would be lost for this client and visible to another.
docs/decisions/0086-server-sessions.md explains how this is avoided.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors, generators
from psycopg.pq import ExecStatus

_ATTRIBUTE = "pegboard_server_session"


@dataclass(frozen=True, slots=True)
class ServerSession:
    """The session with a database server, as a connection configures it.

    is_pooled: a pooler chooses the session of each transaction.
    limits: values by the name of a setting, such as {"statement_timeout": "3s"}.
    """

    is_pooled: bool = False
    limits: Mapping[str, str] = field(default_factory=dict)

    def set_local_statements(self) -> str:
        """Return statements that set the limits until the transaction ends; "" without limits.

        They take no snapshot, so SET TRANSACTION may follow.
        """
        return "".join(f"SET LOCAL {name} = '{value}'; " for name, value in self.limits.items())

    def set_local_query(self) -> bytes:
        """Return one query that sets the limits until the transaction ends; b"" without limits."""
        calls = [f"set_config('{name}', '{value}', true)" for name, value in self.limits.items()]
        return f"SELECT {', '.join(calls)}".encode() if calls else b""


_PRIVATE = ServerSession()


def session_of(connection: psycopg.Connection[Any]) -> ServerSession:
    session: ServerSession = vars(connection).get(_ATTRIBUTE, _PRIVATE)
    return session


def begin_session(
    connection: psycopg.Connection[Any], limits: Mapping[str, str], seconds: float
) -> ServerSession:
    """Detect whether a new connection in autocommit has a server session of its own, and if so set the
    limits.

    A pooler reports a process id that is not the server's. seconds: how long to wait for the reply.
    Raises psycopg.Error.
    """
    libpq = connection.pgconn
    is_private = f"pg_backend_pid() = ({libpq.backend_pid})"
    columns = [
        is_private,
        *(
            f"CASE WHEN {is_private} THEN set_config('{name}', '{value}', false) END"
            for name, value in limits.items()
        ),
    ]
    libpq.send_query(f"SELECT {', '.join(columns)}".encode())
    try:
        (result,) = connection.wait(generators.execute(libpq), timeout=seconds)
    except errors._WaitTimeout:
        libpq.finish()
        raise errors.ConnectionTimeout(f"the database did not answer within {seconds:g} s") from None
    if result.status != ExecStatus.TUPLES_OK:
        raise errors.error_from_result(result)
    session = ServerSession(is_pooled=result.get_value(0, 0) != b"t", limits=limits)
    vars(connection)[_ATTRIBUTE] = session
    return session


def mark_as_pooled(connection: psycopg.Connection[Any]) -> None:
    """Stop relying on the session of a connection: its pooler passes the process ids of servers on."""
    vars(connection)[_ATTRIBUTE] = ServerSession(is_pooled=True, limits=session_of(connection).limits)
