"""Tasks delete rows in portions. Each portion is committed, so a task that ends early has kept its work."""

import time
from typing import Any

from django.db.models import QuerySet

PORTION_ROWS = 1_000
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
