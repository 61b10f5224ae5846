from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.models import Finding
from catalog.models.findings import FindingQuerySet, Severity
from catalog.review import decisions, inbox
from catalog.review.entries import entry_of
from catalog.review.inbox import InboxFilter
from catalog.tools import versions
from catalog.views import review_list
from catalog.views.asked import number, numbers
from core.errors import DomainError
from people.models import Role
from people.permissions import person, requires

REFUSALS_SHOWN = 3
DECISIONS: tuple[decisions.Decision, ...] = ("accept", "block")


@requires(write=Role.ADMIN)
def review(request: HttpRequest) -> HttpResponse:
    """The whole page, or only the detail when a row of the list is chosen with htmx."""
    question = review_list.inbox_filter_of(request.GET)
    if request.method == "POST" and "undo" in request.POST:
        return redirect(f"{request.path}{_take_back(request, question)}")
    if request.method == "POST":
        _apply_decision(request, question)
        is_one = any(decision in request.POST for decision in DECISIONS)
        next_id = request.POST.get("next", "") if is_one else ""
        return redirect(
            f"{request.path}{review_list.address(question, request.GET.get('page'), item=next_id)}"
        )
    context = review_list.context(request.GET, question)
    finding = context["chosen"]
    context["entry"] = entry_of(finding) if finding else None
    is_detail = "HX-Request" in request.headers and request.headers.get("HX-Target") == "detail"
    return render(request, "catalog/_review_detail.html" if is_detail else "catalog/review.html", context)


def _apply_decision(request: HttpRequest, inbox_filter: InboxFilter) -> None:
    data = request.POST
    decision, rows, is_bulk = _parse_decision(data, inbox_filter)
    # Findings of high severity are accepted one by one.
    high = rows.filter(severity=Severity.HIGH) if is_bulk and decision == "accept" else rows.none()
    remaining = high.count()
    rows = rows.exclude(pk__in=high.values("pk")) if remaining else rows
    try:
        count, entries = decisions.decide_all(
            rows,
            actor=person(request),
            decision=decision,
            note_of=lambda row: data.get("note" if is_bulk else f"note-{row.pk}", ""),
        )
    except DomainError as error:
        messages.error(request, error.message)
        return
    if remaining:
        message = ngettext(
            "One finding of high severity was left. Read the text, and accept each one with its own button.",
            "{count} findings of high severity were left. Read the text, and accept each one with its own "
            "button.",
            remaining,
        )
        messages.warning(request, message.format(count=number_format(remaining, force_grouping=True)))
    if not count and not remaining:
        messages.error(request, _("Nothing was selected."))
    if not count:
        return
    if decision == "accept":
        message = ngettext(
            "One finding was accepted. You can change decisions under “Accepted”.",
            "{count} findings were accepted. You can change decisions under “Accepted”.",
            count,
        )
    else:
        message = ngettext(
            "One finding was blocked. You can change decisions under “Blocked”.",
            "{count} findings were blocked. You can change decisions under “Blocked”.",
            count,
        )
    message = message.format(count=number_format(count, force_grouping=True))
    if is_bulk and count == inbox.AT_ONCE:
        message = f"{message} {_('Press again for the next {count}.').format(count=count)}"
    # `_messages.html` offers to take these decisions back.
    undo = ",".join(str(entry.pk) for entry in entries)
    messages.success(request, message, extra_tags=undo)


def _parse_decision(
    data: QueryDict, question: InboxFilter
) -> tuple[decisions.Decision, FindingQuerySet, bool]:
    """Return the decision, the findings that it is about, and whether it is about several at once.

    question: the filter of the list. The findings are one of the list, the selected ones, or all.
    """
    for decision in DECISIONS:
        if decision in data:
            return decision, Finding.objects.filter(pk__in=numbers(data.getlist(decision))), False
    everything = data.get("everything")
    decision = "block" if "block" in (everything, data.get("decision")) else "accept"
    if everything and question.is_narrowed:
        return decision, inbox.decisions(question).filter(pk__lte=number(data.get("newest", ""))), True
    return decision, Finding.objects.filter(pk__in=numbers(data.getlist("finding"))), True


def _take_back(request: HttpRequest, inbox_filter: InboxFilter) -> str:
    """Take back the decisions that the page has named, and return the address of the list."""
    actor = person(request)
    findings, refusals = decisions.take_back_all(
        numbers(request.POST["undo"].split(",")[: inbox.AT_ONCE]), actor=actor
    )
    for message in refusals[:REFUSALS_SHOWN]:
        messages.error(request, message)
    if not findings:
        if not refusals:
            messages.error(request, _("There is no decision to take back."))
        return review_list.address(inbox_filter, None)
    sentence = ngettext(
        "The decision was taken back.", "{count} decisions were taken back.", len(findings)
    ).format(count=number_format(len(findings), force_grouping=True))
    about = {(row.tool_id, row.version_id) for row in findings}
    users = versions.pinned({row.tool_id for row in findings})
    agents = sum(count for tool, version, count in users if (tool, version) in about)
    if agents:
        stays = ngettext(
            "{count} agent that pins the version keeps it.",
            "{count} agents that pin the versions keep it.",
            agents,
        )
        sentence = f"{sentence} {stays.format(count=number_format(agents, force_grouping=True))}"
    messages.success(request, sentence)
    return review_list.address(inbox_filter, None, item=str(findings[0].pk))
