"""Querysets of busy pages, whose SQL is compiled once in a process.

Django compiles the SQL of a queryset each time that it is read. With joins and subqueries this takes
1 to 3 ms, which is more than PostgreSQL takes to answer, and a page reads a dozen of them.
docs/decisions/0038-compiled-queries.md says why it is done this way, and where.
"""

import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import connections
from django.db.models import QuerySet
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

    def rows(self, **values: object) -> list[Row]:
        params = tuple(values[each.name] if isinstance(each, Given) else each for each in self._params)
        # A connection belongs to one thread. What else the compiler has found out, threads only read.
        compiler = copy.copy(self._compiler)
        compiler.connection = connections[self._queryset.db]
        compiler.as_sql = lambda *_, **__: (self._sql, params)
        queryset = self._queryset.all()
        queryset.query.get_compiler = lambda *_, **__: compiler  # type: ignore[method-assign]
        return list(queryset)
