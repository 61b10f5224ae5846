"""Rows of tools as lists show them, in any order, a page at a time by keyset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from django.core import signing
from django.db import connection

from catalog.search.scope import Scope
from people.errors import DomainError


class ToolRow(TypedDict):
    """One tool of a list; the REST row and a little more. `vendor` is the slug, `version` the vendor's label."""

    id: int
    tool_id: str
    name: str
    title: str
    description: str
    vendor: str
    vendor_name: str
    endpoint: int
    protocol: str
    version: str
    ordinal: int
    status: str
    tags: list[str]
    tokens: int
    changed_at: datetime


_COLUMNS = """
    t.id, t.tool_id, t.name, t.title, t.description, v.slug AS vendor, v.name AS vendor_name,
    t.endpoint_id AS endpoint, e.protocol, c.label AS version, c.ordinal, t.status, t.tags, t.tokens, t.changed_at
"""
_TABLES = """
    catalog_tool t JOIN catalog_toolversion c ON c.id = t.current_id
    JOIN catalog_endpoint e ON e.id = t.endpoint_id JOIN catalog_vendor v ON v.id = e.vendor_id
"""
# Each order ends with the id, so no two rows are equal in it. The casts are for the values of a cursor.
ORDERS: Mapping[str, Sequence[tuple[str, str]]] = {
    "name": [("left(t.name, 100)", "text")],
    "changed": [("t.changed_at", "timestamptz")],
    "vendor": [("v.name", "text"), ("left(t.name, 100)", "text")],
    "tokens": [("t.tokens", "int")],
}
_LAST = ("t.id", "bigint")


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[ToolRow]
    next: str | None
    previous: str | None


def rows_of(tools: Sequence[int]) -> list[ToolRow]:
    """In the order given; those that are gone are left out."""
    found = {row["id"]: row for row in _rows("t.id = ANY(%(tools)s)", {"tools": list(tools)})}
    return [found[tool] for tool in tools if tool in found]


def browse(scope: Scope, sort: str, cursor: str | None, limit: int, among: Sequence[int] | None = None) -> Page:
    """A page in the order of a column; `among` narrows to these tools."""
    place = read_cursor(sort, cursor) if cursor else None
    backwards = bool(place and place[0])
    columns = [*ORDERS[sort.removeprefix("-")], _LAST]
    downwards = sort.startswith("-") != backwards
    conditions, values = scope.conditions()
    if among is not None:
        conditions.append("t.id = ANY(%(among)s)")
        values["among"] = list(among)
    if place:
        conditions.append(_beyond(columns, downwards))
        values |= {f"place_{index}": value for index, value in enumerate(_checked(place[1:], columns))}
    order = ", ".join(f"{column} {'DESC' if downwards else 'ASC'}" for column, _ in columns)
    keys = ", ".join(f"({column})::text" for column, _ in columns)
    with connection.cursor() as db:
        db.execute(
            f"SELECT {_COLUMNS}, ARRAY[{keys}] FROM {_TABLES} WHERE {' AND '.join(conditions)} "
            f"ORDER BY {order} LIMIT %(limit)s",
            {**values, "limit": limit + 1},
        )
        names = [column.name for column in db.description]
        found = [dict(zip(names, row, strict=True)) for row in db.fetchall()]
    more, found = len(found) > limit, found[:limit]
    if backwards:
        found.reverse()
    places = [row.pop(names[-1]) for row in found]
    has_next, has_previous = (True, more) if backwards else (more, place is not None)
    return Page(
        found,
        write_cursor(sort, [False, *places[-1]]) if found and has_next else None,
        write_cursor(sort, [True, *places[0]]) if found and has_previous else None,
    )
