"""Tools in the order of a column: the next keys after a place, never an offset."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Left, Lower

from catalog.models import Tool
from catalog.search.scope import Scope

VENDOR = "vendor"
COLUMNS: Mapping[str, Any] = {
    "name": Lower(Left("name", 100)),
    "-changed": F("changed_at"),
    "tokens": F("tokens"),
    "-tokens": F("tokens"),
}
SORTS = ("name", "-changed", VENDOR, "tokens", "-tokens")


class Key(NamedTuple):
    """What a tool is sorted by, and its id."""

    value: Any
    tool: int


def tools_in(scope: Scope) -> QuerySet[Tool]:
    tools = Tool.objects.filter(endpoint__removed_at=None, endpoint__vendor__removed_at=None)
    if scope.endpoints is not None:
        tools = tools.filter(endpoint__in=scope.endpoints)
    if scope.tags:
        tools = tools.filter(tags__contains=list(scope.tags))
    if scope.among is not None:
        tools = tools.filter(pk__in=scope.among)
    return tools.filter(status=scope.status) if scope.status else tools


def keys(order: str, scope: Scope, after: Sequence[Any] | None, limit: int, *, backwards: bool) -> list[Key]:
    """In reading direction of `backwards`: the nearest to `after` first."""
    place = Key(*after) if after else None
    falls = order.startswith("-") != backwards
    if order == VENDOR:
        return _by_vendor(scope, place, limit, falls)
    sign, beyond = ("-", "lt") if falls else ("", "gt")
    tools = tools_in(scope).annotate(value=COLUMNS[order]).order_by(f"{sign}value", f"{sign}id")
    if place:
        further = Q(**{f"value__{beyond}": place.value}) | Q(**{f"id__{beyond}": place.tool})
        # Says nothing that `further` does not; it is the condition an index can start from.
        tools = tools.filter(further, **{f"value__{beyond}e": place.value})
    return [Key(*row) for row in tools.values_list("value", "id")[:limit]]


def _by_vendor(scope: Scope, place: Key | None, limit: int, falls: bool) -> list[Key]:
    """Vendor by vendor, so that only the tools of the first few are looked at and sorted."""
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
