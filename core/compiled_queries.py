"""Querysets of busy pages, whose SQL is compiled once in a process.

Django compiles the SQL of a queryset each time that it is read. With joins and subqueries this takes
1 to 3 ms, which is more than PostgreSQL takes to answer, and a page reads a dozen of them.
docs/decisions/0038-compiled-queries.md says why it is done this way, and where.
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
    Field,
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
        parameters = [values[p.name] if isinstance(p, Given) else p for p in self._params]
        rows = run_prepared(self._sql, parameters)
        compiler = self._own_compiler()
        # What `execute_sql` gives are chunks of rows.
        compiler.execute_sql = lambda *_, **__: [rows]
        return self._read(compiler)


# What Django gives to the database as it is, by the kind of field. Asking the field takes longer.
_AS_IT_IS: tuple[tuple[type[object], type], ...] = (
    (CharField, str),
    (TextField, str),
    (BooleanField, bool),
    (IntegerField, int),
    (ForeignKey, int),
    (UUIDField, uuid.UUID),
)


def _needs_no_writing(field: "Field[Any, Any]") -> type | None:
    return next((kind for of, kind in _AS_IT_IS if isinstance(field, of)), None)


class PreparedInsert:
    """Writes a row of `model`, whatever columns it has. `expressions` stand in place of values, by column.

    Both they and `where`, without which a row is always written, may hold %s. With `has_key` its primary key
    is given, and not the database's to give.
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
        taken = [field for field in fields if field.column not in expressions]
        self._taken = [(field, _needs_no_writing(field)) for field in taken]
        columns = [*(str(field.column) for field in taken), *expressions]
        # Without its type a parameter would be text, and a cast to varchar(10) cuts what is too long.
        types = [str(field.db_type(connection)) for field in taken]
        values = [f"%s::{'text' if kind.startswith('varchar') else kind}" for kind in types]
        self._returning = [str(pk.column if pk else ""), *returning]
        self._sql = (
            f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) "
            f"SELECT {', '.join([*values, *expressions.values()])} {where} "
            f"RETURNING {', '.join(self._returning)}"
        )

    def write(self, row: Model, params: Sequence[object] = ()) -> bool:
        """`params` are those of the expressions and of `where`. False: it was not, by `where`."""
        return self.take(row, run_prepared(*self.statement(row, params)))

    def statement(self, row: Model, params: Sequence[object] = ()) -> tuple[str, list[object]]:
        """The same for `run_together`; `take` has what comes of it."""
        values = [(field, kind, getattr(row, field.attname)) for field, kind in self._taken]
        return self._sql, [
            *(
                value if value is None or type(value) is kind else field.get_db_prep_save(value, connection)
                for field, kind, value in values
            ),
            *params,
        ]

    def take(self, row: Model, written: Rows) -> bool:
        if not written:
            return False
        row.pk, *rest = written[0]
        for column, value in zip(self._returning[1:], rest, strict=True):
            setattr(row, column, value)
        row._state.adding, row._state.db = False, connection.alias
        return True
