"""How a vendor has done lately: what it promised and kept, whether and how fast it answered, what it changed.

Everything about enumeration runs covers the same time: the last 30 days, of each endpoint at most the last
thousand runs, so that the card costs the same however long a vendor is known.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Count, Max, OuterRef, Subquery

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
class Kept:
    """One promise and how often it was broken, ever."""

    promise: str
    says: str
    breaches: int
    last_at: datetime | None


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
    """`since` is when the first of the `runs` ended; `rejected` and `oddities` are of the last ones."""

    promises: tuple[Kept, ...]
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
    def kept(self) -> int:
        return sum(1 for promise in self.promises if not promise.breaches)

    @property
    def availability(self) -> float | None:
        # In percent. Rounded down, because 100 is to mean that every run succeeded.
        return self.succeeded * 1000 // self.runs / 10 if self.runs else None


def of(vendor: Vendor) -> ReportCard:
    with connection.cursor() as cursor:
        cursor.execute(RUNS, [vendor.pk])
        runs, succeeded, added, changed, withdrawn, since, times = cursor.fetchone()
    succeeded_runs = Run.objects.of_lists().filter(endpoint=OuterRef("pk"), status=RunStatus.SUCCEEDED)
    ofs = succeeded_runs.order_by("-pk").values("pk")
    endpoints = Endpoint.objects.filter(vendor=vendor, removed_at=None).order_by()
    last_runs = endpoints.annotate(last=Subquery(ofs[:1])).values("last")
    last = list(Run.objects.filter(pk__in=last_runs).order_by().values_list("rejected", "notes"))
    return ReportCard(
        promises=_promises(vendor),
        since=since,
        runs=runs,
        succeeded=succeeded,
        page_ms=PageTime(*(round(time) for time in times)) if times else None,
        added=added,
        changed=changed,
        withdrawn=withdrawn,
        rejected=sum(rejected for rejected, _ in last),
        oddities=_oddities([notes for _, notes in last]),
    )


def _promises(vendor: Vendor) -> tuple[Kept, ...]:
    # What any protocol that the vendor speaks promises, in the order in which people read it.
    endpoints = Endpoint.objects.filter(vendor=vendor, removed_at=None)
    spoken = endpoints.order_by().values_list("protocol", flat=True).distinct()
    promised = frozenset[str]().union(*(protocols.get(name).promises for name in spoken))
    findings = Finding.objects.filter(endpoint__in=endpoints, code__in=CODES).order_by().values_list("code")
    rows = findings.annotate(count=Count("pk"), last=Max("raised_at")) if promised else ()
    told = {code: (count, last) for code, count, last in rows}
    kept = []
    for promise, (says, codes) in PROMISES.items():
        if promise in promised:
            found = [told[code] for code in codes if code in told]
            last = max((at for _, at in found), default=None)
            kept.append(Kept(promise, says, sum(count for count, _ in found), last))
    return tuple(kept)


def _oddities(notes_of_runs: list[list[dict[str, Any]]]) -> tuple[Oddity, ...]:
    found: dict[str, Oddity] = {}
    for note in (note for of_run in notes_of_runs for note in of_run):
        known = found.get(note["code"])
        count = int(note["count"]) + (known.count if known else 0)
        found[note["code"]] = Oddity(note["code"], note["message"], count)
    return tuple(sorted(found.values(), key=lambda each: -each.count)[:NOTES_SHOWN])
