"""Constant statements that every call of a runtime runs: each connection plans them once, and several of them
are sent to the database in one round trip.

The name of a prepared statement is a digest of its text and of the types of its parameters, so a name never
has two meanings, even in a session that several clients share. Behind a pooler, where each transaction has
another session, statements have no names and are planned in the round trip that runs them
(docs/decisions/0086-server-sessions.md).

This module uses libpq directly. psycopg's cursors parse the text of a statement and describe its rows each
time, which takes longer than the database does (docs/decisions/0010-calls.md).
"""

import base64
import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from psycopg import errors, generators
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.datetime import TimestamptzLoader

from core.db_errors import QueryDeadlineError
from core.server_session import mark_as_pooled, session_of

Rows = list[tuple[Any, ...]]
Values = Sequence[object] | Mapping[str, object]
# The type of a number depends on its size, and each type has a plan. Further statements are not prepared.
MAX_PREPARED = 300
# The session lacks a statement that was prepared, or has one that was not: other clients use it, too.
_SHARED_SESSION = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
# Or a migration has changed the columns of its result.
_OUTDATED_PLAN = (errors.FeatureNotSupported, *_SHARED_SESSION)
_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|s|%)")


class SharedSessionError(psycopg.OperationalError):
    """A pooler ran the transaction in a session that other clients use, too. It was rolled back."""

    sqlstate = errors.InvalidSqlStatementName.sqlstate


def statement_name(text: bytes, types: Sequence[int]) -> bytes:
    """Return the name of a prepared statement: the same for the same text and types, in every process."""
    # No text can be mistaken for a list of numbers. PostgreSQL cuts names after 63 bytes; this has 52.
    content = ",".join(map(str, types)).encode() + b":" + text
    return b"pegboard_" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")


def run_prepared(sql: str, values: Values) -> Rows:
    """Return the rows of a constant statement with `values` for its placeholders %s or %(name)s."""
    (rows,) = run_together((sql, values))
    return rows


def read_prepared(sql: str, values: Values) -> Rows:
    """Return the rows of a constant statement that writes nothing, as `run_prepared` does.

    The first statement of a request checks the connection, which takes a round trip. This one is the check:
    if the server has closed the connection meanwhile, it runs again on a new one.
    """
    django_connection: Any = connections[DEFAULT_DB_ALIAS]  # its types lack the check
    is_unchecked = not (django_connection.health_check_done or django_connection.in_atomic_block)
    django_connection.health_check_done = True
    try:
        return run_prepared(sql, values)
    except OperationalError as error:
        connection = django_connection.connection
        is_closed = (
            connection is not None
            and connection.closed
            and not isinstance(error.__cause__, QueryDeadlineError)
        )
        if not (is_unchecked and is_closed):
            raise
        django_connection.close()
        return run_prepared(sql, values)


def run_together(*statements: tuple[str, Values]) -> list[Rows]:
    """Run the statements in one round trip and return the rows of each. Each sees the effects of those before
    it and the commits of others. Outside of a transaction they are one transaction: if one fails, all are
    undone.
    """
    django_connection = connections[DEFAULT_DB_ALIAS]
    django_connection.close_if_health_check_failed()
    django_connection.ensure_connection()
    django_connection.validate_no_broken_transaction()
    connection: psycopg.Connection[Any] = django_connection.connection
    began = time.monotonic()
    with django_connection.wrap_database_errors, connection.lock:
        try:
            results = connection.wait(_conversation(connection, statements))
        except BaseException:
            # After any exception, including a signal: an answer that has not arrived yet would be taken for
            # that of the next statement.
            if not _is_at_rest(connection.pgconn):
                connection.pgconn.finish()
                django_connection.errors_occurred = True
            raise
    if django_connection.queries_logged:
        # As Django's cursors do, so that query budgets of pages count these statements.
        took = f"{time.monotonic() - began:.3f}"
        django_connection.queries_log.extend({"sql": sql, "time": took} for sql, _ in statements)
    return results


@dataclass(frozen=True, slots=True)
class _Statement:
    key: tuple[str, tuple[int, ...]]
    name: bytes
    is_planned: bool
    text: bytes
    values: Sequence[Any]
    formats: Sequence[Any] | None

    def plan(self, libpq: PGconn) -> None:
        libpq.send_prepare(self.name, self.text, param_types=self.key[1])

    def send(self, libpq: PGconn) -> None:
        libpq.send_query_prepared(self.name, self.values, param_formats=self.formats)


class _TypeAdapters:
    """The types of Django, except for timestamps, whose zone Django would set once more in Python."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        # Not the connection itself, which has this object: the cycle would delay its closing.
        self.connection: Any = SimpleNamespace(pgconn=connection.pgconn)
        self.adapters = AdaptersMap(connection.adapters)
        self.adapters.register_loader("timestamptz", TimestamptzLoader)


class _Prepared:
    """The names of the statements that one connection has prepared, by their texts and types."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.session = session_of(connection)
        # Caches how each type is encoded and decoded.
        self._transformer = Transformer(_TypeAdapters(connection))
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._outdated: set[tuple[str, tuple[int, ...]]] = set()

    def statement(self, sql: str, values: Values, *, is_pooled: bool) -> _Statement:
        text, names = _in_libpq(sql)
        ordered_values = [values[name] for name in names] if isinstance(values, Mapping) else values
        encoded = self._transformer.dump_sequence(ordered_values, [PyFormat.AUTO] * len(ordered_values))
        key = sql, tuple(self._transformer.types or ())
        name = self._names.get(key)
        is_planned = name is not None
        if name is None:
            # A statement without a name is planned each time.
            is_named = not is_pooled and len(self._names) < MAX_PREPARED and key not in self._outdated
            name = statement_name(text, key[1]) if is_named else b""
        return _Statement(key, name, is_planned, text, encoded, self._transformer.formats)

    def keep(self, statement: _Statement) -> None:
        if statement.name:
            self._names[statement.key] = statement.name

    def stop_naming(self, statement: _Statement) -> None:
        """Send the statement without a name from now on: the server keeps the outdated plan under it."""
        if self._names.pop(statement.key, None):
            self._outdated.add(statement.key)

    def forget_all(self) -> None:
        self._names.clear()

    def rows(self, results: Sequence[PGresult]) -> Rows:
        (result,) = results
        if result.status == ExecStatus.TUPLES_OK:
            self._transformer.set_pgresult(result)
            return self._transformer.load_rows(0, result.ntuples, tuple)
        if result.status != ExecStatus.COMMAND_OK:
            raise errors.error_from_result(result)
        return []


@cache
def _in_libpq(sql: str) -> tuple[bytes, list[str]]:
    """Return the statement with $1 in place of %s, and the names of %(name)s in their order."""
    names: list[str] = []

    def number(placeholder: re.Match[str]) -> str:
        if placeholder[0] == "%%":
            return "%"
        name = placeholder[1] or ""
        if not name or name not in names:
            names.append(name)
        return f"${names.index(name) + 1 if name else len(names)}"

    return _PLACEHOLDER.sub(number, sql).encode(), names


def _is_at_rest(libpq: PGconn) -> bool:
    is_active = libpq.transaction_status == TransactionStatus.ACTIVE
    return libpq.pipeline_status == PipelineStatus.OFF and not is_active


def _conversation(
    connection: psycopg.Connection[Any], statements: Sequence[tuple[str, Values]]
) -> PQGen[list[Rows]]:
    libpq = connection.pgconn
    if not _is_at_rest(libpq):
        raise psycopg.OperationalError("an earlier statement of this connection was not read to its end")
    try:
        return (yield from _exchange(connection, statements))
    except _OUTDATED_PLAN as error:
        if isinstance(error, _SHARED_SESSION):
            mark_as_pooled(connection)
            # These prepared statements belong to another session of the server, so their names are useless.
            vars(connection).pop("pegboard_prepared", None)
        if libpq.transaction_status == TransactionStatus.IDLE:
            # All statements were one transaction, which was rolled back.
            return (yield from _exchange(connection, statements))
        if isinstance(error, _SHARED_SESSION):
            raise SharedSessionError(str(error)) from error
        raise


def _exchange(
    connection: psycopg.Connection[Any], requests: Sequence[tuple[str, Values]]
) -> PQGen[list[Rows]]:
    libpq = connection.pgconn
    prepared: _Prepared | None = vars(connection).get("pegboard_prepared")
    if prepared is None:
        prepared = vars(connection)["pegboard_prepared"] = _Prepared(connection)
    session = prepared.session
    is_idle = libpq.transaction_status == TransactionStatus.IDLE
    if session.is_pooled:
        prepared.forget_all()
    statements = [prepared.statement(sql, values, is_pooled=session.is_pooled) for sql, values in requests]
    begins = is_idle and not connection.autocommit
    limits = session.set_local_query() if is_idle and session.is_pooled else b""
    try:
        if len(statements) == 1 and not begins and statements[0].is_planned:
            statements[0].send(libpq)
            return [prepared.rows((yield from generators.execute(libpq)))]
        messages = _send_all(libpq, statements, begins=begins, limits=limits)
        # One answer to each message, in order. All messages are sent before the first answer is read.
        answers = [(yield from generators.execute(libpq))]
        while len(answers) < len(messages):
            answers.append((yield from generators.fetch_many(libpq)))
        libpq.exit_pipeline_mode()
        for message, results in zip(messages, answers, strict=True):
            # A plan stays in the server even if a later statement fails.
            if message.planned_statement and results[0].status == ExecStatus.COMMAND_OK:
                prepared.keep(message.planned_statement)
        all_rows = [prepared.rows(results) for results in answers[:-1]]
    except _OUTDATED_PLAN:
        for statement in statements:
            prepared.stop_naming(statement)
        raise
    return [rows for rows, message in zip(all_rows, messages, strict=False) if message.is_query]


@dataclass(frozen=True, slots=True)
class _Message:
    planned_statement: _Statement | None = None
    is_query: bool = False


def _send_all(
    libpq: PGconn, statements: Sequence[_Statement], *, begins: bool, limits: bytes
) -> list[_Message]:
    messages = []
    planned: set[bytes] = set()  # a statement may occur several times, with other values
    libpq.enter_pipeline_mode()
    for query in (b"BEGIN" if begins else b"", limits):
        if query:
            libpq.send_query_params(query, None)
            messages.append(_Message())
    for statement in statements:
        if not statement.is_planned and statement.name not in planned:
            statement.plan(libpq)
            messages.append(_Message(planned_statement=statement))
            planned |= {statement.name} - {b""}
        statement.send(libpq)
        messages.append(_Message(is_query=True))
    libpq.pipeline_sync()
    return [*messages, _Message()]
