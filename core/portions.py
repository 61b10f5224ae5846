"""Tasks delete rows in portions. Each portion is committed, so a task that ends early has kept its work."""

import time
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

PORTION_ROWS = 1_000
# Rows that others refer to, so that each takes further statements.
SMALL_PORTION_ROWS = 300
# After so many seconds a task begins no other portion.
SECONDS = 60.0
# After so many a task of portions is ended: time for the portion that was begun last. The hard limit is 390.
TASK_LIMIT = 240


def delete(*queries: QuerySet[Any]) -> bool:
    """Delete the rows of one query after the other. Return whether some may be left when it ends."""
    ends = time.monotonic() + SECONDS
    for rows in queries:
        while pks := list(rows.values_list("pk", flat=True)[:PORTION_ROWS]):
            rows.filter(pk__in=pks).delete()
            if time.monotonic() > ends:
                return True
    return False


def delete_older(rows: QuerySet[Any], *, age: str, before: datetime, ends: float) -> tuple[int, bool]:
    """Delete the rows of the query that are older than `before`, in the order of their primary keys.

    age: the field with the time of a row. Rows get their primary keys in that order, so the first younger row
    ends the search, and young rows are not read however many there are.
    Begin no other portion after `ends` (time.monotonic). Return the number of rows that were deleted, without
    those that went with them, and whether some may be left.
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
