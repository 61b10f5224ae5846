"""The report card of a vendor: promises kept and broken, availability, speed and changes.

All figures about enumeration runs cover the last 30 days, with at most the last thousand runs of each
endpoint, so that the cost does not grow with the age of a vendor.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Count, Max, OuterRef, Subquery
from django.utils.translation import gettext

import protocols
from catalog.models import Endpoint, Finding, Run, Vendor
from catalog.models.runs import RunStatus
from catalog.rules.promises import CODES, PROMISES

NOTES_SHOWN = 6

RUNS = """
SELECT count(*), count(*) FILTER (WHERE r.status = 'succeeded'), coalesce(sum(r.added), 0),
    coalesce(sum(r.changed), 0), coalesce(sum(r.withdrawn), 0), min(r.finished_at),
    percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY r.page_ms)
        FILTER (WHERE r.status = 'succeeded' AND r.page_ms IS NOT NULL)
FROM catalog_endpoint e CROSS JOIN LATERAL (
    SELECT status, added, changed, withdrawn, finished_at,
        extract(epoch FROM finished_at - started_at) * 1000 / nullif(pages, 0) AS page_ms
    FROM catalog_run WHERE endpoint_id = e.id AND trigger <> 'runtime' ORDER BY id DESC LIMIT 1000
) r
WHERE e.vendor_id = %s AND e.removed_at IS NULL AND r.finished_at >= now() - interval '30 days'
"""


@dataclass(frozen=True, slots=True)
class PromiseRecord:
    """One promise, and how often it was broken.

    is_exercised: the vendor's lists could have broken it; until then, that it is kept says nothing.
    """

    promise: str
    says: str
    breaches: int
    last_at: datetime | None
    is_exercised: bool

    @property
    def state(self) -> str:
        if self.breaches:
            return "failed"
        return "passed" if self.is_exercised else "not_tested"


@dataclass(frozen=True, slots=True)
class Oddity:
    code: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class PageTime:
    """Milliseconds for one page of the list, from asking to having it in the catalog."""

    median: int
    p95: int


@dataclass(frozen=True, slots=True)
class ReportCard:
    """The quality of an endpoint's recent enumerations. `since` is when the first of the `runs` ended;
    `rejected` and `oddities` are of the last ones.
    """

    promises: tuple[PromiseRecord, ...]
    since: datetime | None
    runs: int
    succeeded: int
    page_ms: PageTime | None
    added: int
    changed: int
    withdrawn: int
    rejected: int
    oddities: tuple[Oddity, ...]

    @property
    def passed(self) -> int:
        return sum(promise.state == "passed" for promise in self.promises)

    @property
    def availability(self) -> float | None:
        # In percent. Rounded down, so that 100 means that every run succeeded.
        return self.succeeded * 1000 // self.runs / 10 if self.runs else None


def report_card_for(vendor: Vendor) -> ReportCard:
    with connection.cursor() as cursor:
        cursor.execute(RUNS, [vendor.pk])
        runs, succeeded, added, changed, withdrawn, since, times = cursor.fetchone()
    succeeded_runs = Run.objects.of_lists().filter(endpoint=OuterRef("pk"), status=RunStatus.SUCCEEDED)
    ofs = succeeded_runs.order_by("-pk").values("pk")
    endpoints = Endpoint.objects.filter(vendor=vendor, removed_at=None).order_by()
    last_runs = endpoints.annotate(last=Subquery(ofs[:1])).values("last")
    last = list(Run.objects.filter(pk__in=last_runs).order_by().values_list("rejected", "notes"))
    notes_of_runs = [notes for _, notes in last]
    oddities: dict[str, Oddity] = {}
    for note in (note for of_run in notes_of_runs for note in of_run):
        oddity = oddities.get(note["code"])
        count = int(note["count"]) + (oddity.count if oddity else 0)
        oddities[note["code"]] = Oddity(note["code"], note["message"], count)
    return ReportCard(
        promises=_promises_of(vendor, succeeded, changed),
        since=since,
        runs=runs,
        succeeded=succeeded,
        page_ms=PageTime(*(round(time) for time in times)) if times else None,
        added=added,
        changed=changed,
        withdrawn=withdrawn,
        rejected=sum(rejected for rejected, _ in last),
        oddities=tuple(sorted(oddities.values(), key=lambda each: -each.count)[:NOTES_SHOWN]),
    )


def is_exercised(promise: str, *, list_count: int, changed_tool_count: int) -> bool:
    """Return whether lists of a vendor could have broken the promise.

    One list shows that names are unique. The others compare: two lists, or two versions of a tool.
    """
    if promise == "unique_names":
        return list_count > 0
    if promise in ("growing_versions", "additive_changes"):
        return changed_tool_count > 0
    return list_count > 1


def _promises_of(vendor: Vendor, list_count: int, changed_tool_count: int) -> tuple[PromiseRecord, ...]:
    """Return the promises of all protocols of the vendor, in the order of the page."""
    endpoints = Endpoint.objects.filter(vendor=vendor, removed_at=None)
    protocol_names = endpoints.order_by().values_list("protocol", flat=True).distinct()
    promised = frozenset[str]().union(*(protocols.get(name).promises for name in protocol_names))
    findings = Finding.objects.filter(endpoint__in=endpoints, code__in=CODES).order_by().values_list("code")
    rows = findings.annotate(count=Count("pk"), last=Max("raised_at")) if promised else ()
    breaches = {code: (count, last) for code, count, last in rows}
    promises = []
    for promise, (text, codes) in PROMISES.items():
        if promise in promised:
            breaches_of_promise = [breaches[code] for code in codes if code in breaches]
            last = max((time for _, time in breaches_of_promise), default=None)
            breach_count = sum(count for count, _ in breaches_of_promise)
            exercised = is_exercised(promise, list_count=list_count, changed_tool_count=changed_tool_count)
            promises.append(PromiseRecord(promise, gettext(text), breach_count, last, exercised))
    return tuple(promises)
