"""Counts of tools by the values of their labels: by the engine, or by PostgreSQL while there is no index."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from django.db import connection

from catalog.search import changes, index, orders, tags
from catalog.search.engines import Reader, StemCondition
from catalog.search.scope import Scope, change_starts
from core.content_cache import digest

T = TypeVar("T")
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
    """The tools that a question matched: all that contain any of the stems, and those that were found.

    with_stems: found tools that are known to contain a stem, and need not be compared with the stems again.
    """

    stems: frozenset[str]
    found_tools: Set[int]
    with_stems: Set[int] = frozenset()


class _Memory(Generic[T]):
    """The last counts, by what was counted. Threads may count twice, and lose nothing."""

    def __init__(self) -> None:
        self._counts: OrderedDict[object, tuple[str, float, T]] = OrderedDict()

    def get(self, reader: Reader, scope: Scope, what: object, count: Callable[[], T]) -> T:
        """Return a former count of the scope, unless the catalog has changed since, or count it."""
        tools = digest([sorted(scope.except_for), sorted(scope.among or ())])
        key = (scope.key, scope.among is None, tools, what)
        known_state, counted_at, counts = self._counts.get(key, ("", 0.0, None))
        is_large = reader.document_count() > LARGE_CATALOG
        is_young = is_large and time.monotonic() - counted_at < MAX_AGE_SECONDS
        if counts is None or not (known_state == reader.state or is_young):
            counts = count()
            self._counts[key] = (reader.state, time.monotonic(), counts)
            while len(self._counts) > REMEMBERED:
                self._counts.popitem(last=False)
        return counts


_facets: _Memory[Counts] = _Memory()
_totals: _Memory[int] = _Memory()


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
        scope = scope.among_only(list(matches.found_tools))
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
    minute = tuple(change_starts().values()) if "changed_since" in names else ()

    def count(part: Scope, stems: StemCondition | None) -> Counts:
        return _facets.get(reader, part, (names, minute, stems), partial(reader.facets, names, part, stems))

    if matches is None:
        return count(scope, None)
    all_counts = [count(part, stems) for part, stems in _find_parts(scope, matches)]
    return {name: dict(sum((Counter(counts[name]) for counts in all_counts), Counter())) for name in names}


def _find_parts(scope: Scope, matches: Matches) -> list[tuple[Scope, StemCondition]]:
    """Return what to count, one after the other, to count the tools of the scope that match."""
    parts = [(scope, StemCondition(matches.stems))]
    if others := matches.found_tools - matches.with_stems:
        parts.append((scope.among_only(list(others)), StemCondition(matches.stems, is_absent=True)))
    return parts


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
    if with_labels:
        return sum(count_values(LABELS, scope, matches)["endpoint"].values())

    def count(reader: Reader) -> int:
        return sum(
            _totals.get(reader, part, stems, partial(reader.count, part, stems))
            for part, stems in _find_parts(scope, matches)
        )

    total, state = index.read(count, 0)
    if state and state.filled_through is None:
        return total
    return sum(count_values(("endpoint",), scope, matches)["endpoint"].values())


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
