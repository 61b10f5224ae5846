"""The review as an inbox: what waits, grouped by severity, vendor and cause, a page at a time.

The most severe come first on every surface. Within one severity, findings about one vendor and one cause
stand together, so that a reviewer can read and decide them in one go.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from catalog.models import Finding, Vendor
from catalog.models.findings import FindingQuerySet, FindingState, Severity
from catalog.rules import causes
from core.compiled_queries import CompiledQuery, given_keys

PAGE_SIZE = 50
AT_ONCE = 500  # decisions that one press about everything takes; another press takes the next
_PARTS = ("severity", "vendor", "cause")
_RANK = {value: rank for rank, value in enumerate(reversed(Severity.values))}
_CAUSE_RANK = {cause: rank for rank, cause in enumerate(causes.CAUSES)}


class Group(NamedTuple):
    """What decisions have in common; `vendor` is a slug, `cause` one of `causes.CAUSES`."""

    severity: str
    vendor: str
    cause: str


@dataclass(frozen=True, slots=True)
class Question:
    """Which findings are asked for; "" is all."""

    state: str = FindingState.OPEN
    severity: str = ""
    vendor: str = ""
    cause: str = ""

    @property
    def is_narrowed(self) -> bool:
        """To findings that are alike, so that one decision can be about all of them."""
        return bool(self.vendor or self.cause)

    def takes(self, group: Group, *, but: str = "") -> bool:
        """Whether a group is asked for, without regard to the part `but` of the question."""
        parts = ((part, getattr(self, part)) for part in _PARTS if part != but)
        return all(getattr(group, part) == value for part, value in parts if value)


@dataclass(frozen=True, slots=True)
class Waiting:
    """All that waits, in the order of the list: each group with the keys of its findings.

    `names` of the vendors are by their slugs.
    """

    groups: dict[Group, list[int]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def keys(self, asked: Question) -> list[int]:
        return [pk for group, keys in self.groups.items() if asked.takes(group) for pk in keys]

    def counts(self, asked: Question, part: str) -> Counter[str]:
        """By the values of one part of the question, as the other parts narrow it."""
        found: Counter[str] = Counter()
        for group, keys in self.groups.items():
            if asked.takes(group, but=part):
                found[getattr(group, part)] += len(keys)
        return found


def decisions(asked: Question) -> FindingQuerySet:
    rows = Finding.objects.filter(state=asked.state).decisions()
    if asked.severity:
        rows = rows.filter(severity=asked.severity)
    if asked.vendor:
        rows = rows.filter(endpoint__vendor__slug=asked.vendor)
    return rows.of_cause(asked.cause) if asked.cause else rows


def waiting() -> Waiting:
    # In one query, whose rows are small: counting, grouping and sorting thousands takes milliseconds.
    rows = sorted(_waiting_rows().rows(), reverse=True)
    names = {slug: name for *_, slug, name in rows}
    found: dict[Group, list[int]] = {}
    for pk, severity, code, slug, _ in rows:
        found.setdefault(Group(severity, slug, causes.cause_of(code)), []).append(pk)
    order = sorted(
        found,
        key=lambda each: (_RANK[each.severity], names[each.vendor], each.vendor, _CAUSE_RANK[each.cause]),
    )
    return Waiting({group: found[group] for group in order}, names)


@cache
def _waiting_rows() -> CompiledQuery[tuple[int, str, str, str, str]]:
    # As `decisions` has them. Sorting finds the heaviest of thousands sooner than comparing each with others.
    waiting = Finding.objects.filter(state=FindingState.OPEN).weighed()
    heaviest = waiting.order_by("tool_id", "subject", *waiting.query.order_by).distinct("tool_id", "subject")
    vendor = "endpoint__vendor__slug", "endpoint__vendor__name"
    return CompiledQuery(heaviest.values_list("pk", "severity", "code", *vendor))


def decided(asked: Question, start: int, most: int) -> list[int]:
    """Keys of what was decided or noted, newest first: of those there may be too many to group."""
    return list(decisions(asked).order_by("-pk").values_list("pk", flat=True)[start : start + most])


def vendors() -> dict[str, str]:
    return dict(Vendor.objects.live().values_list("slug", "name"))


def rows(keys: Sequence[int]) -> list[Finding]:
    """In the order of the keys, with the columns that a list shows."""
    found = {row.pk: row for row in _rows().rows(findings=list(keys))}
    return [found[pk] for pk in keys if pk in found]


@cache
def _rows() -> CompiledQuery[Finding]:
    finding = ("code", "severity", "subject", "message", "state", "raised_at")
    tool = ("tool__name", "tool__current", "tool__stopped")
    vendor = ("endpoint__vendor__slug", "endpoint__vendor__name")
    rows = Finding.objects.filter(pk__in=given_keys("findings")).select_related("tool", "endpoint__vendor")
    return CompiledQuery(rows.only(*finding, *tool, *vendor))


def group_of(row: Finding) -> Group:
    return Group(row.severity, row.endpoint.vendor.slug, causes.cause_of(row.code))
