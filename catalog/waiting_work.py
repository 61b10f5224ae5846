"""Measures how long the oldest item of each kind of work waits for a worker, beside the allowed time.

`/readyz`, `doctor`, metrics and the administrators' home page report it. None reports success while work
waits longer than its kind allows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection

from catalog.enumeration import slow_vendors
from catalog.search import changes
from catalog.search.index import index_state


@dataclass(frozen=True, slots=True)
class WorkKind:
    """A kind of work: its name in `/readyz` and metrics, and the allowed waiting time in seconds."""

    name: str
    label: str
    may_wait: float


KINDS = (
    WorkKind("calls", "Calls of tools", 60),
    WorkKind("runs", "Syncs", 300),
    # Longer, because few processes read slow vendors, and each run may take minutes.
    WorkKind("slow_runs", "Syncs of slow vendors", 7_200),
    WorkKind("inspection", "Inspection of new versions", 600),
    WorkKind("index", "Search index", 600),
    WorkKind("notifications", "Notifications", 600),
    WorkKind("grants", "Authorizations of users", 300),
)


@dataclass(frozen=True, slots=True)
class LateWork:
    """Work that has waited longer than its kind may."""

    kind: WorkKind
    seconds: float

    @property
    def waited(self) -> str:
        """Return how long, in whole minutes."""
        minutes = round(self.seconds / 60)
        return "1 minute" if minutes == 1 else f"{minutes:,} minutes"


def oldest_seconds() -> dict[str, float]:
    """Return the seconds by name of the kind, in one query; 0 where nothing waits."""
    # A host without an index, as one of workers only, does not wait for one.
    state = index_state()
    values: dict[str, Any] = {"slow_codes": list(slow_vendors.WAITED), "sends_mail": settings.MAIL_IS_SET_UP}
    values |= changes.values_of(state) if state else {}
    with connection.cursor() as cursor:
        cursor.execute(_WAITS.format(not_indexed=changes.NOT_INDEXED if state else "false"), values)
        seconds = cursor.fetchone()
    waits = zip(KINDS, seconds, strict=True)
    return {kind.name: round(max(0.0, float(wait or 0)), 1) for kind, wait in waits}


def find_late(seconds: Mapping[str, float]) -> list[LateWork]:
    """Return the work of these kinds that has waited longer than it may."""
    return [LateWork(kind, seconds[kind.name]) for kind in KINDS if seconds[kind.name] > kind.may_wait]


# Runs are slow as `slow_vendors.IS_SLOW` has it. A webhook sends its deliveries in order, and `next_at` of an
# idle one is long ago.
_WAITS = """
WITH queued AS MATERIALIZED (
    SELECT run.queued_at, run.put_aside OR endpoint.error_code = ANY(%(slow_codes)s) AS is_slow
    FROM catalog_run run JOIN catalog_endpoint endpoint ON endpoint.id = run.endpoint_id
    WHERE run.status = 'queued'
), oldest (calls, runs, slow_runs, inspection, index, notifications, grants) AS (SELECT
    (SELECT min(queued_at) FROM catalog_call WHERE status = 'queued'),
    (SELECT min(queued_at) FROM queued WHERE NOT is_slow),
    (SELECT min(queued_at) FROM queued WHERE is_slow),
    (SELECT min(finished_at) FROM catalog_run
        WHERE status = 'succeeded' AND (added > 0 OR changed > 0) AND inspected = 0),
    (SELECT min(c.changed_at) FROM catalog_toolchange c WHERE {not_indexed}),
    least(
        (SELECT min(due_at) FROM notifications_notice WHERE settled_at IS NULL AND due_at <= now()),
        (SELECT min(next_at) FROM notifications_mail
            WHERE %(sends_mail)s AND state = 'waiting' AND next_at <= now()),
        (SELECT min(greatest(webhook.next_at, delivery.created_at))
            FROM notifications_webhook webhook CROSS JOIN LATERAL (
                SELECT created_at FROM notifications_delivery
                WHERE webhook_id = webhook.id AND state = 'waiting' ORDER BY created_at LIMIT 1) delivery
            WHERE webhook.removed_at IS NULL AND NOT webhook.is_paused AND webhook.next_at <= now()),
        (SELECT min(greatest(callback.next_at, call.finished_at))
            FROM notifications_callback callback JOIN catalog_call call ON call.id = callback.call_id
            WHERE callback.state = 'waiting' AND callback.next_at <= now() AND call.status = 'finished')),
    (SELECT min(next_check_at) FROM catalog_usergrant WHERE state = 'pending' AND next_check_at <= now())
)
SELECT extract(epoch FROM now() - calls), extract(epoch FROM now() - runs),
    extract(epoch FROM now() - slow_runs), extract(epoch FROM now() - inspection),
    extract(epoch FROM now() - index), extract(epoch FROM now() - notifications),
    extract(epoch FROM now() - grants)
FROM oldest
"""
