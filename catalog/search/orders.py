"""Tools in the order of a column: the next keys after a place, never an offset."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django.db import connection

from catalog.search.scope import Scope

VENDOR = "vendor"
# As the indexes of the table have them.
COLUMNS: Mapping[str, str] = {
    "name": "lower(left(t.name, 100))",
    "-changed": "t.changed_at",
    "tokens": "t.tokens",
    "-tokens": "t.tokens",
}
SORTS = ("name", "-changed", VENDOR, "tokens", "-tokens")


class Key(NamedTuple):
    """The sort key of a tool, and its id."""

    value: Any
    tool: int


def count(scope: Scope) -> int:
    """Return how many tools the scope holds."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM catalog_tool t WHERE {scope.condition()}",  # noqa: S608
            scope.values(),
        )
        return int(cursor.fetchone()[0])


def keys(order: str, scope: Scope, after: Sequence[Any] | None, limit: int, *, backwards: bool) -> list[Key]:
    """The next keys after the key `after`, or before it when `backwards`; the nearest to it first."""
    place = Key(*after) if after else None
    falls = order.startswith("-") != backwards
    if order == VENDOR:
        return _keys_by_vendor(scope, place, limit, falls=falls)
    beyond, direction = ("<", "DESC") if falls else (">", "ASC")
    # The tools of a tag are sorted, because no index has them in an order: then only the first are compared.
    folds_late = scope.is_folded and bool(scope.tags)
    statement = (_BY_COLUMN_OF_TAGS if folds_late else _BY_COLUMN).format(
        value=COLUMNS[order],
        scope=replace(scope, is_folded=False).condition() if folds_late else scope.condition(),
        folding=scope.folding,
        direction=direction,
        further=f"AND ({COLUMNS[order]}, t.id) {beyond} (%(value)s, %(tool)s)" if place else "",
    )
    values = {**scope.values(), **(place._asdict() if place else {}), "limit": limit}
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [Key(*row) for row in cursor.fetchall()]


# Joined in the order of the tools, row by row, which OFFSET ensures.
_BY_COLUMN_OF_TAGS = """
SELECT sorted.value, sorted.id FROM (
    SELECT {value} AS value, t.id FROM catalog_tool t WHERE {scope} {further}
    ORDER BY value {direction}, t.id {direction} OFFSET 0
) sorted CROSS JOIN LATERAL (SELECT * FROM catalog_tool o WHERE o.id = sorted.id OFFSET 0) t
WHERE {folding} ORDER BY sorted.value {direction}, sorted.id {direction} LIMIT %(limit)s
"""
_BY_COLUMN = """
SELECT {value}, t.id FROM catalog_tool t WHERE {scope} {further}
ORDER BY {value} {direction}, t.id {direction} LIMIT %(limit)s
"""


def keys_by_use(
    use_counts: Mapping[int, int],
    scope: Scope,
    after: Sequence[Any] | None,
    limit: int,
    *,
    backwards: bool,
) -> list[Key]:
    """The next keys in the order of use: what most agents use first, then what none uses, by name.

    The key of a used tool is a number, that of another one its name.
    """
    place = Key(*after) if after else None
    unused = replace(scope, except_for=[*scope.except_for, *use_counts])
    used = [Key(-use_counts[tool], tool) for tool in in_scope(list(use_counts), scope)]
    if backwards:
        page_keys = []
        if place and isinstance(place.value, str):
            page_keys = keys("name", unused, place, limit, backwards=True)
            place = None
        before = [key for key in used if place is None or key < place]
        return (page_keys + sorted(before, reverse=True))[:limit]
    if place and isinstance(place.value, str):
        return keys("name", unused, place, limit, backwards=False)
    page_keys = sorted(key for key in used if place is None or key > place)[:limit]
    return page_keys + keys("name", unused, None, limit - len(page_keys), backwards=False)


def in_scope(tools: Sequence[int], scope: Scope) -> list[int]:
    """Return those of the tools that the scope holds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.id FROM catalog_tool t "  # noqa: S608 - a condition
            f"WHERE t.id = ANY(%(tools)s::bigint[]) AND {scope.condition()}",
            # The driver writes a list number by number, which takes a millisecond.
            {**scope.values(), "tools": f"{{{','.join(map(str, tools))}}}"},
        )
        return [tool for (tool,) in cursor.fetchall()]


def _keys_by_vendor(scope: Scope, place: Key | None, limit: int, *, falls: bool) -> list[Key]:
    """Return the next keys vendor by vendor, so that only the tools of the first few are sorted."""
    beyond, direction = ("<", "DESC") if falls else (">", "ASC")
    statement = _BY_VENDOR.format(
        scope=scope.condition(),
        direction=direction,
        vendor_from=f"AND lower(v.name) {beyond}= %(value)s" if place else "",
        tool_after=f"AND (name.value, t.id) {beyond} (%(value)s, %(tool)s)" if place else "",
    )
    values = {**scope.values(), **(place._asdict() if place else {}), "limit": limit}
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [Key(*row) for row in cursor.fetchall()]


_BY_VENDOR = """
SELECT value, id FROM (
    SELECT name.value, tool.id FROM (
        SELECT DISTINCT lower(v.name) AS value FROM catalog_vendor v
        WHERE v.removed_at IS NULL {vendor_from} ORDER BY 1 {direction}
    ) name CROSS JOIN LATERAL (
        SELECT t.id FROM catalog_tool t WHERE t.endpoint_id IN (
            SELECT e.id FROM catalog_endpoint e JOIN catalog_vendor v ON v.id = e.vendor_id
            WHERE lower(v.name) = name.value AND v.removed_at IS NULL AND e.removed_at IS NULL
        ) AND {scope} {tool_after}
        ORDER BY t.id {direction} LIMIT %(limit)s
    ) tool LIMIT %(limit)s
) first ORDER BY value {direction}, id {direction}
"""
