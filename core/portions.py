"""Delete rows in portions. Each portion is committed, so a task that ends early loses no work."""

import time
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

PORTION_ROWS = 1_000
# For rows with foreign keys to them, where each deletion needs further statements.
SMALL_PORTION_ROWS = 300
# A task starts no new portion after this many seconds.
SECONDS = 60.0
# Soft limit of such a task, in seconds: it leaves time for the last portion. The hard limit is 390.
TASK_LIMIT = 240


def delete(*queries: QuerySet[Any]) -> bool:
    """Delete the rows of each query in turn. Return whether rows may remain."""
    ends = time.monotonic() + SECONDS
    for rows in queries:
        while pks := list(rows.values_list("pk", flat=True)[:PORTION_ROWS]):
            rows.filter(pk__in=pks).delete()
            if time.monotonic() > ends:
                return True
    return False


def delete_older(rows: QuerySet[Any], *, age: str, before: datetime, ends: float) -> tuple[int, bool]:
    """Delete the rows of the query that are older than `before`, in the order of their primary keys.

    age: the field with the time of a row. Primary keys grow with that time, so the first younger row ends the
    search, and younger rows are not read.
    ends: no portion starts after this moment (time.monotonic).
    Return the number of deleted rows, without cascades, and whether rows may remain.
    """
    label = rows.model._meta.label
    table = rows.model._default_manager.order_by("pk").values_list("pk", age)
    deleted, last = 0, 0
    while portion := list(table.filter(pk__gt=last)[:SMALL_PORTION_ROWS]):
        last, newest = portion[-1]
        old = [pk for pk, moment in portion if moment < before]
        deleted += rows.filter(pk__in=old).delete()[1].get(label, 0)
        if newest >= before:
            return deleted, False
        if time.monotonic() > ends:
            return deleted, True
    return deleted, False
