"""Constant statements that every call of a runtime runs: each connection plans them once, and several of them
go to the database in one round trip.

The name of a prepared statement is a digest of its text and of the types of its parameters, so one name never
stands for two statements, even in a session that several clients use. Behind a pooler, where each transaction
has another session, statements have no names: each is planned in the round trip that runs it
(docs/decisions/0086-server-sessions.md).

This speaks libpq as psycopg's cursors do, without what they do besides: they look through the text of a
statement and describe its rows each time, which takes longer than the database does
(docs/decisions/0010-calls.md).
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
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import errors, generators
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.datetime import TimestamptzLoader

from core.server_session import mark_as_pooled, session_of

Rows = list[tuple[Any, ...]]
Values = Sequence[object] | Mapping[str, object]
# A number is of one type or another by its size, and a statement is planned for each. More are not kept.
MAX_PREPARED = 300
# The session lacks a statement that we have prepared, or has one that we have not: it is not ours alone.
_SHARED_SESSION = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
# Or a migration has changed the columns of its result.
_OUTDATED_PLAN = (errors.FeatureNotSupported, *_SHARED_SESSION)
_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|s|%)")


class SharedSessionError(psycopg.OperationalError):
    """A pooler gave our transaction a session that other clients use, too. Nothing of it was saved."""

    sqlstate = errors.InvalidSqlStatementName.sqlstate


def statement_name(text: bytes, types: Sequence[int]) -> bytes:
    """Return the name of a prepared statement: the same for the same text and types, in every process."""
    # No text can pass for a list of numbers. PostgreSQL cuts names off after 63 bytes; this has 52.
    content = ",".join(map(str, types)).encode() + b":" + text
    return b"pegboard_" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")


def run_prepared(sql: str, values: Values) -> Rows:
    """The rows of a constant statement, whose `values` stand at %s or %(name)s."""
    (rows,) = run_together((sql, values))
    return rows


def run_together(*asked: tuple[str, Values], is_checked: bool = True) -> list[Rows]:
    """The rows of each, in one round trip. Each sees what those before it have done, and what others have
    committed meanwhile. Without a transaction around them they are one: if one fails, none has run.

    `is_checked=False` is for who can go on without an answer: the connection may have ended unseen.
    """
    ours = connections[DEFAULT_DB_ALIAS]
    if is_checked:
        ours.close_if_health_check_failed()
    ours.ensure_connection()
    ours.validate_no_broken_transaction()
    line: psycopg.Connection[Any] = ours.connection
    began = time.monotonic()
    with ours.wrap_database_errors, line.lock:
        try:
            found = line.wait(_conversation(line, asked))
        except BaseException:
            # Whatever it was that ended it, from a deadline to a signal: an answer that is still on its way
            # would be taken for that of the next statement.
            if not _is_at_rest(line.pgconn):
                line.pgconn.finish()
                ours.errors_occurred = True
            raise
    if ours.queries_logged:
        # Where Django's own cursors would count them, for those that hold a page to so many queries.
        took = f"{time.monotonic() - began:.3f}"
        ours.queries_log.extend({"sql": sql, "time": took} for sql, _ in asked)
    return found


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


class _Adapted:
    """Types as Django has them, but for moments: it puts them in the same zone once more, in Python."""

    def __init__(self, line: psycopg.Connection[Any]) -> None:
        # Not the connection itself, which has this: it is closed when the last one has forgotten it.
        self.connection: Any = SimpleNamespace(pgconn=line.pgconn)
        self.adapters = AdaptersMap(line.adapters)
        self.adapters.register_loader("timestamptz", TimestamptzLoader)


class _Prepared:
    """The names of the statements that one connection has prepared, by their texts and types."""

    def __init__(self, line: psycopg.Connection[Any]) -> None:
        # Knows how to write and to read each type, and remembers it from one statement to the next.
        self._transformer = Transformer(_Adapted(line))
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._outdated: set[tuple[str, tuple[int, ...]]] = set()

    def statement(self, sql: str, values: Values, *, is_pooled: bool) -> _Statement:
        text, names = _in_libpq(sql)
        given = [values[name] for name in names] if isinstance(values, Mapping) else values
        written = self._transformer.dump_sequence(given, [PyFormat.AUTO] * len(given))
        key = sql, tuple(self._transformer.types or ())
        name = self._names.get(key)
        is_planned = name is not None
        if name is None:
            # One without a name is planned each time.
            is_named = not is_pooled and len(self._names) < MAX_PREPARED and key not in self._outdated
            name = statement_name(text, key[1]) if is_named else b""
        return _Statement(key, name, is_planned, text, written, self._transformer.formats)

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
    # Its text with $1 in place of %s, and for %(name)s the names in the order of their numbers.
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        name = found[1] or ""
        if not name or name not in names:
            names.append(name)
        return f"${names.index(name) + 1 if name else len(names)}"

    return _PLACEHOLDER.sub(number, sql).encode(), names


def _prepared_on(line: psycopg.Connection[Any]) -> _Prepared:
    found: _Prepared | None = vars(line).get("pegboard_prepared")
    if found is None:
        found = vars(line)["pegboard_prepared"] = _Prepared(line)
    return found


def _is_at_rest(libpq: PGconn) -> bool:
    is_active = libpq.transaction_status == TransactionStatus.ACTIVE
    return libpq.pipeline_status == PipelineStatus.OFF and not is_active


def _conversation(line: psycopg.Connection[Any], asked: Sequence[tuple[str, Values]]) -> PQGen[list[Rows]]:
    libpq = line.pgconn
    if not _is_at_rest(libpq):
        raise psycopg.OperationalError("an earlier statement of this connection was not read to its end")
    try:
        return (yield from _exchange(line, asked))
    except _OUTDATED_PLAN as error:
        if isinstance(error, _SHARED_SESSION):
            mark_as_pooled(line)
        if libpq.transaction_status == TransactionStatus.IDLE:
            # All of it was one transaction, which was rolled back: none has run.
            return (yield from _exchange(line, asked))
        if isinstance(error, _SHARED_SESSION):
            raise SharedSessionError(str(error)) from error
        raise


def _exchange(line: psycopg.Connection[Any], asked: Sequence[tuple[str, Values]]) -> PQGen[list[Rows]]:
    prepared, libpq, session = _prepared_on(line), line.pgconn, session_of(line)
    is_idle = libpq.transaction_status == TransactionStatus.IDLE
    if session.is_pooled:
        prepared.forget_all()
    statements = [prepared.statement(sql, values, is_pooled=session.is_pooled) for sql, values in asked]
    begins = is_idle and not line.autocommit
    limits = session.set_local_query() if is_idle and session.is_pooled else b""
    try:
        if len(statements) == 1 and not begins and statements[0].is_planned:
            statements[0].send(libpq)
            return [prepared.rows((yield from generators.execute(libpq)))]
        sent = _send_all(libpq, statements, begins=begins, limits=limits)
        # One answer to each message, in their order; none is read before all messages have left.
        answers = [(yield from generators.execute(libpq))]
        while len(answers) < len(sent):
            answers.append((yield from generators.fetch_many(libpq)))
        libpq.exit_pipeline_mode()
        for message, results in zip(sent, answers, strict=True):
            # What was planned stays so in the server, whatever becomes of those after it.
            if message.plans and results[0].status == ExecStatus.COMMAND_OK:
                prepared.keep(message.plans)
        told = [prepared.rows(results) for results in answers[:-1]]
    except _OUTDATED_PLAN:
        for statement in statements:
            prepared.stop_naming(statement)
        raise
    return [rows for rows, message in zip(told, sent, strict=False) if message.asks]


@dataclass(frozen=True, slots=True)
class _Message:
    plans: _Statement | None = None
    asks: bool = False


def _send_all(
    libpq: PGconn, statements: Sequence[_Statement], *, begins: bool, limits: bytes
) -> list[_Message]:
    sent = []
    planned: set[bytes] = set()  # one statement may come several times, with other values
    libpq.enter_pipeline_mode()
    for query in (b"BEGIN" if begins else b"", limits):
        if query:
            libpq.send_query_params(query, None)
            sent.append(_Message())
    for each in statements:
        if not each.is_planned and each.name not in planned:
            each.plan(libpq)
            sent.append(_Message(plans=each))
            planned |= {each.name} - {b""}
        each.send(libpq)
        sent.append(_Message(asks=True))
    libpq.pipeline_sync()
    return [*sent, _Message()]
