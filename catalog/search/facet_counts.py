"""Counts of tools by the values of their labels: by the engine, or by PostgreSQL while there is no index."""

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from django.db import connection

from catalog.search import changes, index, orders, tags
from catalog.search.engines import Reader
from catalog.search.scope import Scope, change_starts
from core.content_cache import digest

Counts = dict[str, dict[str, int]]
# Counts of a larger catalog may be as old as its search index is behind: a second or so.
LARGE_CATALOG = 50_000
MAX_AGE_SECONDS = 10.0
# Scopes whose counts are remembered, in each process.
REMEMBERED = 64
LABELS = ("changed_since", "effect", "endpoint", "item_kind", "requirement", "status", "tag")
# PostgreSQL counts these without an index for each.
COLUMNS = {"endpoint": "t.endpoint_id", "status": "t.status", "item_kind": "t.kind"}


@dataclass(frozen=True, slots=True)
class Matches:
    """The tools that a question matched: those that contain any of the stems, and these others."""

    weights: Mapping[str, float]
    others: Collection[int]


class _Memory:
    """The last counts, by what was counted. Threads may count twice, and lose nothing."""

    def __init__(self) -> None:
        self._counts: OrderedDict[object, tuple[str, float, Counts]] = OrderedDict()

    def get(self, key: object, state: str, *, is_large: bool) -> Counts | None:
        known_state, counted_at, counts = self._counts.get(key, ("", 0.0, None))
        is_fresh = known_state == state or (is_large and time.monotonic() - counted_at < MAX_AGE_SECONDS)
        return counts if is_fresh else None

    def put(self, key: object, state: str, counts: Counts) -> None:
        self._counts[key] = (state, time.monotonic(), counts)
        while len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)


_memory = _Memory()


def count_values(names: Collection[str], scope: Scope, matches: Matches | None = None) -> Counts:
    """Return how many tools of the scope have each value of these labels.

    Labels that cannot be counted without an index are left out while there is none.
    """
    counts, state = index.read(lambda reader: _count(reader, tuple(names), scope, matches), Counts())
    if state and state.filled_through is None:
        return counts
    if scope.has_labels:
        return {name: {} for name in names if name in COLUMNS}
    if matches:
        scope = scope.among_only(list(matches.others))
    counts = {}
    with connection.cursor() as cursor:
        for name in (name for name in names if name in COLUMNS):
            column, condition = COLUMNS[name], scope.condition()
            statement = f"SELECT {column}, count(*) FROM catalog_tool t WHERE {condition} GROUP BY 1"  # noqa: S608
            cursor.execute(statement, scope.values())
            counts[name] = {str(value): count for value, count in cursor.fetchall()}
    if "changed_since" in names:
        starts = {name: max(start, scope.changed_since or 0) for name, start in change_starts().items()}
        spans = {name: replace(scope, changed_since=start) for name, start in starts.items()}
        counts["changed_since"] = {name: orders.count(span) for name, span in spans.items()}
    return counts


def _count(reader: Reader, names: tuple[str, ...], scope: Scope, matches: Matches | None) -> Counts:
    weights, others = (matches.weights, matches.others) if matches else (None, ())
    minute = tuple(change_starts().values()) if "changed_since" in names else ()
    tools = digest([sorted(others), sorted(scope.except_for), sorted(scope.among or ())])
    question = tuple(weights.items()) if weights else None
    key = (names, minute, scope.key, scope.among is None, question, tools)
    is_large = reader.document_count() > LARGE_CATALOG
    counts = _memory.get(key, reader.state, is_large=is_large)
    if counts is None:
        counts = reader.facets(names, scope, weights, others)
        _memory.put(key, reader.state, counts)
    return counts


def count_tools(scope: Scope) -> int:
    """Return how many tools the scope holds."""
    total = sum(count_values(("endpoint",), scope)["endpoint"].values())
    if total > LARGE_CATALOG or scope.has_labels:
        return total
    state = index.index_state()
    is_complete = state and state.filled_through is None and not changes.count_changes(state, 1)
    return total if is_complete else orders.count(scope)


def count_matches(scope: Scope, matches: Matches, *, with_labels: bool) -> int:
    """Return how many tools of the scope match.

    with_labels: count all labels, because they are shown next; the engine then reads the matches once.
    """
    labels = LABELS if with_labels else ("endpoint",)
    return sum(count_values(labels, scope, matches)["endpoint"].values())


def tools_in(scope: Scope, limit: int) -> list[int]:
    """Return the ids of tools of the scope, as the index has them."""
    nothing: list[int] = []
    tools, _ = index.read(lambda reader: reader.tools_in(scope, limit), nothing)
    return tools


def spellings(tag: str) -> tuple[str, ...]:
    """Return how the vendors of the catalog spell a tag, the given spelling first."""
    counts: dict[str, int] = count_values(("tag",), Scope(status=None, kinds=())).get("tag", {})
    key = tags.tag_key(tag)
    others = tags.group_spellings(counts).get(key, [])
    return tuple(dict.fromkeys((tag, *others)))
