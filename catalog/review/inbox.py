"""The inbox of the review: waiting findings by severity, vendor and cause, in pages.

The most severe are first. Within one severity, findings about one vendor and one cause are adjacent, so that
a reviewer can decide them together.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from catalog.models import Finding, Vendor
from catalog.models.findings import FindingQuerySet, FindingState, Severity
from catalog.rules import causes
from core.compiled_queries import CompiledQuery, named_keys
from core.prepared_statements import run_prepared

PAGE_SIZE = 50
AT_ONCE = 500  # the maximum of decisions with one press of the button for all
_PARTS = ("severity", "vendor", "cause")
_RANK = {value: rank for rank, value in enumerate(reversed(Severity.values))}
_CAUSE_RANK = {cause: rank for rank, cause in enumerate(causes.CAUSES)}


class Group(NamedTuple):
    """The common properties of decisions. `vendor`: a slug. `cause`: one of `causes.CAUSES`."""

    severity: str
    vendor: str
    cause: str


@dataclass(frozen=True, slots=True)
class InboxFilter:
    """The filter of findings; "" for all."""

    state: str = FindingState.OPEN
    severity: str = ""
    vendor: str = ""
    cause: str = ""

    @property
    def is_narrowed(self) -> bool:
        """Return whether it is limited to findings that are alike, so that one decision can be about all."""
        return bool(self.vendor or self.cause)

    def includes(self, group: Group, *, but: str = "") -> bool:
        """Return whether a group matches, without the part `but` of the filter."""
        parts = ((part, getattr(self, part)) for part in _PARTS if part != but)
        return all(getattr(group, part) == value for part, value in parts if value)


class Part(NamedTuple):
    """The decisions of one endpoint, severity and code. Groups consist of parts."""

    endpoint: int
    severity: str
    code: str


@dataclass(slots=True)
class GroupSize:
    """The number of decisions in a group, the highest key of their findings, and its parts."""

    count: int = 0
    newest: int = 0
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The numbers of waiting findings by group, in the order of the list. `names`: of the vendors, by
    slug."""

    groups: dict[Group, GroupSize] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def counts(self, inbox_filter: InboxFilter, part: str) -> Counter[str]:
        """Return the numbers by values of one part of the filter, with the other parts applied."""
        counts: Counter[str] = Counter()
        for group, size in self.groups.items():
            if inbox_filter.includes(group, but=part):
                counts[getattr(group, part)] += size.count
        return counts

    def total(self, inbox_filter: InboxFilter) -> int:
        return sum(size.count for size in self._matching_sizes(inbox_filter))

    def newest(self, inbox_filter: InboxFilter) -> int:
        return max((size.newest for size in self._matching_sizes(inbox_filter)), default=0)

    def page(self, inbox_filter: InboxFilter, start: int, max_count: int) -> list[int]:
        """Return the primary keys of up to `max_count` findings of the list, from the one at `start`."""
        parts: list[tuple[Part, int]] = []
        skipped = end = 0
        for rank, size in enumerate(self._matching_sizes(inbox_filter)):
            end += size.count
            if end <= start:
                skipped = end
            elif end - size.count < start + max_count:
                parts += [(part, rank) for part in size.parts]
        columns = [list(column) for column in zip(*((*part, rank) for part, rank in parts), strict=True)]
        return [pk for (pk,) in run_prepared(_PAGE, [*columns, start - skipped, max_count])] if parts else []

    def position(self, inbox_filter: InboxFilter, item: Finding) -> int | None:
        """Return the position of a finding in the list, from 0; None if the list does not contain it."""
        before, own_group = 0, group_of(item)
        for group, size in self.groups.items():
            if group == own_group and inbox_filter.includes(group):
                columns = [list(column) for column in zip(*size.parts, strict=True)]
                ((is_there, place),) = run_prepared(_PLACE, [item.pk, item.pk, *columns])
                return before + place if is_there else None
            before += size.count if inbox_filter.includes(group) else 0
        return None

    def _matching_sizes(self, inbox_filter: InboxFilter) -> list[GroupSize]:
        return [size for group, size in self.groups.items() if inbox_filter.includes(group)]


def decisions(inbox_filter: InboxFilter) -> FindingQuerySet:
    rows = Finding.objects.filter(state=inbox_filter.state)
    is_open = inbox_filter.state == FindingState.OPEN
    rows = rows.filter(waiting_decision__isnull=False) if is_open else rows.decisions()
    if inbox_filter.severity:
        rows = rows.filter(severity=inbox_filter.severity)
    if inbox_filter.vendor:
        rows = rows.filter(endpoint__vendor__slug=inbox_filter.vendor)
    return rows.of_cause(inbox_filter.cause) if inbox_filter.cause else rows


def waiting() -> Waiting:
    groups: dict[Group, GroupSize] = {}
    names: dict[str, str] = {}
    for slug, name, endpoint, severity, code, count, newest in run_prepared(_GROUPS, []):
        names[slug] = name
        size = groups.setdefault(Group(severity, slug, causes.cause_of(code)), GroupSize())
        size.count += count
        size.newest = max(size.newest, newest)
        size.parts.append(Part(endpoint, severity, code))
    order = sorted(
        groups,
        key=lambda group: (
            _RANK[group.severity],
            names[group.vendor],
            group.vendor,
            _CAUSE_RANK[group.cause],
        ),
    )
    return Waiting({group: groups[group] for group in order}, names)


_GROUPS = """
    SELECT vendor.slug, vendor.name, part.* FROM (
        SELECT endpoint_id, severity, code, count(*), max(finding_id)
        FROM catalog_waitingdecision GROUP BY 1, 2, 3
    ) part
    JOIN catalog_endpoint endpoint ON endpoint.id = part.endpoint_id
    JOIN catalog_vendor vendor ON vendor.id = endpoint.vendor_id
"""
_PAGE = """
    SELECT decision.finding_id FROM catalog_waitingdecision decision
    JOIN unnest(%s::bigint[], %s::text[], %s::text[], %s::int[]) part (endpoint_id, severity, code, rank)
        USING (endpoint_id, severity, code)
    ORDER BY part.rank, decision.finding_id DESC OFFSET %s LIMIT %s
"""
_PLACE = """
    SELECT bool_or(decision.finding_id = %s), count(*) FILTER (WHERE decision.finding_id > %s)
    FROM catalog_waitingdecision decision
    JOIN unnest(%s::bigint[], %s::text[], %s::text[]) part (endpoint_id, severity, code)
        USING (endpoint_id, severity, code)
"""


def decided_finding_ids(inbox_filter: InboxFilter, start: int, max_count: int) -> list[int]:
    """Return the primary keys of decided findings and notes, newest first. There may be too many to group."""
    return list(
        decisions(inbox_filter).order_by("-pk").values_list("pk", flat=True)[start : start + max_count]
    )


def vendors() -> dict[str, str]:
    return dict(Vendor.objects.live().values_list("slug", "name"))


def rows(keys: Sequence[int]) -> list[Finding]:
    """Return the findings in the order of the keys, with the columns of a list."""
    rows_by_key = {row.pk: row for row in _FINDING_ROWS.rows(findings=list(keys))}
    return [rows_by_key[pk] for pk in keys if pk in rows_by_key]


_FINDING_ROWS: CompiledQuery[Finding] = CompiledQuery(
    lambda: (
        Finding.objects.filter(pk__in=named_keys("findings"))
        .select_related("tool", "endpoint__vendor")
        .only(
            *("code", "severity", "subject", "message", "state", "raised_at"),
            *("tool__name", "tool__current", "tool__stopped"),
            *("endpoint__vendor__slug", "endpoint__vendor__name"),
        )
    )
)


def group_of(row: Finding) -> Group:
    return Group(row.severity, row.endpoint.vendor.slug, causes.cause_of(row.code))
