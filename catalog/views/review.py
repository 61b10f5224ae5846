from collections.abc import Sequence
from dataclasses import dataclass, field

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from catalog.models import Finding, OtherAnswer, ToolVersion
from catalog.models.findings import HELD, FindingQuerySet, Severity
from catalog.review import decisions, inbox
from catalog.review.inbox import Question
from catalog.rules import diff
from catalog.rules.inspection.texts import by_place
from catalog.tools import versions
from catalog.views import review_list
from catalog.views.asked import number, numbers
from core.errors import DomainError
from core.query_deadline import long_transaction
from people.models import AuditEntry, Role, User
from people.permissions import person, requires

PINNED_SHOWN = 3
REFUSALS_SHOWN = 3
DECISIONS: tuple[decisions.Decision, ...] = ("accept", "block")
# Findings about the conduct of a vendor, not about a text.
ABOUT_CHANGES = {
    *(HELD, "DRIFT", "BREAKING", "CHANGED", "VERSION_BACK", "SAME_NAME", "NEW_TOOL_ID", "NEW_PARAMETER_ID"),
    "REFUSES_VALID",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A text that a model reads, before and after. None if it did not or does not exist."""

    where: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Pinned:
    """Another version that agents have pinned, and what `Entry.version` would change for them."""

    version: ToolVersion
    agents: int
    changes: tuple[diff.Change, ...]
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Entry:
    """All findings about the same bytes of a tool, which one decision settles.

    `version` is compared with `before`, or with the version for another caller of the vendor, and with the
    versions
    that agents pin. `agents` pin `version` itself.
    """

    finding: Finding
    others: list[Finding]
    version: ToolVersion | None = None
    before: ToolVersion | None = None
    shown_elsewhere: OtherAnswer | None = None
    changes: tuple[diff.Change, ...] = ()
    lines: list[Line] = field(default_factory=list)
    pinned: list[Pinned] = field(default_factory=list)
    agents: int = 0

    @property
    def is_alarming(self) -> bool:
        # The text itself is what to look at.
        return any(finding.code not in ABOUT_CHANGES for finding in (self.finding, *self.others))

    @property
    def is_compared(self) -> bool:
        return bool(self.before or self.shown_elsewhere)

    @property
    def is_outdated(self) -> bool:
        # The vendor lists another version by now, so an acceptance moves nothing.
        tool = self.finding.tool
        return self.version is not None and self.version.pk not in (tool.current_id, tool.stopped_id)


@requires(write=Role.ADMIN)
def review(request: HttpRequest) -> HttpResponse:
    """The whole page, or only the detail when a row of the list is chosen with htmx."""
    question = review_list.question(request.GET)
    if request.method == "POST" and "undo" in request.POST:
        return redirect(f"{request.path}{_take_back(request, question)}")
    if request.method == "POST":
        _decide(request, question)
        is_one = any(decision in request.POST for decision in DECISIONS)
        next_id = request.POST.get("next", "") if is_one else ""
        return redirect(
            f"{request.path}{review_list.address(question, request.GET.get('page'), item=next_id)}"
        )
    context = review_list.context(request.GET, question)
    finding = context["chosen"]
    context["entry"] = _entry(finding) if finding else None
    is_detail = "HX-Request" in request.headers and request.headers.get("HX-Target") == "detail"
    return render(request, "catalog/_review_detail.html" if is_detail else "catalog/review.html", context)


def _decide(request: HttpRequest, asked: Question) -> None:
    data = request.POST
    decision, rows, is_bulk = _parse_decision(data, asked)
    # Findings of high severity are accepted one by one.
    high = rows.filter(severity=Severity.HIGH) if is_bulk and decision == "accept" else rows.none()
    remaining = high.count()
    rows = rows.exclude(pk__in=high.values("pk")) if remaining else rows
    try:
        count, entries = _resolve(rows, person(request), decision, data, is_bulk=is_bulk)
    except DomainError as error:
        messages.error(request, error.message)
        return
    if remaining:
        what = (
            "One finding of high severity was"
            if remaining == 1
            else f"{remaining:,} findings of high severity were"
        )
        messages.warning(request, f"{what} left. Read the text, and accept each one with its own button.")
    if not count and not remaining:
        messages.error(request, "Nothing was selected.")
    if not count:
        return
    did = {"accept": "accepted", "block": "blocked"}[decision]
    what = "One finding was" if count == 1 else f"{count:,} findings were"
    more = f" Press again for the next {inbox.AT_ONCE}." if is_bulk and count == inbox.AT_ONCE else ""
    # `_messages.html` offers to take these decisions back.
    undo = ",".join(str(entry.pk) for entry in entries)
    says = f"{what} {did}. You can change decisions under “{did.capitalize()}”.{more}"
    messages.success(request, says, extra_tags=undo)


def _parse_decision(data: QueryDict, question: Question) -> tuple[decisions.Decision, FindingQuerySet, bool]:
    # One finding, all selected ones, or all of the list.
    for decision in DECISIONS:
        if decision in data:
            return decision, Finding.objects.filter(pk__in=numbers(data.getlist(decision))), False
    everything = data.get("everything")
    decision = "block" if "block" in (everything, data.get("decision")) else "accept"
    if everything and question.is_narrowed:
        return decision, inbox.decisions(question).filter(pk__lte=number(data.get("newest", ""))), True
    return decision, Finding.objects.filter(pk__in=numbers(data.getlist("finding"))), True


def _take_back(request: HttpRequest, asked: Question) -> str:
    """Take back the decisions that the page has named, and return the address of the list."""
    actor = person(request)
    findings, refusals = _reopen(numbers(request.POST["undo"].split(",")[: inbox.AT_ONCE]), actor)
    for message in refusals[:REFUSALS_SHOWN]:
        messages.error(request, message)
    if not findings:
        if not refusals:
            messages.error(request, "There is no decision to take back.")
        return review_list.address(asked, None)
    decided = "The decision was" if len(findings) == 1 else f"{len(findings):,} decisions were"
    about = {(row.tool_id, row.version_id) for row in findings}
    users = versions.pinned({row.tool_id for row in findings})
    agents = sum(count for tool, version, count in users if (tool, version) in about)
    they = "agent that pins the version keeps" if agents == 1 else "agents that pin the versions keep"
    stays = f" {agents:,} {they} it." if agents else ""
    messages.success(request, f"{decided} taken back.{stays}")
    return review_list.address(asked, None, item=str(findings[0].pk))


@long_transaction()
def _reopen(entries: Sequence[int], actor: User) -> tuple[list[Finding], list[str]]:
    # In the order in which a run locks tools, to avoid deadlocks.
    rows = AuditEntry.objects.filter(pk__in=entries, kind=decisions.KIND).order_by("pk")
    tools = dict(Finding.objects.filter(pk__in=[row.object_id for row in rows]).values_list("pk", "tool_id"))
    findings, refusals = [], []
    remaining = [row for row in rows if int(row.object_id) in tools]
    for row in sorted(remaining, key=lambda row: (tools[int(row.object_id)], row.pk)):
        try:
            findings.append(decisions.take_back(row, actor=actor))
        except DomainError as error:
            refusals.append(error.message)
    return findings, refusals


@long_transaction()
def _resolve(
    rows: FindingQuerySet, actor: User, decision: decisions.Decision, given: QueryDict, *, is_bulk: bool
) -> tuple[int, list[AuditEntry]]:
    # In the order in which a run locks tools, to avoid deadlocks.
    findings = list(rows.order_by("tool", "pk")[: inbox.AT_ONCE])
    entries = []
    for row in findings:
        note = given.get("note" if is_bulk else f"note-{row.pk}", "")
        entries.append(decisions.decide(row, actor=actor, decision=decision, note=note)[1])
    return len(findings), [entry for entry in entries if entry]


def _entry(finding: Finding) -> Entry:
    same = Finding.objects.filter(tool=finding.tool_id, subject=finding.subject, state=finding.state)
    # A decision is taken by the button of the worst of them, because it covers what is less severe.
    worst, *others = sorted(
        same.select_related("resolved_by"),
        key=lambda row: (Severity.values.index(row.severity), row.code != HELD, row.pk),
        reverse=True,
    )
    worst.tool, worst.endpoint = finding.tool, finding.endpoint
    same_bytes = ToolVersion.objects.filter(tool=worst.tool_id, digest=worst.subject).order_by("ordinal")
    version_id = worst.version_id or same_bytes.values_list("pk", flat=True).last()
    if not version_id:
        return Entry(worst, others)
    # Findings that name no earlier version, such as those about a text, use the version's predecessor.
    before_id = worst.against_id or versions.predecessors([version_id]).get(version_id)
    users = {version: agents for _, version, agents in versions.pinned({worst.tool_id})}
    full_versions = ToolVersion.objects.in_bulk({version_id, *users} | ({before_id} if before_id else set()))
    version = full_versions[version_id]
    elsewhere = OtherAnswer.objects.filter(finding=finding).first()
    before = None if elsewhere or before_id is None else full_versions.get(before_id)
    differing = sorted(
        (full_versions[pk] for pk in users if pk != version_id and (before is None or pk != before.pk)),
        key=lambda pinned_version: (pinned_version.label_key, pinned_version.ordinal),
        reverse=True,
    )
    pinned = [
        Pinned(pinned_version, users[pinned_version.pk], *_differing(pinned_version, version))
        for pinned_version in differing[:PINNED_SHOWN]
    ]
    differences = _differing(elsewhere or before, version)
    return Entry(worst, others, version, before, elsewhere, *differences, pinned, users.get(version_id, 0))


def _differing(
    other: ToolVersion | OtherAnswer | None, version: ToolVersion
) -> tuple[tuple[diff.Change, ...], list[Line]]:
    old, new = other.decoded() if other else None, version.decoded()
    changes = diff.compare(old, new).changes if old else ()
    before, after = by_place(old) if old else {}, by_place(new)
    # All texts, if there is nothing to compare with.
    places = [place for place in dict.fromkeys([*after, *before]) if before.get(place) != after.get(place)]
    return changes, [Line(place, before.get(place), after.get(place)) for place in places]
