"""Querysets of busy pages, whose SQL is compiled once in a process.

Django compiles the SQL of a queryset each time that it is read. With joins and subqueries this takes 1 to 3
ms, which is more than PostgreSQL takes to answer, and a page reads a dozen of them.
docs/decisions/0038-compiled-queries.md gives the reasons.
"""

import copy
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import connection, connections
from django.db.models import (
    BooleanField,
    CharField,
    ForeignKey,
    IntegerField,
    Model,
    QuerySet,
    TextField,
    UUIDField,
)
from django.db.models.expressions import RawSQL

from core.prepared_statements import Rows, run_prepared

Row = TypeVar("Row", covariant=True)


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A placeholder among the parameters of a query, whose value is set when the query runs."""

    name: str


def named_value(name: str) -> RawSQL:
    return RawSQL("%s", [NamedValue(name)])


def named_keys(name: str) -> RawSQL:
    """Return a placeholder for a list of primary keys, for `pk__in=`."""
    return RawSQL("SELECT unnest(%s::bigint[])", [NamedValue(name)])


def is_any_of(column: str, name: str) -> RawSQL:
    """Return a condition for a column of the queryset's table, for `filter()`. With many joins it is planned
    better than `named_keys`, which is one more of them.
    """
    condition = f"{column} = ANY(%s::bigint[])"
    return RawSQL(condition, [NamedValue(name)], output_field=BooleanField())  # noqa: S611 - named in code


class CompiledQuery(Generic[Row]):
    """The rows of a queryset that differs only in its named values. It cannot be filtered further."""

    def __init__(self, queryset: QuerySet[Any, Row]) -> None:
        self._queryset = queryset
        self._compiler = queryset.query.get_compiler(queryset.db)
        self._sql, self._params = self._compiler.as_sql()
        self._converters: Any = None

    def rows(self, **values: object) -> list[Row]:
        params = tuple(
            values[parameter.name] if isinstance(parameter, NamedValue) else parameter
            for parameter in self._params
        )
        compiler = self._own_compiler()
        compiler.as_sql = lambda *_, **__: (self._sql, params)
        return self._fetch(compiler)

    def _own_compiler(self) -> Any:
        # A connection belongs to one thread. Threads only read the other attributes of the compiler.
        compiler: Any = copy.copy(self._compiler)
        compiler.connection = connections[self._queryset.db]
        compiler.get_converters = self._known_converters
        return compiler

    def _known_converters(self, expressions: Any) -> Any:
        # The columns never change, so their converters do not either.
        if self._converters is None:
            self._converters = self._compiler.get_converters(expressions)
        return self._converters

    def _fetch(self, compiler: Any) -> list[Row]:
        queryset = self._queryset.all()
        queryset.query.get_compiler = lambda *_, **__: compiler  # type: ignore[method-assign]
        return list(queryset)


class PreparedQuery(CompiledQuery[Row]):
    """A compiled query that each connection also plans once, for the queries of every call of a runtime."""

    def rows(self, **values: object) -> list[Row]:
        parameters = [values[p.name] if isinstance(p, NamedValue) else p for p in self._params]
        rows = run_prepared(self._sql, parameters)
        compiler = self._own_compiler()
        # `execute_sql` returns chunks of rows.
        compiler.execute_sql = lambda *_, **__: [rows]
        return self._fetch(compiler)


# Types that Django passes to the database unchanged, by class of field. Calling the field takes longer.
_PLAIN_TYPES: tuple[tuple[type[object], type], ...] = (
    (CharField, str),
    (TextField, str),
    (BooleanField, bool),
    (IntegerField, int),
    (ForeignKey, int),
    (UUIDField, uuid.UUID),
)


class PreparedInsert:
    """Inserts a row of `model` with one prepared statement.

    expressions: SQL in place of a value, by column. where: a condition for the insert. Both may contain %s.
    has_key: the row has a primary key already; otherwise the database generates it.
    """

    def __init__(
        self,
        model: type[Model],
        *,
        expressions: Mapping[str, str] | None = None,
        where: str = "",
        returning: Sequence[str] = (),
        has_key: bool = False,
    ) -> None:
        expressions = expressions or {}
        pk = model._meta.pk
        fields = [field for field in model._meta.concrete_fields if has_key or field is not pk]
        value_fields = [field for field in fields if field.column not in expressions]
        self._value_fields = [
            (
                field,
                next((kind for field_class, kind in _PLAIN_TYPES if isinstance(field, field_class)), None),
            )
            for field in value_fields
        ]
        columns = [*(str(field.column) for field in value_fields), *expressions]
        # Without a type a parameter would be text. A cast to varchar(10) would cut longer values silently.
        types = [str(field.db_type(connection)) for field in value_fields]
        values = [f"%s::{'text' if kind.startswith('varchar') else kind}" for kind in types]
        self._returning = [str(pk.column if pk else ""), *returning]
        self._sql = (
            f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) "
            f"SELECT {', '.join([*values, *expressions.values()])} {where} "
            f"RETURNING {', '.join(self._returning)}"
        )

    def write(self, row: Model, params: Sequence[object] = ()) -> bool:
        """Insert the row and return whether `where` allowed it. params: for the expressions and `where`."""
        return self.take(row, run_prepared(*self.statement(row, params)))

    def statement(self, row: Model, params: Sequence[object] = ()) -> tuple[str, list[object]]:
        """Return the statement for `run_together`; `take` receives its result."""
        values = [(field, kind, getattr(row, field.attname)) for field, kind in self._value_fields]
        return self._sql, [
            *(
                value if value is None or type(value) is kind else field.get_db_prep_save(value, connection)
                for field, kind, value in values
            ),
            *params,
        ]

    def take(self, row: Model, rows: Rows) -> bool:
        if not rows:
            return False
        row.pk, *returned = rows[0]
        for column, value in zip(self._returning[1:], returned, strict=True):
            setattr(row, column, value)
        row._state.adding, row._state.db = False, connection.alias
        return True
