"""Progress of the search index and of inspection after changes of the catalog."""

import time
from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

# A larger catalog is not counted again for each request.
LARGE_CATALOG = 20_000
CATCHING_UP_SECONDS, COMPLETE_SECONDS = 5.0, 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of active tools: all of them, those that a search finds as they are now, and the inspected ones.

    A tool is searchable when its current version is indexed, though perhaps under its vendor's former name.
    """

    tools: int
    searchable: int
    inspected: int

    @property
    def is_complete(self) -> bool:
        return self.searchable == self.inspected == self.tools


def progress_of(endpoints: Collection[int] | None = None) -> Progress:
    """Return the progress of these endpoints, or of all that are live."""
    values = {"endpoints": None if endpoints is None else list(endpoints)}
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_TOOLS, values)
        # After a large run the planner takes an empty queue for a long one, so it is counted only if needed.
        tools, is_queued, is_uninspected = cursor.fetchone()
        unsearchable = uninspected = 0
        if is_queued:
            cursor.execute(_COUNT_UNSEARCHABLE, values)
            (unsearchable,) = cursor.fetchone()
        if is_uninspected:
            cursor.execute(_COUNT_UNINSPECTED, values)
            (uninspected,) = cursor.fetchone()
    # Between two of these statements a worker may have moved on.
    return Progress(tools, max(tools - unsearchable, 0), max(tools - uninspected, 0))


def is_catching_up() -> bool:
    """Return whether anything waits for the index or for inspection. Costs two index reads."""
    with connection.cursor() as cursor:
        cursor.execute(_PENDING)
        return any(cursor.fetchone())


class _CatalogProgress:
    """The progress of the whole catalog, counted at most every few seconds where there are many tools."""

    def __init__(self) -> None:
        self.progress, self.counted_at = Progress(0, 0, 0), 0.0

    def get(self) -> Progress:
        age = time.monotonic() - self.counted_at
        if self.progress.tools > LARGE_CATALOG and (
            age < CATCHING_UP_SECONDS
            or (age < COMPLETE_SECONDS and self.progress.is_complete and not is_catching_up())
        ):
            return self.progress
        self.progress, self.counted_at = progress_of(), time.monotonic()
        return self.progress


catalog_progress = _CatalogProgress().get

_LIVE = """
    WITH live AS (
        SELECT e.id FROM catalog_endpoint e
        JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
        WHERE e.removed_at IS NULL AND (%(endpoints)s::bigint[] IS NULL OR e.id = ANY(%(endpoints)s)))
"""
_TO_INSPECT = "r.inspected = 0 AND r.status = 'succeeded' AND (r.added > 0 OR r.changed > 0)"
_ANY_PENDING = f"""
    EXISTS (SELECT FROM catalog_indexqueueentry), EXISTS (SELECT FROM catalog_run r WHERE {_TO_INSPECT})
"""  # noqa: S608 - a constant
_PENDING = f"SELECT {_ANY_PENDING}"
_COUNT_TOOLS = f"""{_LIVE}
    SELECT count(*), {_ANY_PENDING}
    FROM live JOIN catalog_tool t ON t.endpoint_id = live.id AND t.status = 'active'
"""  # noqa: S608 - a constant
_COUNT_UNSEARCHABLE = f"""{_LIVE}
    SELECT count(DISTINCT t.id) FROM live
    JOIN catalog_indexqueueentry queued ON queued.endpoint_id = live.id
    JOIN catalog_tool t ON t.id = queued.tool_id AND t.status = 'active'
    LEFT JOIN catalog_searchdocument d ON d.tool_id = t.id
    WHERE d.version_id IS DISTINCT FROM t.current_id
"""  # noqa: S608 - a constant
_COUNT_UNINSPECTED = f"""{_LIVE}
    SELECT count(DISTINCT t.id) FROM live
    JOIN catalog_run r ON r.endpoint_id = live.id AND {_TO_INSPECT}
    JOIN catalog_toolversion v ON v.run_id = r.id AND v.id > r.inspected_through
    JOIN catalog_tool t ON t.id = v.tool_id AND t.status = 'active' AND v.id IN (t.current_id, t.stopped_id)
"""  # noqa: S608 - a constant
