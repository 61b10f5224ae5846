"""Querysets of busy pages, whose SQL is compiled once in a process.

Django compiles the SQL of a queryset each time that it is read. With joins and subqueries this takes
1 to 3 ms, which is more than PostgreSQL takes to answer, and a page reads a dozen of them.
docs/decisions/0038-compiled-queries.md says why it is done this way, and where.
"""

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Model, QuerySet
from django.db.models.expressions import RawSQL

Row = TypeVar("Row", covariant=True)


@dataclass(frozen=True, slots=True)
class Given:
    """Stands among the parameters of a query for a value that is given by this name when it is read."""

    name: str


def given(name: str) -> RawSQL:
    return RawSQL("%s", [Given(name)])


def given_keys(name: str) -> RawSQL:
    """For `pk__in=`: as many as are given."""
    return RawSQL("SELECT unnest(%s::bigint[])", [Given(name)])


class CompiledQuery(Generic[Row]):
    """The rows of a queryset. Nothing can be added to it: only the `given` values differ."""

    def __init__(self, queryset: QuerySet[Any, Row]) -> None:
        self._queryset = queryset
        self._compiler = queryset.query.get_compiler(queryset.db)
        self._sql, self._params = self._compiler.as_sql()
        self._converters: Any = None

    def rows(self, **values: object) -> list[Row]:
        params = tuple(values[each.name] if isinstance(each, Given) else each for each in self._params)
        compiler = self._own_compiler()
        compiler.as_sql = lambda *_, **__: (self._sql, params)
        return self._read(compiler)

    def _own_compiler(self) -> Any:
        # A connection belongs to one thread. What else the compiler has found out, threads only read.
        compiler: Any = copy.copy(self._compiler)
        compiler.connection = connections[self._queryset.db]
        compiler.get_converters = self._known_converters
        return compiler

    def _known_converters(self, expressions: Any) -> Any:
        # Which columns need converting is as constant as the columns are.
        if self._converters is None:
            self._converters = self._compiler.get_converters(expressions)
        return self._converters

    def _read(self, compiler: Any) -> list[Row]:
        queryset = self._queryset.all()
        queryset.query.get_compiler = lambda *_, **__: compiler  # type: ignore[method-assign]
        return list(queryset)


class PreparedQuery(CompiledQuery[Row]):
    """Planned once for each connection, too: for what every call of a runtime asks."""

    def rows(self, **values: object) -> list[Row]:
        params = [values[each.name] if isinstance(each, Given) else each for each in self._params]
        compiler = self._own_compiler()
        # What `execute_sql` gives are chunks of rows.
        compiler.execute_sql = lambda *_, **__: [run_prepared(self._sql, params)]
        return self._read(compiler)


class PreparedInsert:
    """Writes a row of `model`, whatever columns it has. `expressions` stand in place of values, by column.

    Both they and `where`, without which a row is always written, may hold %s.
    """

    def __init__(
        self,
        model: type[Model],
        *,
        expressions: Mapping[str, str] | None = None,
        where: str = "",
        returning: Sequence[str] = (),
    ) -> None:
        expressions = expressions or {}
        pk = model._meta.pk
        fields = [field for field in model._meta.concrete_fields if field is not pk]
        self._taken = [field for field in fields if field.column not in expressions]
        columns = [*(str(field.column) for field in self._taken), *expressions]
        # Without its type a parameter would be text, and a cast to varchar(10) cuts what is too long.
        types = [str(field.db_type(connection)) for field in self._taken]
        values = [f"%s::{'text' if kind.startswith('varchar') else kind}" for kind in types]
        self._returning = [str(pk.column if pk else ""), *returning]
        self._sql = (
            f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) "
            f"SELECT {', '.join([*values, *expressions.values()])} {where} "
            f"RETURNING {', '.join(self._returning)}"
        )

    def write(self, row: Model, params: Sequence[object] = ()) -> bool:
        """`params` are those of the expressions and of `where`. False: it was not, by `where`."""
        values = [field.get_db_prep_save(getattr(row, field.attname), connection) for field in self._taken]
        written = run_prepared(self._sql, [*values, *params])
        if not written:
            return False
        row.pk, *rest = written[0]
        for column, value in zip(self._returning[1:], rest, strict=True):
            setattr(row, column, value)
        row._state.adding, row._state.db = False, connection.alias
        return True


def run_prepared(sql: str, params: Sequence[object] | Mapping[str, object]) -> list[tuple[Any, ...]]:
    """The rows of a constant statement, which each connection prepares once."""
    ours = connections[DEFAULT_DB_ALIAS]
    ours.close_if_health_check_failed()
    ours.ensure_connection()
    ours.validate_no_broken_transaction()
    line: psycopg.Connection = ours.connection
    # Planning takes longer than the answer. Nothing is prepared unless this is set, and Django's own cursors
    # prepare nothing even then.
    line.prepare_threshold = 0
    began = time.monotonic()
    with ours.wrap_database_errors, psycopg.Cursor(line) as cursor:
        cursor.execute(sql, params)
        # `description` says the same, and makes an object of each column for it.
        rows = cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []
    if ours.queries_logged:
        # Where Django's own cursors would count it, for those that hold a page to so many queries.
        ours.queries_log.append({"sql": sql, "time": f"{time.monotonic() - began:.3f}"})
    return rows
