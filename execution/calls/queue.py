"""The queue of calls is in PostgreSQL. A message only wakes a worker, which claims the oldest due call.

A wake that is lost costs time and no call, and one that comes late costs one read (core/wakes.py). `sweep`
ends calls that no worker claimed in time or whose worker died, and sends the wakes that are missing. How a
row is written: execution/calls/requesting.py. How a call is made: execution/calls/invocation.py.
docs/decisions/0076-queue-of-calls.md has the reasons.
"""

import time
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, DateTimeField, DurationField, ExpressionWrapper, F, Min, QuerySet, Value
from django.db.models.functions import Now
from django.utils import timezone

import protocols
from catalog.models import Call
from catalog.models.calls import CallStatus, Mode
from core import wakes
from core.errors import DomainError
from core.postgresql.base import give_back
from execution.calls import events, results
from execution.calls.lease import WORKER_LEASE, extend_lease
from protocols.calls import outcomes

TASK = "catalog.tasks.perform_call"
# Workers could not execute more calls in time.
MAX_WAITING = 2_000
# A run past its deadline is polled once more and then cancelled.
TAKEN_UP_WITHIN = timedelta(minutes=3)
LOOK_EVERY = 5.0  # seconds


class CallsWaitError(DomainError):
    """The call was not accepted, because it would not start in time."""

    retry_after = 10

    def __init__(self, seconds: float) -> None:
        message = (
            f"Calls have been waiting for a worker for {seconds:.0f} seconds, so this call would not start "
            f"in time. It was not accepted. Try again in {self.retry_after} seconds."
        )
        super().__init__("calls_wait", message, status=429)


def would_start_late(
    owner: tuple[int | None, int | None], oldest: dict[tuple[int | None, int | None], float], lasts: float
) -> bool:
    """Return whether a new call that may wait for `lasts` seconds should be refused.

    owner: the API key and the user of the new call. oldest: the waiting time in seconds of each owner's
    oldest call.
    Calls of one owner start in order. An owner without a waiting call waits at most as long as the owner with
    the shortest wait, because workers claim fairly.
    """
    expected = oldest.get(owner, min(oldest.values(), default=0.0))
    return expected > lasts / 2


def refuse_late(call: Call, lasts: timedelta) -> None:
    """Raise CallsWaitError if a worker is not expected to claim this new call within `lasts`."""
    now, total = timezone.now(), 0
    oldest: dict[tuple[int | None, int | None], float] = {}
    waiting = Call.objects.filter(status=CallStatus.QUEUED).order_by().values_list("api_key", "requested_by")
    for api_key, user, queued_at, count in waiting.annotate(Min("queued_at"), Count("pk")):
        oldest[api_key, user] = (now - queued_at).total_seconds()
        total += count
    owner = (call.api_key_id, call.requested_by_id)
    if total >= MAX_WAITING or would_start_late(owner, oldest, lasts.total_seconds()):
        raise CallsWaitError(max(oldest.values()))


def wake_worker(call_id: int) -> bool:
    """Wake a worker. Return whether the broker could be reached."""
    return wakes.wake_worker(TASK, call_id, queue=settings.CALLS_QUEUE)


def claim_next() -> Call | None:
    """Claim the due call that is next in turn, in one statement; None if no call is due.

    First come calls of the API key or user for whom workers make the fewest calls, then the oldest. A run at
    a vendor that no worker looks after is due, too. No other call is claimed twice.
    """
    sql, values = _claim_statement()
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        claimed = cursor.fetchone()
    if claimed is None:
        return None
    call_id, status = claimed
    call = Call.objects.select_related(
        *("version__tool__endpoint__vendor", "version__tool__endpoint__credential"),
        *("continues", "thread", "activity"),
    ).get(pk=call_id)
    call.is_taken_up = status == CallStatus.RUNNING
    if call.mode == Mode.WAIT:
        # Nothing moves its lease on, so it gets its whole lease at once.
        extend_lease(call)
    return call


@cache
def _claim_statement() -> tuple[str, list[Any]]:
    columns = ("pk", "status", "gives_up_at", "queued_at", "api_key", "requested_by")
    vendor_runs = kept_by_vendors(Call.objects.filter(gives_up_at__lt=Now())).order_by().values_list(*columns)
    runs_sql, run_values = vendor_runs.query.sql_with_params()
    return _CLAIM.format(kept=runs_sql, owner=_OWNER), [*run_values, WORKER_LEASE]


# As in the index `call_by_owner`: an API key, or a user without one.
_OWNER = "coalesce(token_id, requested_by_id * -1, 0)"
# `waiting` finds the oldest call of each owner with one index read, however many calls wait. `chosen` locks a
# row and checks it again as it is then, so that two workers never claim the same one.
_CLAIM = """
    WITH RECURSIVE waiting (owner, queued_at) AS (
        (SELECT {owner}, queued_at FROM catalog_call WHERE status = 'queued'
            ORDER BY {owner}, queued_at, id LIMIT 1)
        UNION ALL
        SELECT next.* FROM waiting CROSS JOIN LATERAL (
            SELECT {owner}, queued_at FROM catalog_call WHERE status = 'queued' AND {owner} > waiting.owner
            ORDER BY {owner}, queued_at, id LIMIT 1) next
    ), kept_rows (id, status, gives_up_at, queued_at, token_id, requested_by_id) AS ({kept}
    ), kept AS MATERIALIZED (
        SELECT id, status, gives_up_at, queued_at, {owner} AS owner FROM kept_rows
    ), busy AS (
        SELECT {owner} AS owner, count(*) AS calls FROM catalog_call
        WHERE status = 'running' AND sent_at IS NOT NULL AND gives_up_at > statement_timestamp()
        GROUP BY 1
    ), owners AS MATERIALIZED (
        SELECT owner FROM (SELECT owner, min(queued_at) AS oldest FROM (
            SELECT owner, queued_at FROM waiting UNION ALL SELECT owner, queued_at FROM kept) due
            GROUP BY owner) due LEFT JOIN busy USING (owner)
        ORDER BY coalesce(busy.calls, 0), oldest, owner
    ), chosen AS MATERIALIZED (
        SELECT due.* FROM owners CROSS JOIN LATERAL (
            SELECT * FROM (SELECT id, status, gives_up_at, queued_at FROM catalog_call
                WHERE status = 'queued' AND {owner} = owners.owner AND gives_up_at > statement_timestamp()
                ORDER BY {owner}, queued_at, id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) queued
            UNION ALL
            SELECT * FROM (SELECT call.id, call.status, call.gives_up_at, call.queued_at
                FROM catalog_call call JOIN kept ON kept.id = call.id AND kept.status = call.status
                    AND kept.gives_up_at = call.gives_up_at
                WHERE kept.owner = owners.owner
                ORDER BY call.queued_at, call.id LIMIT 1 FOR NO KEY UPDATE OF call SKIP LOCKED) kept_run
            ORDER BY queued_at, id LIMIT 1) due
        LIMIT 1
    )
    UPDATE catalog_call SET status = 'running', started_at = coalesce(started_at, statement_timestamp()),
        sent_at = statement_timestamp(), gives_up_at = statement_timestamp() + %s
    FROM chosen WHERE catalog_call.id = chosen.id AND catalog_call.status = chosen.status
        AND catalog_call.gives_up_at = chosen.gives_up_at
    RETURNING catalog_call.id, chosen.status
"""


def kept_by_vendors(calls: QuerySet[Call]) -> QuerySet[Call]:
    """Filter the calls that run at vendors which keep their runs, until their time is over."""
    protocol_names = [protocol.name for protocol in protocols.PROTOCOLS if protocol.keeps_runs]
    duration = ExpressionWrapper(
        F("deadline_seconds") * Value(timedelta(seconds=1)), output_field=DurationField()
    )
    ends = ExpressionWrapper(F("started_at") + duration, output_field=DateTimeField())
    running = calls.filter(
        status=CallStatus.RUNNING, continues=None, tool__endpoint__protocol__in=protocol_names
    )
    running = running.filter(activity=None, parent=None)
    return running.exclude(mode=Mode.WAIT).alias(ends=ends).filter(ends__gt=Now() - TAKEN_UP_WITHIN)


def sweep() -> None:
    """End calls that are past their time, and send the wakes that are missing for the due ones."""
    end_late(Call.objects.all())
    queued = Call.objects.filter(status=CallStatus.QUEUED, gives_up_at__gt=Now())
    vendor_runs = kept_by_vendors(Call.objects.filter(gives_up_at__lt=Now()))
    due = [
        pk
        for calls in (vendor_runs, queued)
        for pk in calls.order_by("pk").values_list("pk", flat=True)[: wakes.MAX_WAKES]
    ]
    wakes.send_missing(TASK, due, queue=settings.CALLS_QUEUE)


def end_late(calls: QuerySet[Call]) -> None:
    """End, of these, the calls that no worker claimed in time, and those whose worker died."""
    late = calls.filter(gives_up_at__lt=Now())
    vendor_runs = kept_by_vendors(late)
    unsent = outcomes.failed("unavailable", "NO_WORKER", results.NO_WORKER)
    late.filter(status=CallStatus.QUEUED).update(**results.ending(replace(unsent, can_retry=True)))
    without_worker = late.filter(status=CallStatus.RUNNING).exclude(pk__in=vendor_runs.values("pk"))
    without_worker.update(**results.ending(outcomes.failed("unknown", "WORKER_LOST", results.WORKER_LOST)))


def current_call(call: Call) -> Call:
    """Return the current state of a call. A call that is past its time is ended, without waiting for
    `sweep`."""
    if call.is_active:
        end_late(Call.objects.filter(pk=call.pk))
        call.refresh_from_db()
    return call


def wait_for(call: Call, seconds: float) -> Call:
    """Return the call when it has ended, or its state after `seconds`. Reads the row regularly in case an
    event is lost."""
    ends = time.monotonic() + seconds
    newest = events.last(call.key)
    call.refresh_from_db(fields=["status"])
    last_id = newest.id if newest else events.FIRST
    while call.is_active and (seconds_left := ends - time.monotonic()) > 0:
        give_back()
        new_events = events.events_after(call.key, last_id, min(seconds_left, LOOK_EVERY))
        last_id = new_events[-1].id if new_events else last_id
        if not new_events or any(event.kind == events.ENDED for event in new_events):
            call.refresh_from_db(fields=["status"])
    call.refresh_from_db()
    return current_call(call)
