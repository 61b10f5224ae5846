"""Django's PostgreSQL backend, which leaves nothing behind in a server session that a pooler lends to others.

On a connection with a session to itself the limits of statements are set once. Behind a pooler each
transaction sets its own: core/server_session.py.
"""

import re
from typing import Any, Self

import psycopg
from django.db.backends.postgresql import base
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader

from core.server_session import begin_session, session_of

# Not those, such as VACUUM, that PostgreSQL refuses to run behind another statement.
_READS_OR_WRITES_ROWS = re.compile(
    r"[\s(]*(?:SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|VALUES|TABLE|EXPLAIN)\b", re.IGNORECASE
)


class PooledCursor(psycopg.ClientCursor[Any]):
    """Sends the limits together with a statement that is a transaction of its own."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        session, connection = session_of(self.connection), self.connection
        limits = session.set_local_statements()
        is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        if not (limits and is_idle and connection.autocommit):
            return super().execute(query, params, **options)
        text = query.as_string(connection) if isinstance(query, sql.Composable) else query
        text = text.decode() if isinstance(text, bytes) else text
        if not _READS_OR_WRITES_ROWS.match(text):
            return super().execute(query, params, **options)
        super().execute(limits + text, params, **options)
        for _ in session.limits:
            self.nextset()
        return self


class DatabaseWrapper(base.DatabaseWrapper):
    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        params.pop("limits", None)
        return params

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        options = self.settings_dict["OPTIONS"]
        # Times in the zone of the connection, which is UTC. Django's loader sets it once more in Python.
        connection.adapters.register_loader("timestamptz", TimestamptzLoader)
        try:
            connection.autocommit = True  # Django sets what it wants afterwards
            begin_session(connection, options.get("limits", {}), float(options.get("connect_timeout", 5)))
        except BaseException:
            connection.close()
            raise
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        if session_of(self.connection).is_pooled:
            self.connection.cursor_factory = PooledCursor
        # As Django's method, without the check of its own loader of times.
        options = {"scrollable": False, "withhold": self.connection.autocommit} if name else {}
        return self.connection.cursor(name or "", **options)

    def _set_autocommit(self, autocommit: bool) -> None:
        super()._set_autocommit(autocommit)  # type: ignore[misc]
        session = session_of(self.connection)
        if autocommit or not (session.is_pooled and session.limits):
            return
        try:
            with self.wrap_database_errors:
                self.connection.execute(session.set_local_statements())
        except BaseException:
            # Django believes that no transaction has begun.
            self.connection.close()
            raise

    def chunked_cursor(self) -> Any:
        """Return a cursor of the server, or a plain one where its session may be lent to others meanwhile."""
        self.ensure_connection()
        if session_of(self.connection).is_pooled and not self.in_atomic_block:
            return self.cursor()
        return super().chunked_cursor()
