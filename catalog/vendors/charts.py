"""Charts of a vendor's endpoints: the last syncs, their time, and changes and breaches per week.

Each function runs one query, whose rows are bounded by the number of endpoints, syncs or weeks that it shows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import connection
from django.utils import dateformat, timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.models import Endpoint, Finding, Vendor
from catalog.models.runs import HELD_CODES
from catalog.rules.promises import PROMISES
from catalog.vendors.report_card import PromiseRecord
from core import charts
from core.charts import Chart

SYNCS, WEEKS = charts.STRIP_SLOTS, 12
RUNS_READ = 400
LEAST_POINTS = 2
WEEK = timedelta(days=7)

_SYNCS = """
SELECT e.id, r.tone, r.finished_at, r.ms, r.id AS run FROM unnest(%s::bigint[]) e(id) CROSS JOIN LATERAL (
    SELECT id, finished_at, extract(epoch FROM finished_at - started_at)::float * 1000 AS ms,
        CASE WHEN status = 'succeeded' THEN '' WHEN error_code = ANY(%s) THEN 'warn' ELSE 'bad' END AS tone
    FROM catalog_run
    WHERE endpoint_id = e.id AND trigger <> 'runtime' AND status IN ('succeeded', 'failed')
        AND finished_at IS NOT NULL
    ORDER BY id DESC LIMIT %s
) r ORDER BY r.id
"""
# A list shows 60 syncs of each endpoint, and formatting their times would take longer than the rest of it.
_STRIPS = f"""
SELECT id, array_agg(tone ORDER BY run),
    (array_agg(finished_at ORDER BY run DESC) FILTER (WHERE tone = 'bad'))[1]
FROM ({_SYNCS}) sync GROUP BY id
"""  # noqa: S608 - constant text
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
    with connection.cursor() as cursor:
        cursor.execute(_STRIPS, [[endpoint.pk for endpoint in endpoints], list(HELD_CODES), SYNCS])
        return {pk: _build_strip(tones, last_failure) for pk, tones, last_failure in cursor.fetchall()}


def syncs_of_endpoint(endpoint: Endpoint) -> list[Chart]:
    """Return the last syncs of the endpoint as ticks, and the time that each took."""
    with connection.cursor() as cursor:
        cursor.execute(_SYNCS, [[endpoint.pk], list(HELD_CODES), SYNCS])
        rows = cursor.fetchall()
    if len(rows) < LEAST_POINTS:
        return []
    # The line has gaps at failed syncs, which end early.
    times = [None if tone else milliseconds for _pk, tone, _moment, milliseconds, _run in rows]
    measured = sorted(time for time in times if time is not None)
    latency = Chart(title=_("Sync duration"), summary=_("Shown after two successful syncs."))
    if len(measured) >= LEAST_POINTS:
        latency = Chart(
            title=_("Sync duration"),
            summary=_("Median {median}, longest {longest}.").format(
                median=_format_duration(measured[len(measured) // 2]), longest=_format_duration(measured[-1])
            ),
            lines=charts.line(times),
            first=_format_date(rows[0][2]),
            last=_format_date(rows[-1][2]),
            columns=(_("Ended"), _("Duration")),
            rows=[
                (dateformat.format(row[2], "j M Y, H:i"), "—" if time is None else _format_duration(time))
                for row, time in zip(reversed(rows), reversed(times), strict=True)
            ],
        )
    failures = [moment for _pk, tone, moment, *_others in rows if tone == "bad"]
    words = {"": _("Succeeded"), "warn": _("Held"), "bad": _("Failed")}
    strip = replace(
        _build_strip([tone for _pk, tone, *_others in rows], failures[-1] if failures else None),
        first=_format_date(rows[0][2]),
        last=_format_date(rows[-1][2]),
        columns=(_("Ended"), _("Result")),
        rows=[(dateformat.format(row[2], "j M Y, H:i"), words[row[1]]) for row in reversed(rows)],
    )
    return [strip, latency]


def changes_per_week(vendor: Vendor) -> Chart:
    """Return how many tools changed or were withdrawn in each of the last weeks."""
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES, [WEEKS, now.date(), RUNS_READ, vendor.pk])
        rows = cursor.fetchall()
    weeks = _weeks_of(vendor, now)
    run_counts = Counter[int]()
    for endpoint, _week, run_count, *_numbers in rows:
        run_counts[endpoint] += run_count
    # The oldest week of an endpoint with more runs was not read completely.
    for endpoint in (endpoint for endpoint, count in run_counts.items() if count >= RUNS_READ):
        weeks = min(weeks, max(row[1] for row in rows if row[0] == endpoint))
    totals = [(0, 0, 0)] * weeks
    for _endpoint, week, _run_count, *numbers in rows:
        if 0 <= week < weeks:
            totals[week] = tuple(map(sum, zip(totals[week], numbers, strict=True)))  # type: ignore[assignment]
    totals.reverse()
    title = _("Changes per week")
    if weeks < LEAST_POINTS:
        return Chart(title=title, summary=_("Shown from the second week on."))
    labels = _labels_of_weeks(weeks, now)
    added, changed, withdrawn = (sum(column) for column in zip(*totals, strict=True))
    marks, _lines = charts.bars([[(row[1], ""), (row[2], "warn")] for row in totals], labels)
    return Chart(
        title=title,
        summary=_("{changed} changed, {withdrawn} withdrawn and {added} new tools in {weeks} weeks.").format(
            changed=number_format(changed, force_grouping=True),
            withdrawn=number_format(withdrawn, force_grouping=True),
            added=number_format(added, force_grouping=True),
            weeks=weeks,
        ),
        marks=marks,
        first=labels[0],
        last=_("this week"),
        columns=(_("Week from"), _("Changed"), _("Withdrawn"), _("New")),
        rows=[
            (label, *(number_format(row[place], force_grouping=True) for place in (1, 2, 0)))
            for label, row in zip(labels, totals, strict=True)
        ],
    )


def breaches_per_week(vendor: Vendor, promises: Iterable[PromiseRecord]) -> Chart | None:
    """Return how many of the promises were broken in each of the last weeks. None without promises."""
    now, promise_names = timezone.now(), [promise.promise for promise in promises]
    weeks, title = _weeks_of(vendor, now), _("Failed reliability checks per week")
    if not promise_names:
        return None
    if weeks < LEAST_POINTS:
        return Chart(title=title, summary=_("Shown from the second week on."))
    promise_of = {
        code: name for name, (_sentence, codes) in PROMISES.items() if name in promise_names for code in codes
    }
    endpoints = Endpoint.objects.filter(vendor=vendor, removed_at=None)
    findings = Finding.objects.filter(
        endpoint__in=endpoints,
        code__in=promise_of,
        raised_at__date__gt=now.date() - weeks * WEEK,
        raised_at__lte=now,
    )
    broken: list[Counter[str]] = [Counter() for _week in range(weeks)]
    # The time is cut to days in the database, so that the rows are bounded by weeks and codes.
    for code, day in findings.order_by().values_list("code", "raised_at__date").distinct():
        broken[weeks - 1 - (now.date() - day) // WEEK][promise_of[code]] += 1
    labels = _labels_of_weeks(weeks, now)
    clean = sum(not names for names in broken)
    marks, _lines = charts.bars([[(len(names), "bad")] for names in broken], labels, limit=len(promise_names))
    return Chart(
        title=title,
        summary=_("All checks passed in {clean} of {weeks} weeks.").format(clean=clean, weeks=weeks),
        marks=marks,
        first=labels[0],
        last=_("this week"),
        columns=(_("Week from"), _("Failed"), _("Checks")),
        rows=[
            (label, str(len(names)), str(len(promise_names)))
            for label, names in zip(labels, broken, strict=True)
        ],
    )


def _build_strip(tones: Sequence[str], last_failure: datetime | None) -> Chart:
    """Return the picture of syncs, without the table of their times."""
    if last_failure:
        summary = _("{succeeded} of {sync_count} syncs succeeded; the last failure was on {date}.")
    else:
        summary = _("{succeeded} of {sync_count} syncs succeeded.")
    date = _format_date(last_failure) if last_failure else ""
    return Chart(
        title=_("Last syncs"),
        summary=summary.format(succeeded=tones.count(""), sync_count=len(tones), date=date),
        marks=charts.strip(tones),
        is_strip=True,
    )


def _format_duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{number_format(round(milliseconds))} ms"
    return f"{number_format(round(milliseconds / 1000, 1), 1, force_grouping=True)} s"


def _format_date(moment: datetime) -> str:
    return dateformat.format(moment, "j M, H:i")


def _weeks_of(vendor: Vendor, now: datetime) -> int:
    return min(WEEKS, (now.date() - vendor.created_at.date()) // WEEK + 1)


def _labels_of_weeks(weeks: int, now: datetime) -> list[str]:
    return [
        dateformat.format(now - (weeks - index) * WEEK + timedelta(days=1), "j M") for index in range(weeks)
    ]
