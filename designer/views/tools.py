from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
from django.contrib import messages
from django.db import transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import escape
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _

from catalog.models import Activity, Finding, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.review import holds
from catalog.rules import diff
from catalog.rules.sensitive_values import has_mask, members_of
from catalog.search.progress import progress_of
from catalog.templatetags.display import shown_within, text_within
from catalog.tools import definitions, effective_texts, sensitive_values, versions
from catalog.views.asked import number
from core.errors import DomainError
from designer.agents import agents, vendor_usage
from designer.forms.pins import PinForm, version_words
from designer.forms.words_form import WordsForm
from designer.models import Agent, Pin
from designer.overviews import charts
from designer.pins import pins, tunings
from designer.signatures.words import less_cautious
from designer.upgrades import pending_work, upgrades
from designer.views import last_agent
from designer.views.tool_language import translation_context
from designer.views.tool_search import question_before
from designer.views.tunings import restore_words, settle_member
from execution.activities import kinds
from execution.activities.callees import CalleeReference
from people.audit import edit_conflicts
from people.models import Role
from people.permissions import person, requires, requires_post

VERSIONS_SHOWN = 100
FINDINGS_SHOWN = 50
ACTIVITIES_SHOWN = 10
CHANGES_SHOWN = 5
# Bytes of a vendor's document on a page.
MAX_RAW_BYTES = 18_000
# Bytes on a page for the members of one side that can be marked, and of the markup of one.
MAX_SENSITIVE_BYTES, SENSITIVE_BYTES = 5_000, 220


@requires(Role.VIEWER)
def tool(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    # A single agent is preselected; among several, the one that the user edits.
    visible_agents = list(Agent.objects.active().visible_to(person(request)).only("slug"))
    initial = {
        "agent": visible_agents[0].slug
        if len(visible_agents) == 1
        else last_agent.last_agent_slug(request, visible_agents)
    }
    return _render_overview(request, row, PinForm(tool=row, actor=person(request), initial=initial))


def _render_overview(request: HttpRequest, row: Tool, form: PinForm) -> HttpResponse:
    signature = row.current.decoded() if row.current else None
    head = header(row)
    visible_rows = head["shown"]
    context = {
        "signature": signature,
        "inputs": effective_texts.inputs(signature, visible_rows) if signature and visible_rows else [],
        "outputs": effective_texts.outputs(signature, visible_rows) if signature and visible_rows else [],
        "facts": row.endpoint.build_protocol().facts(signature) if signature else (),
        "form": form,
        "why_not_pinned": _("The vendor no longer offers this tool."),
        "question_before": question_before(request),
        **head,
    }
    if head["is_own"]:  # its texts are written here, in the language of their readers
        activity_name = definitions.parts_of(row).activity
        answers = {None: _("chosen in the environments of each agent"), "": _("simulated by the model")}
        # Each with the word for its kind.
        rows = Activity.objects.shared().filter(current__interface__tool=row).select_related("current")
        context |= {
            "why_not_pinned": _("It was withdrawn."),
            "answers": answers.get(activity_name, f"“{activity_name}”"),
            "history": definitions.history(row)[:CHANGES_SHOWN],
            "activities": [
                (item, kinds.get(item.current.kind).label) for item in rows[:ACTIVITIES_SHOWN] if item.current
            ],
            "interface": CalleeReference(tool=row.pk, ordinal=row.current.ordinal) if row.current else "",
        }
    else:
        context |= translation_context(
            request, signature, row.texts.language if hasattr(row, "texts") else ""
        )
    return render(request, "designer/tool.html", context)


@requires(Role.VIEWER)
def tool_peek(request: HttpRequest, pk: int) -> HttpResponse:
    """The essentials of a tool, for the panel beside the list of tools."""
    if not request.headers.get("HX-Request"):
        return redirect("tool", pk)
    head = header(find_tool(pk))
    signature = head["shown"]
    parts = [
        (_("Inputs"), signature.inputs if signature else (), _("This tool takes no input.")),
        (_("Outputs"), signature.outputs if signature else (), _("The vendor declares no outputs.")),
    ]
    return render(request, "designer/_tool_peek.html", {"parts": parts, **head})


@requires_post(Role.DESIGNER)
def tool_pin(request: HttpRequest, pk: int) -> HttpResponse:
    """Pin a tool from the form of its page, or by one press in the list while choosing tools for an agent."""
    row = find_tool(pk)
    form = PinForm(request.POST, tool=row, actor=person(request))
    pin = None
    if form.is_valid():
        with form.catch_errors(), transaction.atomic():
            values, actor = form.cleaned_data, person(request)
            agent = values["agent"] or agents.create_agent(actor=actor, name=values["agent_name"])
            pin = pins.pin_tool(
                agent, actor=actor, tool=row, ordinal=values["ordinal"], alias=values["alias"]
            )
    if pin:
        last_agent.remember(request, pin.agent)
    if request.headers.get("HX-Request"):
        return render(request, "designer/_pin_made.html", {"pin": pin, "form": form, "tool": row})
    if pin is None:
        return _render_overview(request, row, form)
    # The next decision about a tool without a vendor.
    message = (
        _("“{name}” is pinned to {agent}. Choose its implementation under “Environments”.")
        if row.endpoint.vendor.is_own
        else _("“{name}” is pinned to {agent}.")
    )
    messages.success(request, message.format(name=pin.name, agent=pin.agent))
    back = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    return redirect(back) if safe and back.startswith("/") else redirect("agent", pin.agent.slug)


@requires(Role.VIEWER)
def tool_versions(request: HttpRequest, pk: int, label: str = "") -> HttpResponse:
    """Show all versions, and two of them side by side, the older one at the left."""
    row = find_tool(pk)
    rows = holds.with_review_state(versions.with_short_signatures(row.versions.all()))
    visible_rows = list(rows[:VERSIONS_SHOWN])
    before, after = request.GET.get("from", ""), request.GET.get("to", f"v{label}" if label else "")
    # Without a choice: the newest and what it is compared with. With one: that one and what it is compared
    # with.
    new = find_requested_version(row, after) if after else row.versions.first()
    old = find_requested_version(row, before) if before else new and versions.predecessor(new)
    if old is None or new is None or old == new:
        old = new = None
    elif (old.label_key, old.ordinal) > (new.label_key, new.ordinal):
        old, new = new, old
    if label and old is new is None and find_requested_version(row, f"v{label}") is None:
        raise Http404
    words = version_words(visible_rows)
    context: dict[str, Any] = {
        "versions": words,
        "chart": charts.versions_with_pins(row, words, person(request)),
        "old": old,
        "new": new,
        **header(row),
    }
    if old and new:
        context["comparison"] = diff.compare(old.decoded(), new.decoded())
        context["show_raw"] = "raw" in request.GET
    return render(request, "designer/tool_versions.html", context)


def find_requested_version(row: Tool, address: str) -> ToolVersion | None:
    """Return the version: `v2` is the vendor's label 2; `2` is the ordinal, for others."""
    if address.startswith("v"):
        return versions.find_version(row, version=address[1:]) if len(address) > 1 else None
    return row.versions.filter(ordinal=number(address)).first()


@requires(Role.VIEWER)
def tool_usage(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    users = pending_work.with_newer(Pin.objects.live().visible_to(person(request)).filter(tool=row))
    moves = upgrades.upgrades_of_tool(row, row.current, person(request)) if row.current else []
    context = {
        "pins": users.select_related("agent", "version", "created_by")
        .defer("version__signature", "version__raw")
        .order_by("agent__name"),
        "felt": [move for move in moves if move.is_felt],
        "behind_count": len(moves),
        "others": vendor_usage.used_by_others(row, person(request)),
    }
    return render(request, "designer/tool_usage.html", {**context, **header(row)})


@requires(Role.VIEWER)
def tool_findings(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    finding_rows = row.findings.select_related("version", "resolved_by")
    finding_rows = finding_rows.defer("version__signature", "version__raw")[:FINDINGS_SHOWN]
    progress = None if finding_rows else progress_of([row.endpoint_id])
    context = {
        "findings": finding_rows,
        "is_inspected": progress is None or progress.inspected == progress.tools,
        **header(row),
    }
    return render(request, "designer/tool_findings.html", context)


@requires(Role.VIEWER)
def tool_raw(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    version = row.current
    if "version" in request.GET:
        version = find_requested_version(row, request.GET["version"])
        if version is None:
            raise Http404
    visible_rows = row.versions.defer("signature", "raw")[:VERSIONS_SHOWN]
    listed_document = version.listed_document if version else None
    context = {
        "version": version,
        "versions": version_words(visible_rows),
        "listed_raw": read_raw(listed_document.raw) if listed_document else None,
        "raw": read_raw(version.raw) if version else None,
        "losses": version.losses() if version else [],
    }
    return render(request, "designer/tool_raw.html", {**context, **header(row)})


@dataclass(frozen=True, slots=True)
class RawText:
    """A document with line breaks, as far as it fits on a page. is_cut: the page has only its beginning."""

    text: str
    is_cut: bool


def read_raw(document: str) -> RawText:
    """Return the beginning of a document that fits on a page."""
    text = pretty(document)
    beginning = text_within(text, MAX_RAW_BYTES)
    return RawText(shown_within(text, MAX_RAW_BYTES), is_cut=beginning != text)


def pretty(document: str) -> str:
    return msgspec.json.format(document, indent=2)


@requires(write=Role.DESIGNER)
def tool_tuning(request: HttpRequest, pk: int) -> HttpResponse:
    # Our words for a tool wherever it is pinned.
    row = find_tool(pk)
    if row.current is None:
        return redirect("tool", row.pk)
    tuning = tunings.tuning_of(row)
    form = WordsForm(
        request.POST or None,
        pages=request.POST or request.GET,
        version=row.current,
        words=tunings.shown_words(row, tuning),
    )
    form.edits(tunings.facts(tuning))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            tunings.tune(row, actor=person(request), expected=form.expected, **form.words())
            messages.success(
                request, _("Saved. Agents that pin this tool use your text from their next release on.")
            )
            query = urlencode(form.page_query())
            return redirect(f"{reverse('tool-tuning', args=[row.pk])}{'?' if query else ''}{query}")
    history = tunings.history(row).select_related("actor")[:20]
    context = {
        "form": form,
        "tuning": tuning,
        "is_masked": has_mask(form.own),
        "history": history,
        "stale": tunings.stale_of(tuning, form.signature),
        "cautions": less_cautious(tunings.words_of(tuning), form.signature),
        "restorable": tunings.ACTIONS,
        "sensitive_members": _sensitive_members(row),
        "stale_state": edit_conflicts.etag(tunings.facts(tuning)),
        "restore_url": reverse("tool-tuning-restore", args=[row.pk]),
        "settle_url": reverse("tool-tuning-settle", args=[row.pk]),
        **header(row),
    }
    return render(request, "designer/tool_tuning.html", context, status=form.status)


@requires_post(Role.DESIGNER)
def tool_sensitive(request: HttpRequest, pk: int) -> HttpResponse:
    """Mark the inputs and outputs that were chosen, and no others."""
    row = find_tool(pk)
    try:
        sensitive_values.mark(
            row,
            actor=person(request),
            inputs=request.POST.getlist("inputs"),
            outputs=request.POST.getlist("outputs"),
        )
    except DomainError as error:
        messages.error(request, next(iter(error.fields.values()), error.message))
    else:
        messages.success(request, _("Saved. Marked values are masked from now on, also in earlier calls."))
    return redirect("tool-tuning", row.pk)


@requires_post(Role.DESIGNER)
def tool_tuning_revert(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    tunings.revert(row, actor=person(request))
    messages.success(request, _("The vendor's text was restored."))
    return redirect("tool-tuning", row.pk)


@requires_post(Role.DESIGNER)
def tool_tuning_restore(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    restore_words(request, row)
    return redirect("tool-tuning", row.pk)


@requires_post(Role.DESIGNER)
def tool_tuning_settle(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    settle_member(request, row)
    return redirect("tool-tuning", row.pk)


def _sensitive_members(row: Tool) -> list[tuple[str, str, list[tuple[str, str, bool]], int]]:
    """Return the members of each side, each with why it is proposed and whether it is marked, and how many
    others do not fit on the page. Those are not marked.
    """
    marks = sensitive_values.marks_of([row.pk]).get(row.pk, sensitive_values.NONE)
    signature = row.current.decoded() if row.current else None
    sides = [
        ("inputs", _("Inputs"), signature.inputs if signature else (), marks.inputs),
        ("outputs", _("Outputs"), signature.outputs if signature else (), marks.outputs),
    ]
    rows = []
    for name, label, parameters, marked in sides:
        reasons = {member.pointer: member.reason for member in members_of(parameters)}
        # A mark outlives a version without its member.
        pointers = [*reasons, *(pointer for pointer in marked if pointer not in reasons)]
        members = [(pointer, reasons.get(pointer, ""), pointer in marked) for pointer in pointers]
        fitting, free_bytes = set(marked), MAX_SENSITIVE_BYTES
        for pointer, reason, _is_marked in sorted(members, key=lambda member: not member[1]):
            free_bytes -= SENSITIVE_BYTES + 2 * len(escape(pointer).encode()) + len(escape(reason).encode())
            if free_bytes < 0:
                break
            fitting.add(pointer)
        listed = [member for member in members if member[0] in fitting]
        rows.append((name, label, listed, len(members) - len(listed)))
    return rows


def find_tool(pk: int) -> Tool:
    rows = Tool.objects.select_related(
        "current", "stopped", "tuning", "tool_picture", "texts", "endpoint__vendor"
    )
    return get_object_or_404(rows, pk=pk)


def _count_by_tool(rows: QuerySet[Any]) -> Coalesce:
    # In one statement with others, which joins would multiply.
    return Coalesce(Subquery(rows.order_by().values("tool").annotate(count=Count("pk")).values("count")), 0)


def header(row: Tool) -> dict[str, Any]:
    """Return the data in the head of each page of the tool."""
    tuning = getattr(row, "tuning", None)
    visible_rows = effective_texts.effective_signatures([row]).get(row.pk)
    open_findings = Finding.objects.filter(tool=OuterRef("pk"), state=FindingState.OPEN)
    counts = Tool.objects.filter(pk=row.pk).values(
        usage_count=_count_by_tool(Pin.objects.live().filter(tool=OuterRef("pk"))),
        finding_count=_count_by_tool(open_findings),
    )[0]
    return {
        "tool": row,
        "shown": visible_rows,
        "stale_count": len(tunings.stale_of(tuning, row.current.decoded())) if tuning and row.current else 0,
        "is_configurable": bool(
            row.current and row.endpoint.build_protocol().configuration(row.current.decoded())
        ),
        "is_offered": row.endpoint.is_live,
        "is_own": row.endpoint.vendor.is_own,
        "review_state": holds.review_state(row.stopped) if row.stopped else None,
        **counts,
    }
