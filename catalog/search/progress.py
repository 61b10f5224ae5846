"""Progress of the search index and of inspection after changes of the catalog."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.search import changes, meanings
from catalog.search.changes import NOT_INDEXED, IndexState
from catalog.search.index import index_state

# A larger catalog is not counted again for each request.
LARGE_CATALOG = 20_000
CATCHING_UP_SECONDS, COMPLETE_SECONDS = 5.0, 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of active tools: all of them, those that a search finds as they are now, and the inspected ones.

    A tool is searchable when its current version is indexed, though perhaps under its vendor's former name.
    compared: those with a vector of their current version; None where no meanings are compared.
    meaning_trouble: why no vectors can be made now, "" if they can.
    """

    tools: int
    searchable: int
    inspected: int
    compared: int | None = None
    meaning_trouble: str = ""

    @property
    def is_complete(self) -> bool:
        return self.searchable == self.inspected == self.tools

    @property
    def label(self) -> str:
        """The step that is running, with its count, as in "Indexing 3,200 of 8,600"."""
        if self.searchable < self.tools:
            return _("Indexing {searchable} of {tools}").format(
                searchable=number_format(self.searchable, force_grouping=True),
                tools=number_format(self.tools, force_grouping=True),
            )
        return _("Inspecting {inspected} of {tools}").format(
            inspected=number_format(self.inspected, force_grouping=True),
            tools=number_format(self.tools, force_grouping=True),
        )

    @property
    def label_of_meanings(self) -> str:
        """Return how many tools have a vector, "" if all have one or none is made."""
        if self.compared is None or self.compared >= self.tools:
            return ""
        return _("Meaning: {compared} of {tools} tools").format(
            compared=number_format(self.compared, force_grouping=True),
            tools=number_format(self.tools, force_grouping=True),
        )


def progress_of(endpoints: Collection[int] | None = None) -> Progress:
    """Return the progress of these endpoints, or of all that are live."""
    return _count(endpoints, is_needed=True) or Progress(0, 0, 0)


def _count(endpoints: Collection[int] | None, *, is_needed: bool) -> Progress | None:
    """Count; if that is not needed, only where something is pending."""
    values = {"endpoints": None if endpoints is None else list(endpoints)}
    state = index_state()
    is_needed = is_needed or _is_comparing_behind()
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNT_TOOLS.format(is_behind=_IS_BEHIND if state else "true"),
            {**values, **_values_of(state), "is_needed": is_needed},
        )
        tools, is_behind, is_uninspected = cursor.fetchone()
        if tools is None:
            return None
        unsearchable = _count_unread(cursor, values, state, tools) if is_behind else 0
        uninspected, compared, trouble = 0, None, ""
        if is_uninspected:
            cursor.execute(_COUNT_UNINSPECTED, values)
            (uninspected,) = cursor.fetchone()
        # A process that does not answer says nothing about its vectors.
        if meanings.is_compared() and (stored := meanings.read_stored_state()):
            compared_state = changes.read_state(stored.state)
            compared = max(tools - _count_unread(cursor, values, compared_state, tools), 0)
            trouble = stored.trouble
    # Between two of these statements a worker may have moved on.
    return Progress(tools, max(tools - unsearchable, 0), max(tools - uninspected, 0), compared, trouble)


def _count_unread(
    cursor: CursorWrapper, values: dict[str, Any], state: IndexState | None, tool_count: int
) -> int:
    """Return how many of the tools are not in an index of that state, None if there is no index."""
    if state is None:
        return tool_count
    # Counting reads all tools, which an index that lacks nothing does not need.
    cursor.execute(f"SELECT {_IS_BEHIND}", _values_of(state))
    if not cursor.fetchone()[0]:
        return 0
    cursor.execute(_COUNT_UNSEARCHABLE, values | _values_of(state))
    return int(cursor.fetchone()[0])


def _is_comparing_behind() -> bool:
    """Return whether a tool waits for a vector, or none can be made."""
    if not meanings.is_compared():
        return False
    stored = meanings.read_stored_state()
    if stored is None:
        return False  # a process that does not answer says nothing about its vectors
    state = changes.read_state(stored.state)
    if state is None or stored.trouble:
        return True
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_IS_BEHIND}", _values_of(state))
        return bool(cursor.fetchone()[0])


def _values_of(state: IndexState | None) -> dict[str, Any]:
    if state is None:
        return {}
    is_filled = state.filled_through is None
    return changes.values_of(state) | {"is_filled": is_filled, "filled_through": state.filled_through or 0}


class _CatalogProgress:
    """The progress of the whole catalog, counted at most every few seconds where there are many tools."""

    def __init__(self) -> None:
        self.progress, self.counted_at = Progress(0, 0, 0), 0.0

    def get(self) -> Progress:
        """Return the progress, which a large catalog counts at most every few seconds."""
        if self._is_recent(CATCHING_UP_SECONDS):
            return self.progress
        if self._is_recent(COMPLETE_SECONDS) and self.progress.is_complete:
            return self.get_pending() or self.progress
        return self._store(progress_of())

    def get_pending(self) -> Progress | None:
        """Return the progress if anything waits for the index, for a vector or for inspection."""
        if self._is_recent(CATCHING_UP_SECONDS) and not self.progress.is_complete:
            return self.progress
        progress = _count(None, is_needed=False)
        return self._store(progress) if progress else None

    def _is_recent(self, seconds: float) -> bool:
        return self.progress.tools > LARGE_CATALOG and time.monotonic() - self.counted_at < seconds

    def _store(self, progress: Progress) -> Progress:
        self.progress, self.counted_at = progress, time.monotonic()
        return progress


_catalog_progress = _CatalogProgress()
catalog_progress, pending_progress = _catalog_progress.get, _catalog_progress.get_pending

_LIVE = """
    WITH live AS (
        SELECT e.id FROM catalog_endpoint e
        JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
        WHERE e.removed_at IS NULL AND (%(endpoints)s::bigint[] IS NULL OR e.id = ANY(%(endpoints)s)))
"""
_TO_INSPECT = "r.inspected = 0 AND r.status = 'succeeded' AND (r.added > 0 OR r.changed > 0)"
# `is_behind` states whether this host's index lacks anything.
_IS_BEHIND = f"NOT %(is_filled)s OR EXISTS (SELECT FROM catalog_toolchange c WHERE {NOT_INDEXED})"
# Counting reads all tools, so it happens only where it is needed or something is pending.
_COUNT_TOOLS = f"""{_LIVE}
    SELECT CASE WHEN %(is_needed)s OR is_behind OR is_uninspected THEN (
        SELECT count(*) FROM live JOIN catalog_tool t ON t.endpoint_id = live.id AND t.status = 'active'
    ) END, is_behind, is_uninspected
    FROM (
        SELECT {{is_behind}} AS is_behind,
            EXISTS (SELECT FROM catalog_run r WHERE {_TO_INSPECT}) AS is_uninspected
    ) pending
"""  # noqa: S608 - a constant
_COUNT_UNSEARCHABLE = f"""{_LIVE}
    SELECT count(*) FROM live JOIN catalog_tool t ON t.endpoint_id = live.id AND t.status = 'active'
    WHERE NOT %(is_filled)s AND t.id > %(filled_through)s OR t.id IN (
        SELECT c.tool_id FROM catalog_toolchange c WHERE c.is_new_version AND {NOT_INDEXED})
"""  # noqa: S608 - a constant
_COUNT_UNINSPECTED = f"""{_LIVE}
    SELECT count(DISTINCT t.id) FROM live
    JOIN catalog_run r ON r.endpoint_id = live.id AND {_TO_INSPECT}
    JOIN catalog_toolversion v ON v.run_id = r.id AND v.id > r.inspected_through
    JOIN catalog_tool t ON t.id = v.tool_id AND t.status = 'active' AND v.id IN (t.current_id, t.stopped_id)
"""  # noqa: S608 - a constant
