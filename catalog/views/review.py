from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict

from django.contrib import messages
from django.db import transaction
from django.db.models import Case, OuterRef, QuerySet, Subquery, Value, When
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from catalog import diff, findings
from catalog.models import Finding, ToolVersion
from catalog.models.findings import FindingState
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
Entry = tuple[Finding, ToolVersion | None, tuple[diff.Change, ...]]


@requires(write=Role.ADMIN)
def review(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        _decide(request)
        return redirect(request.get_full_path())
    state = request.GET.get("state", "")
    state = state if state in FindingState.values else FindingState.OPEN
    rows = _with_predecessor(Finding.objects.filter(state=state))
    page = Keyset(rows, "-id").page(request.GET.get("cursor"), PAGE_SIZE)
    context = {"page": page, "entries": _compared(page.rows), "state": state, "states": FindingState.choices}
    return render(request, "catalog/review.html", context)


def _decide(request: HttpRequest) -> None:
    decision, chosen = _asked(request.POST)
    rows = Finding.objects.filter(pk__in=numbers(chosen))
    try:
        count = _resolve(rows, person(request), decision, request.POST)
    except DomainError as error:
        messages.error(request, error.message)
        return
    if not count:
        messages.error(request, "Nothing was ticked, so nothing was decided.")
        return
    did = {"accept": "accepted", "block": "blocked"}[decision]
    what = "One finding was" if count == 1 else f"{count} findings were"
    messages.success(request, f"{what} {did}. You can change your mind under “{did.capitalize()}”.")


def _asked(given: QueryDict) -> tuple[findings.Decision, list[str]]:
    """One finding by its own button, or all that are ticked by the bar below."""
    if "accept" in given:
        return "accept", given.getlist("accept")
    if "block" in given:
        return "block", given.getlist("block")
    return ("block" if given.get("decision") == "block" else "accept"), given.getlist("finding")


@transaction.atomic
def _resolve(rows: Iterable[Finding], actor: User, decision: findings.Decision, given: QueryDict) -> int:
    resolved = [
        findings.resolve(row, actor=actor, decision=decision, note=given.get(f"note-{row.pk}", ""))
        for row in rows
    ]
    return len(resolved)


def _with_predecessor(rows: QuerySet[Finding]) -> "QuerySet[ComparedFinding]":
    """Each with the version it is compared with: the last one under the same label, else the last one."""
    same_label = Case(When(label=OuterRef("version__label"), then=Value(1)), default=Value(0))
    earlier = (
        ToolVersion.objects.filter(tool=OuterRef("tool"), ordinal__lt=OuterRef("version__ordinal"))
        .annotate(same_label=same_label)
        .order_by("-same_label", "-ordinal")
    )
    rows = rows.select_related("tool", "version", "endpoint__vendor", "resolved_by")
    return rows.annotate(before=Subquery(earlier.values("pk")[:1]))


def _compared(rows: "list[ComparedFinding]") -> list[Entry]:
    earlier = ToolVersion.objects.in_bulk([row.before for row in rows if row.before])
    return [_entry(row, earlier.get(row.before)) for row in rows]


def _entry(row: Finding, before: ToolVersion | None) -> Entry:
    if before is None or row.version is None:
        return row, None, ()
    return row, before, diff.compare(before.decoded(), row.version.decoded()).changes
