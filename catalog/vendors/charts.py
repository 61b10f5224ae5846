"""Charts of a vendor's endpoints: the last syncs, their time, and changes and breaches per week.

Each function runs one query, whose rows are bounded by the number of endpoints, syncs or weeks that it shows.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import connection
from django.utils import timezone

from catalog.models import Endpoint, Finding, Vendor
from catalog.models.runs import HELD_CODES
from catalog.rules.promises import PROMISES
from catalog.vendors.report_card import Kept
from core import charts
from core.charts import Chart

SYNCS, WEEKS = charts.STRIP_SLOTS, 12
RUNS_READ = 400
LEAST_POINTS = 2
WEEK = timedelta(days=7)

_SYNCS = """
SELECT e.id, r.tone, r.finished_at, r.ms FROM unnest(%s::bigint[]) e(id) CROSS JOIN LATERAL (
    SELECT id, finished_at, extract(epoch FROM finished_at - started_at)::float * 1000 AS ms,
        CASE WHEN status = 'succeeded' THEN '' WHEN error_code = ANY(%s) THEN 'warn' ELSE 'bad' END AS tone
    FROM catalog_run
    WHERE endpoint_id = e.id AND trigger <> 'runtime' AND status IN ('succeeded', 'failed')
        AND finished_at IS NOT NULL
    ORDER BY id DESC LIMIT %s
) r ORDER BY r.id
"""
# Older runs are counted in one more week, so that a full page of runs is recognized.
_CHANGES = """
SELECT r.endpoint_id, least(%s, (%s - r.finished_at::date) / 7) AS week,
    count(*), sum(r.added), sum(r.changed), sum(r.withdrawn)
FROM catalog_endpoint e CROSS JOIN LATERAL (
    SELECT endpoint_id, finished_at, added, changed, withdrawn FROM catalog_run
    WHERE endpoint_id = e.id AND (added > 0 OR changed > 0 OR withdrawn > 0 OR returned > 0)
    ORDER BY id DESC LIMIT %s
) r
WHERE e.vendor_id = %s AND e.removed_at IS NULL AND r.finished_at IS NOT NULL GROUP BY 1, 2
"""


def sync_strips(endpoints: Iterable[Endpoint]) -> dict[int, Chart]:
    """Return the last syncs of each endpoint as ticks. Endpoints without a finished sync are left out."""
    strips: defaultdict[int, list[tuple[str, datetime]]] = defaultdict(list)
    for pk, tone, finished_at, _ in _syncs([endpoint.pk for endpoint in endpoints]):
        strips[pk].append((tone, finished_at))
    return {pk: _strip(syncs) for pk, syncs in strips.items()}


def syncs_of_endpoint(endpoint: Endpoint) -> list[Chart]:
    """Return the last syncs of the endpoint as ticks, and the time that each took."""
    rows = _syncs([endpoint.pk])
    if len(rows) < LEAST_POINTS:
        return []
    # The line has gaps at failed syncs, which end early.
    times = [None if tone else milliseconds for _, tone, _, milliseconds in rows]
    measured = sorted(time for time in times if time is not None)
    latency = Chart(title="Time of a sync", summary="Shown after two successful syncs.")
    if len(measured) >= LEAST_POINTS:
        latency = Chart(
            title="Time of a sync",
            summary=f"Median {_duration(measured[len(measured) // 2])}, longest {_duration(measured[-1])}.",
            lines=charts.line(times),
            first=f"{rows[0][2]:%-d %b, %H:%M}",
            last=f"{rows[-1][2]:%-d %b, %H:%M}",
            columns=("Ended", "Time"),
            rows=[
                (f"{row[2]:%-d %b %Y, %H:%M}", "—" if time is None else _duration(time))
                for row, time in zip(reversed(rows), reversed(times), strict=True)
            ],
        )
    return [_strip([(tone, moment) for _, tone, moment, _ in rows]), latency]


def changes_per_week(vendor: Vendor) -> Chart:
    """Return how many tools changed or were withdrawn in each of the last weeks."""
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES, [WEEKS, now.date(), RUNS_READ, vendor.pk])
        rows = cursor.fetchall()
    weeks = _weeks_of(vendor, now)
    run_counts = Counter[int]()
    for endpoint, _, run_count, *_ in rows:
        run_counts[endpoint] += run_count
    # The oldest week of an endpoint with more runs was not read completely.
    for endpoint in (endpoint for endpoint, count in run_counts.items() if count >= RUNS_READ):
        weeks = min(weeks, max(row[1] for row in rows if row[0] == endpoint))
    totals = [(0, 0, 0)] * weeks
    for _, week, _, *numbers in rows:
        if 0 <= week < weeks:
            totals[week] = tuple(map(sum, zip(totals[week], numbers, strict=True)))  # type: ignore[assignment]
    totals.reverse()
    title = "Changes per week"
    if weeks < LEAST_POINTS:
        return Chart(title=title, summary="Shown from the second week on.")
    labels = _labels_of_weeks(weeks, now)
    added, changed, withdrawn = (sum(column) for column in zip(*totals, strict=True))
    marks, _ = charts.bars([[(row[1], ""), (row[2], "warn")] for row in totals], labels)
    return Chart(
        title=title,
        summary=f"{changed:,} changed, {withdrawn:,} withdrawn and {added:,} new tools in {weeks} weeks.",
        marks=marks,
        first=labels[0],
        last="this week",
        columns=("Week from", "Changed", "Withdrawn", "New"),
        rows=[
            (label, f"{row[1]:,}", f"{row[2]:,}", f"{row[0]:,}")
            for label, row in zip(labels, totals, strict=True)
        ],
    )


def breaches_per_week(vendor: Vendor, promises: Iterable[Kept]) -> Chart | None:
    """Return how many of the promises were broken in each of the last weeks. None without promises."""
    now, promise_names = timezone.now(), [promise.promise for promise in promises]
    weeks, title = _weeks_of(vendor, now), "Broken promises per week"
    if not promise_names:
        return None
    if weeks < LEAST_POINTS:
        return Chart(title=title, summary="Shown from the second week on.")
    promise_of = {
        code: name for name, (_, codes) in PROMISES.items() if name in promise_names for code in codes
    }
    endpoints = Endpoint.objects.filter(vendor=vendor, removed_at=None)
    findings = Finding.objects.filter(
        endpoint__in=endpoints,
        code__in=promise_of,
        raised_at__date__gt=now.date() - weeks * WEEK,
        raised_at__lte=now,
    )
    broken: list[Counter[str]] = [Counter() for _ in range(weeks)]
    # The time is cut to days in the database, so that the rows are bounded by weeks and codes.
    for code, day in findings.order_by().values_list("code", "raised_at__date").distinct():
        broken[weeks - 1 - (now.date() - day) // WEEK][promise_of[code]] += 1
    labels = _labels_of_weeks(weeks, now)
    clean = sum(not names for names in broken)
    marks, _ = charts.bars([[(len(names), "bad")] for names in broken], labels, limit=len(promise_names))
    return Chart(
        title=title,
        summary=f"No breach was found in {clean} of {weeks} weeks.",
        marks=marks,
        first=labels[0],
        last="this week",
        columns=("Week from", "Broken", "Promises"),
        rows=[
            (label, str(len(names)), str(len(promise_names)))
            for label, names in zip(labels, broken, strict=True)
        ],
    )


def _syncs(pks: list[int]) -> list[tuple[int, str, datetime, float | None]]:
    with connection.cursor() as cursor:
        cursor.execute(_SYNCS, [pks, list(HELD_CODES), SYNCS])
        return list(cursor.fetchall())


def _strip(syncs: list[tuple[str, datetime]]) -> Chart:
    succeeded = sum(not tone for tone, _ in syncs)
    failures = [moment for tone, moment in syncs if tone == "bad"]
    summary = f"{succeeded} of {len(syncs)} syncs succeeded"
    words = {"": "Succeeded", "warn": "Held", "bad": "Failed"}
    return Chart(
        title="Last syncs",
        summary=f"{summary}; the last failure was on {failures[-1]:%-d %b, %H:%M}."
        if failures
        else f"{summary}.",
        marks=charts.strip([tone for tone, _ in syncs]),
        is_strip=True,
        first=f"{syncs[0][1]:%-d %b, %H:%M}",
        last=f"{syncs[-1][1]:%-d %b, %H:%M}",
        columns=("Ended", "Result"),
        rows=[(f"{moment:%-d %b %Y, %H:%M}", words[tone]) for tone, moment in reversed(syncs)],
    )


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:,.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:,.1f} s"


def _weeks_of(vendor: Vendor, now: datetime) -> int:
    return min(WEEKS, (now.date() - vendor.created_at.date()) // WEEK + 1)


def _labels_of_weeks(weeks: int, now: datetime) -> list[str]:
    return [f"{now - (weeks - index) * WEEK + timedelta(days=1):%-d %b}" for index in range(weeks)]
