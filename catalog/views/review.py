from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from django.contrib import messages
from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from catalog import diff, findings
from catalog.inspection.alarms import SEVERITIES
from catalog.inspection.texts import by_place
from catalog.models import Finding, ToolVersion
from catalog.models.findings import HELD, FindingState, Severity
from catalog.views.asked import numbers
from people.errors import DomainError
from people.keyset import Keyset
from people.models import Role, User
from people.permissions import person, requires

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    class Before(TypedDict):
        before: Any

    ComparedFinding = WithAnnotations[Finding, Before]

PAGE_SIZE = 20
# Findings about what a vendor did rather than about what a text says.
ABOUT_CHANGES = {HELD, "DRIFT", "BREAKING", "VERSION_BACK"}


@dataclass(frozen=True, slots=True)
class Line:
    """A text that a model reads, as it was and as it is; None where there was or is none."""

    where: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """Everything that waits for one decision: what was found about the same bytes of a tool."""

    finding: Finding
    others: list[Finding]
    before: ToolVersion | None
    changes: tuple[diff.Change, ...]
    lines: list[Line]

    @property
    def is_alarming(self) -> bool:
        """The text itself is what to look at."""
        return any(each.code not in ABOUT_CHANGES for each in (self.finding, *self.others))

    @property
    def is_outdated(self) -> bool:
        """The vendor lists another version by now, so an acceptance moves nothing."""
        version = self.finding.version_id
        return version is not None and version not in (
            self.finding.tool.current_id,
            self.finding.tool.stopped_id,
        )


@requires(write=Role.ADMIN)
def review(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        _decide(request)
        return redirect(request.get_full_path())
    state, severity = request.GET.get("state", ""), request.GET.get("severity", "")
    state = state if state in FindingState.values else FindingState.OPEN
    rows = Finding.objects.filter(state=state).decisions()
    if severity in Severity.values:
        rows = rows.filter(Exists(Finding.objects.together().filter(severity=severity)))
    page = Keyset(_with_predecessor(rows), "-id").page(request.GET.get("cursor"), PAGE_SIZE)
    context = {
        "page": page,
        "entries": _entries(page.rows),
        "state": state,
        "states": FindingState.choices,
        "severity": severity,
    }
    return render(request, "catalog/review.html", context)


def _decide(request: HttpRequest) -> None:
    decision, chosen, is_bulk = _asked(request.POST)
    rows = Finding.objects.filter(pk__in=numbers(chosen))
    # What is severe is accepted by somebody who has looked at it, one by one.
    severe = rows.filter(severity=Severity.HIGH) if is_bulk and decision == "accept" else rows.none()
    left = severe.count()
    try:
        count = _resolve(rows.exclude(pk__in=severe.values("pk")), person(request), decision, request.POST)
    except DomainError as error:
        messages.error(request, error.message)
        return
    if left:
        what = "One severe finding was" if left == 1 else f"{left} severe findings were"
        messages.warning(request, f"{what} left: read the text and accept each one by its own button.")
    if not count and not left:
        messages.error(request, "Nothing was ticked, so nothing was decided.")
    if not count:
        return
    did = {"accept": "accepted", "block": "blocked"}[decision]
    what = "One finding was" if count == 1 else f"{count} findings were"
    messages.success(request, f"{what} {did}. You can change your mind under “{did.capitalize()}”.")


def _asked(given: QueryDict) -> tuple[findings.Decision, list[str], bool]:
    """One finding by its own button, or all that are ticked by the bar below."""
    if "accept" in given:
        return "accept", given.getlist("accept"), False
    if "block" in given:
        return "block", given.getlist("block"), False
    return ("block" if given.get("decision") == "block" else "accept"), given.getlist("finding"), True


@transaction.atomic
def _resolve(rows: Iterable[Finding], actor: User, decision: findings.Decision, given: QueryDict) -> int:
    resolved = [
        findings.resolve(row, actor=actor, decision=decision, note=given.get(f"note-{row.pk}", ""))
        for row in rows
    ]
    return len(resolved)


def _with_predecessor(rows: QuerySet[Finding]) -> "QuerySet[ComparedFinding]":
    """Each with the version it is compared with.

    For a version that is kept out that is the one in effect; else the last one under the same label,
    else the last one.
    """
    same_label = Case(When(label=OuterRef("version__label"), then=Value(1)), default=Value(0))
    earlier = (
        ToolVersion.objects.filter(tool=OuterRef("tool"), ordinal__lt=OuterRef("version__ordinal"))
        .annotate(same_label=same_label)
        .order_by("-same_label", "-ordinal")
    )
    is_kept_out = Q(tool__stopped=F("version")) & ~Q(tool__current=F("version"))
    rows = rows.select_related("tool", "version", "endpoint__vendor", "resolved_by")
    return rows.annotate(
        before=Case(When(is_kept_out, then=F("tool__current")), default=Subquery(earlier.values("pk")[:1]))
    )


def _entries(rows: "list[ComparedFinding]") -> list[Entry]:
    earlier = ToolVersion.objects.in_bulk([row.before for row in rows if row.before])
    about = Finding.objects.filter(tool__in=[row.tool_id for row in rows]).select_related("resolved_by")
    by_bytes: dict[tuple[int, str, str], list[Finding]] = {}
    for each in about.filter(subject__in=[row.subject for row in rows]):
        by_bytes.setdefault((each.tool_id, each.subject, each.state), []).append(each)
    return [
        _entry(row, by_bytes[row.tool_id, row.subject, row.state], earlier.get(row.before)) for row in rows
    ]


def _entry(row: Finding, together: list[Finding], before: ToolVersion | None) -> Entry:
    """A decision is taken by the button of the worst of them, because it covers what is less severe."""
    together.sort(key=lambda each: (SEVERITIES.index(each.severity), each.code == HELD), reverse=True)
    worst, *others = together
    worst.tool, worst.version, worst.endpoint = row.tool, row.version, row.endpoint
    if row.version is None:
        return Entry(worst, others, None, (), [])
    old, new = before and before.decoded(), row.version.decoded()
    changes = diff.compare(old, new).changes if old else ()
    return Entry(worst, others, before, changes, _lines(by_place(old) if old else {}, by_place(new)))


def _lines(old: dict[str, str], new: dict[str, str]) -> list[Line]:
    """What differs, or everything when there is nothing to compare with."""
    places = dict.fromkeys([*new, *old])
    lines = [Line(place, old.get(place), new.get(place)) for place in places]
    return [line for line in lines if line.old != line.new]
