"""Delete runs and calls that are older than the configured retention.

Both tables grow constantly. A run that changed the catalog stays, because versions, withdrawals and findings
refer to it. docs/operations.md, "Retention", lists all tables.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from catalog.models import Call, Endpoint, Finding, Run, ToolVersion, Withdrawal
from catalog.models.calls import CallStatus
from catalog.models.runs import ACTIVE, WITH_CHANGES, RunStatus
from catalog.notifications.models import SendingState
from core import portions
from core.metrics import Counter

# The newest runs of each endpoint stay, however old they are.
RUNS_PER_ENDPOINT = 50
DELETED = Counter(
    "pegboard_old_rows_deleted_total", "Rows that were deleted because of their age.", ("table",)
)


def deletable_runs() -> QuerySet[Run]:
    """Return finished runs without changes that are not among the newest and that no row refers to.

    The newest run that read a whole list stays, because reports are made from it.
    """
    newer = Run.objects.filter(endpoint=OuterRef("endpoint"), pk__gt=OuterRef("pk")).order_by()
    newer_success = newer.of_lists().filter(status=RunStatus.SUCCEEDED)
    references = (
        ToolVersion.objects.filter(run=OuterRef("pk")),
        Withdrawal.objects.filter(Q(run=OuterRef("pk")) | Q(returned_run=OuterRef("pk"))),
        Finding.objects.filter(run=OuterRef("pk")),
        Endpoint.objects.filter(held_run=OuterRef("pk")),
    )
    rows = Run.objects.exclude(status__in=ACTIVE).exclude(WITH_CHANGES)
    for rows_that_refer in references:
        rows = rows.filter(~Exists(rows_that_refer))
    return rows.filter(
        ~Q(status=RunStatus.SUCCEEDED) | Exists(newer_success), Exists(newer[RUNS_PER_ENDPOINT - 1 :])
    )


def deletable_calls() -> QuerySet[Call]:
    """Return finished calls whose callers have been notified."""
    rows = Call.objects.filter(status=CallStatus.FINISHED)
    return rows.exclude(callback__state=SendingState.WAITING)


def delete_old(*, ends: float) -> bool:
    """Delete old runs and calls in portions, each committed. Return whether some may be left.

    Begin no other portion after `ends` (time.monotonic). Safe to run twice, also at the same time.
    """
    are_left = False
    for name, rows, before in _list_limits():
        deleted, is_left = portions.delete_older(rows, age="queued_at", before=before, ends=ends)
        if deleted:
            DELETED.add(name, by=deleted)
        are_left |= is_left
    return are_left


def overdue_tables(grace: timedelta) -> list[str]:
    """Return "runs" and "calls" where rows are left that should have been deleted longer ago than `grace`."""
    overdue = []
    for name, rows, limit in _list_limits():
        before = limit - grace
        # Ends the search, as in `portions.delete_older`.
        young = rows.model._default_manager.filter(queued_at__gte=before).order_by("pk").values("pk")[:1]
        old = rows.filter(queued_at__lt=before).filter(Q(pk__lt=Subquery(young)) | ~Exists(young))
        if old.exists():
            overdue.append(name)
    return overdue


def _list_limits() -> Iterator[tuple[str, QuerySet[Any], datetime]]:
    now = timezone.now()
    for name, rows, days in (
        ("runs", deletable_runs(), settings.KEEP_RUNS_DAYS),
        ("calls", deletable_calls(), settings.KEEP_CALLS_DAYS),
    ):
        if days:
            yield name, rows, now - timedelta(days=days)
