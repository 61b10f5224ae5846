"""The same tool at several endpoints of a vendor: one row of a list, and the others as its variants.

Two tools are the same if their vendor, id, status and current signature are, and our words in place of the
vendor's.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django.db import connection

from catalog.search.scope import OF_LIVING_VENDOR, Scope

# More tools are not compared only to count rows.
MAX_COUNTED = 1_000

_HAS_SHARED = """
SELECT EXISTS (
    SELECT FROM catalog_endpoint e JOIN catalog_vendor v ON v.id = e.vendor_id AND v.removed_at IS NULL
    WHERE e.removed_at IS NULL {among} GROUP BY e.vendor_id HAVING count(*) > 1)
"""
# The columns that distinguish the tools of a vendor with one id from each other.
_IDENTITY = """e.vendor_id, t.tool_id, t.status, t.stopped_id IS NULL, v.digest,
    CASE WHEN t.is_tuned THEN jsonb_build_array(t.name, t.title, t.description, t.tokens) END"""
_TABLES = """catalog_tool t JOIN catalog_endpoint e ON e.id = t.endpoint_id
    JOIN catalog_toolversion v ON v.id = t.current_id"""
# Only of tools that share the vendor and the id with another of them.
_SHARED_IDENTITIES = f"""
SELECT t.id, ({_IDENTITY})::text FROM {_TABLES} WHERE t.id IN (
    SELECT holder.id FROM (
        SELECT t.id, count(*) OVER (PARTITION BY e.vendor_id, t.tool_id) AS holders
        FROM catalog_tool t JOIN catalog_endpoint e ON e.id = t.endpoint_id WHERE t.id = ANY(%(tools)s)
    ) holder WHERE holder.holders > 1)
"""  # noqa: S608 - of constants
_VARIANTS = f"""
SELECT shown.id, t.id, t.endpoint_id
FROM (
    SELECT t.id, t.tool_id, ROW({_IDENTITY}) AS identity, e.vendor_id FROM {_TABLES}
    WHERE t.id = ANY(%(rows)s)
) shown
JOIN catalog_endpoint variant_endpoint ON variant_endpoint.vendor_id = shown.vendor_id
JOIN catalog_endpoint e ON e.id = variant_endpoint.id
CROSS JOIN LATERAL (
    SELECT * FROM catalog_tool o WHERE o.endpoint_id = e.id AND o.tool_id = shown.tool_id OFFSET 0
) t
JOIN catalog_toolversion v ON v.id = t.current_id
WHERE t.id <> shown.id AND ROW({_IDENTITY}) IS NOT DISTINCT FROM shown.identity AND {{scope}}
ORDER BY t.id
"""  # noqa: S608 - of constants


class Variant(NamedTuple):
    """The same tool at another endpoint."""

    id: int
    endpoint: int


def fold(scope: Scope) -> Scope:
    """Return the scope with the same tool once, if a vendor has several endpoints in it."""
    among = "AND e.id = ANY(%(endpoints)s)" if scope.endpoints is not None else ""
    rows = _fetch(_HAS_SHARED.format(among=among), {"endpoints": scope.endpoints})
    return replace(scope, is_folded=bool(rows[0][0]))


def first_variants(tools: Sequence[int], scope: Scope) -> list[int]:
    """Return the tools without those that are the same as an earlier one."""
    if not scope.is_folded or not tools:
        return list(tools)
    identities = dict(_fetch(_SHARED_IDENTITIES, {"tools": list(tools)}))
    seen: dict[object, int] = {}
    for tool in tools:
        seen.setdefault(identities.get(tool, tool), tool)
    return list(seen.values())


def find_variants(tools: Sequence[int], scope: Scope) -> dict[int, list[Variant]]:
    """Return the same tools at other endpoints of the scope, by tool."""
    variants: dict[int, list[Variant]] = {}
    if scope.is_folded and tools:
        statement = _VARIANTS.format(scope=replace(scope, is_folded=False).condition(OF_LIVING_VENDOR))
        for tool, *variant in _fetch(statement, {**scope.values(), "rows": list(tools)}):
            variants.setdefault(tool, []).append(Variant(*variant))
    return variants


def count_rows(scope: Scope, tool_count: int) -> int | None:
    """Return how many rows the tools of the scope are; None where that is not known, or takes long."""
    if not scope.is_folded:
        return tool_count
    if scope.has_labels or tool_count > MAX_COUNTED:
        return None
    condition = replace(scope, is_folded=False).condition()
    identities = f"SELECT DISTINCT {_IDENTITY} FROM {_TABLES} WHERE {condition}"  # noqa: S608
    statement = f"SELECT count(*) FROM ({identities}) row"  # noqa: S608
    return int(_fetch(statement, scope.values())[0][0])


def _fetch(statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
