"""The pages of operating procedures: the list of an agent's, the editor, its history."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from catalog.models import Tool
from catalog.models.tools import ItemKind, ToolStatus
from catalog.search import listing
from catalog.search.tool_query import Query
from catalog.templatetags.display import cut_short
from catalog.token_estimate import estimate_tokens
from catalog.views.asked import number as asked_number
from core import numbered_pages
from core.compiled_queries import named_value
from core.errors import DomainError
from core.readable_changes import ReadableChange, describe_change
from designer.agents import agent_vendors
from designer.forms.procedures import NewProcedureForm, ProcedureForm
from designer.models import Agent, Pin, Procedure, ProcedureDraft, ProcedureVersion
from designer.overviews import agent_readiness
from designer.pins import pinned_signatures, pins, token_budget
from designer.procedures import checking, editing, lines, proposals, references, vocabulary
from designer.procedures.checking import CheckedProcedures
from designer.procedures.issues import Issue
from designer.rehearsals.current import read_tests
from designer.signatures import model_names
from designer.signatures.effective import Effective, EffectiveInput
from designer.views import agent_panes
from designer.views.chosen_agent import find_agent
from people.audit import edit_conflicts
from people.models import Role, User
from people.permissions import QueryByRole, person, requires, requires_post
from protocols.signature import Parameter

# Another user's draft that is older than this is no sign that the user is at work.
AT_WORK = timedelta(minutes=10)
# Completion offers these from the catalog besides the agent's own tools, each with the start of its
# description.
MAX_OFFERED = 6
MAX_SENTENCE = 160
MAX_BRIEF = 120  # characters of the description of an input


@requires(write=Role.DESIGNER)
def procedure_list(request: HttpRequest, slug: str) -> HttpResponse:
    agent = find_agent(request, slug)
    form = NewProcedureForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            created = editing.create_procedure(agent, actor=person(request), title=form.cleaned_data["title"])
        except DomainError as error:
            form.refuse(error)
        else:
            return redirect("procedure", slug, created.slug)
    assessed = agent_readiness.assess_default(agent)
    checked = checking.check_agent(agent, person(request), pins=assessed.own_items)
    tests = read_tests(agent, assessed.own_items)
    states = agent_readiness.assess_procedures(assessed, tests, checked)
    every = list(Procedure.objects.live().filter(agent=agent).select_related("updated_by"))
    find = request.GET.get("find", "").strip()
    matches = numbered_pages.rows_with_text(every, find, lambda row: row.title)
    page = numbered_pages.page_of(matches, request.GET.get("procedures", ""), name="procedures")
    rows = [
        {
            "procedure": row,
            "states": states[row.pk],
            "tokens": estimate_tokens(references.rendered_text(checked.pieces[row.pk])),
            "tools": len({p.target for p in references.flat(checked.pieces[row.pk]) if p.kind != "item"}),
            "is_first": row is every[0],
            "is_last": row is every[-1],
        }
        for row in page
    ]
    context = {
        "agent": agent,
        "rows": page.with_rows(rows),
        "can_find": len(every) > page.size,
        "can_order": len(every) > 1 and not find,
        "find": find,
        "form": form,
        "of_agent": checked.of_agent,
    }
    return render(request, "designer/procedures.html", context, status=form.status)


@requires(write=Role.DESIGNER)
def procedure(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """The editor. It opens with the user's unsaved text, if there is one."""
    row = _find_procedure(request, slug, procedure)
    actor = person(request)
    draft = row.drafts.filter(user=actor).first()
    started = draft if draft and request.method != "POST" else row
    pin_rows = agent_panes.read_pins(row.agent)
    names = vocabulary.vocabulary_of(row.agent, texts=[row.text, started.text], pins=pin_rows)
    form = ProcedureForm(
        request.POST or None,
        vocabulary=names,
        initial={
            "title": started.title,
            "body": references.display_text(references.parse(started.text, names)),
        },
    )
    form.edits(editing.facts(row))
    if draft and request.method != "POST":
        form.expected = _state_of(row, draft.based_on)
    if request.method == "POST" and form.is_valid():
        try:
            editing.save_procedure(row, actor=actor, expected=form.expected, **form.cleaned_data)
        except DomainError as error:
            form.refuse(error)
        else:
            messages.success(request, _("Saved. Publish the agent when you want runtimes to get it."))
            return redirect("procedure", slug, row.slug)
    body = form["body"].value() or ""
    checked = checking.check_agent(row.agent, actor, typed_texts={row.pk: body}, pins=pin_rows)
    open_sentences = proposals.find_open_sentences(checked.pieces[row.pk])
    context = {
        **agent_panes.pane_context(row.agent, pane=f"procedure-{row.pk}", pins=pin_rows, query=request.GET),
        "procedure": row,
        "form": form,
        **_draft_facts(draft if started is draft else None),
        "pins_offered": _pins_named(row.agent, request.GET.getlist("made")),
        **_tools_for_pane(pin_rows, checked),
        **_remarks_context(checked, row, actor),
        "open_sentences": open_sentences,
        # Where one side has space: a text for which no tool is pinned needs a tool first.
        "opens_side": bool(open_sentences) and not pin_rows and actor.can_design and not form.errors,
        # Without the script, which loads them after the page.
        **(_proposals_context(row, actor) if "proposals" in request.GET and actor.can_design else {}),
    }
    return render(request, "designer/procedure.html", context, status=form.status)


@requires_post(Role.DESIGNER)
def procedure_check(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """Store the entered text as the user's draft and show its issues while the user types."""
    row = _find_procedure(request, slug, procedure)
    context = {"agent": row.agent, "procedure": row, **_lint_typed_text(request, row)}
    return render(request, "designer/_procedure_remarks.html", context)


@requires_post(Role.DESIGNER)
def procedure_pin(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """Pin a tool that the text names, and store the entered text."""
    row = _find_procedure(request, slug, procedure)
    # No 404 for a tool that is gone by now, which would lose what was typed.
    tool = Tool.objects.filter(pk=asked_number(request.POST.get("tool", ""))).first()
    refused = "" if tool else _("This tool was removed from the catalog. Choose another one.")
    pin = None
    try:
        if tool:
            pin = pins.pin_tool(row.agent, actor=person(request), tool=tool)
    except DomainError as error:
        refused = error.message
    context = {"not_pinned": refused, **_lint_typed_text(request, row)}
    if pin and "draft" in context:
        context["draft"].pins_made.add(pin)
    if "HX-Request" in request.headers:
        return _render_changed_pins(request, row, context)
    if refused:
        messages.error(request, refused)
    return redirect("procedure", slug, row.slug)


@requires_post(Role.DESIGNER)
def procedure_unpin(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """Remove pins that were made from the editor, and store the typed text if there is one."""
    row = _find_procedure(request, slug, procedure)
    removed = _pins_named(row.agent, request.POST.getlist("pin"))
    for pin in removed:
        pins.remove_pin(pin, actor=person(request))
    if "HX-Request" in request.headers:
        return _render_changed_pins(request, row, _lint_typed_text(request, row))
    if removed:
        messages.success(
            request, _("Unpinned: {names}.").format(names=", ".join(pin.name for pin in removed))
        )
    return redirect("procedure", slug, row.slug)


@requires(Role.DESIGNER)
@require_GET
def procedure_tools(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """Return the completions of the editor: with `own`, the agent's tools; else tools of the catalog that it
    has not pinned, best first, for the text behind an @.
    """
    agent = _find_procedure(request, slug, procedure).agent
    if "own" in request.GET:
        return JsonResponse({"tools": _completed_tools(agent)})
    within = agent_vendors.allowed_vendors_of(agent).keys
    query = Query(
        q=request.GET.get("q", ""), status=(ToolStatus.ACTIVE,), within=within, limit=2 * MAX_OFFERED
    )
    rows = listing.search(query).rows if query.q.strip() else []
    pinned = set(agent.pins.live().values_list("tool", flat=True))
    offers = [
        {
            "tool": row["id"],
            "name": model_names.derive(row["name"]),
            "says": f"{row['vendor_name']} · {row['description']}"[:MAX_SENTENCE],
        }
        for row in rows
        if row["id"] not in pinned and not row["is_stopped"]
    ]
    return JsonResponse({"tools": offers[:MAX_OFFERED]})


@requires(Role.VIEWER)
@require_GET
def procedure_tool(request: HttpRequest, slug: str, procedure: str, pk: int) -> HttpResponse:
    """The inputs and outputs of one tool beside the editor, when a user opens it: required inputs first."""
    agent = _find_procedure(request, slug, procedure).agent
    pin = get_object_or_404(pinned_signatures.pins_of_agents([agent]), pk=pk)
    signature = pinned_signatures.effective_of(pin)
    context = {
        "agent": agent,
        "pin": pin,
        "shown": signature,
        "inputs": _required_first(signature),
        "tokens": token_budget.tokens(signature),
    }
    return render(request, "designer/_procedure_tool.html", context)


@requires(Role.DESIGNER)
def procedure_proposals(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """Return the proposals for sentences without a tool, loaded after the editor.

    A press returns to the text.
    """
    row = _find_procedure(request, slug, procedure)
    if request.method == "POST":
        return _accept_proposal(request, row)
    context = {"agent": row.agent, "procedure": row, **_proposals_context(row, person(request))}
    return render(request, "designer/_proposals.html", context)


def _accept_proposal(request: HttpRequest, row: Procedure) -> HttpResponse:
    """Execute the action of the pressed button on the typed text: `tool:7:sentence`, `define::sentence`, …"""
    kind, value = request.POST.get("accept", "").partition(":")[::2]
    key, sentence = value.partition(":")[::2]
    editor = reverse("procedure", args=[row.agent.slug, row.slug])
    title, body = request.POST.get("title", row.title), request.POST.get("body", "")
    based_on = asked_number(request.POST.get("based_on", "")) or row.number
    actor = person(request)
    try:
        # First, so that no refusal below loses what was typed.
        editing.keep_draft(row, user=actor, title=title, body=body, based_on=based_on)
        if kind in ("tool", "agent"):
            rows: QuerySet[Any] = (
                Tool.objects.all() if kind == "tool" else proposals.proposed_agents(row.agent)
            )
            target: Tool | Agent | None = rows.filter(pk=asked_number(key)).first()
            if target is None:
                message = (
                    _("This tool can no longer be chosen. Choose from the new proposals.")
                    if kind == "tool"
                    else _("This agent can no longer be chosen. Choose from the new proposals.")
                )
                raise DomainError("not_found", message, status=404)
            line = proposals.accept(
                row,
                actor=actor,
                title=title,
                body=body,
                based_on=based_on,
                sentence=sentence,
                target=target,
            )[1]
            return redirect(f"{editor}#line-{line}")
    except DomainError as error:
        messages.error(request, error.message)
        return redirect(editor)
    # The other page returns to the text, which then has new proposals.
    return redirect(_page_for(kind, key, sentence, row.agent, editor))


def _page_for(kind: str, key: str, sentence: str, agent: Agent, editor: str) -> str:
    query = {"next": editor}
    if kind == "define":
        return f"{reverse('definition-new')}?{urlencode(query)}"
    if kind == "request":
        return f"{reverse('vendor-request-new')}?{urlencode(query | {'reason': sentence})}"
    endpoints = {endpoint.pk: endpoint for endpoint in proposals.find_sign_ins(agent, [asked_number(key)])}
    if kind != "connect" or (endpoint := endpoints.get(asked_number(key))) is None:
        return editor
    if endpoint.credential_id:
        return f"{reverse('credential', args=[endpoint.credential_id])}?{urlencode(query)}"
    return f"{reverse('credential-new')}?{urlencode({'url': endpoint.url, 'endpoint': endpoint.pk})}"


@requires_post(Role.DESIGNER)
def procedure_discard(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    row = _find_procedure(request, slug, procedure)
    pins_made = editing.discard_draft(row, user=person(request))
    messages.success(request, _("Your unsaved text is discarded. This is the saved text."))
    # The editor offers to remove the pins that its address names.
    query = urlencode({"made": [pin.pk for pin in pins_made]}, doseq=True)
    address = reverse("procedure", args=[slug, row.slug])
    return redirect(f"{address}?{query}" if query else address)


@requires_post(Role.DESIGNER)
def procedure_move(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    row = _find_procedure(request, slug, procedure)
    position = asked_number(request.POST.get("position", "")) or row.position
    editing.move_procedure(row, actor=person(request), position=position)
    return redirect("procedure-list", slug)


@requires_post(Role.DESIGNER)
def procedure_remove(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    row = _find_procedure(request, slug, procedure)
    editing.remove_procedure(row, actor=person(request))
    messages.success(request, _("“{name}” was removed. Published releases keep it.").format(name=row))
    return redirect("procedure-list", slug)


@requires(Role.VIEWER)
def procedure_history(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """Show every saved text, and the changes of the selected one."""
    row = _find_procedure(request, slug, procedure)
    versions = list(row.versions.select_related("created_by").defer("text"))
    selected_number = asked_number(request.GET.get("version", "")) or row.number
    version = get_object_or_404(row.versions.select_related("created_by"), number=selected_number)
    against = asked_number(request.GET.get("against", "")) or version.number - 1
    other = row.versions.filter(number=against).first()
    names = vocabulary.vocabulary_of(row.agent, texts=[version.text, other.text if other else ""])

    def displayed(version: ProcedureVersion | None) -> str:
        return references.display_text(references.parse(version.text, names)) if version else ""

    changed_lines = lines.compare(displayed(other), displayed(version))
    changes = []
    if other and other.title != version.title:
        changes.append(describe_change(_("Title"), other.title, version.title))
    if changed_lines:
        changes.append(ReadableChange(sentence=_("Text changed."), lines=changed_lines, is_open=True))
    context = {
        "agent": row.agent,
        "procedure": row,
        "versions": versions,
        "version": version,
        "other": other,
        "changes": changes,
        "text": displayed(version),
        "state": edit_conflicts.etag(editing.facts(row)),
    }
    return render(request, "designer/procedure_history.html", context)


@requires_post(Role.DESIGNER)
def procedure_restore(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    row = _find_procedure(request, slug, procedure)
    version = asked_number(request.POST.get("version", "")) or 0
    try:
        editing.restore_version(
            row, version, actor=person(request), expected=request.POST.get("expected", "*")
        )
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("procedure-history", slug, row.slug)
    messages.success(request, _("Version {version} is the newest text again.").format(version=version))
    return redirect("procedure", slug, row.slug)


def _render_changed_pins(request: HttpRequest, row: Procedure, context: dict[str, Any]) -> HttpResponse:
    context |= {"agent": row.agent, "procedure": row}
    if "checked" in context:
        pin_rows = agent_panes.read_pins(row.agent)
        context |= _tools_for_pane(pin_rows, context["checked"])
        context |= agent_panes.pane_context(
            row.agent, pane=f"procedure-{row.pk}", pins=pin_rows, query=request.GET
        )
    return render(request, "designer/_procedure_pinned.html", context)


def _pins_named(agent: Agent, ids: Sequence[str]) -> list[Pin]:
    pin_ids = [pk for pk in map(asked_number, ids[: pins.MAX_PINS_PER_REQUEST]) if pk]
    return list(agent.pins.live().filter(pk__in=pin_ids).order_by("name")) if pin_ids else []


def _lint_typed_text(request: HttpRequest, row: Procedure) -> dict[str, Any]:
    """Return the issues of the submitted text, which is stored as the user's draft."""
    actor = person(request)
    base = asked_number(request.POST.get("based_on", "")) or row.number
    title, body = request.POST.get("title", ""), request.POST.get("body", "")
    try:
        draft = editing.keep_draft(row, user=actor, title=title, body=body, based_on=base)
    except DomainError as error:
        return {"refused": error.message}
    checked = checking.check_agent(row.agent, actor, typed_texts={row.pk: draft.text})
    context = {"checked": checked, **_draft_facts(draft), "is_behind": base < row.number, "is_swapped": True}
    return context | _remarks_context(checked, row, actor)


def _proposals_context(row: Procedure, user: User) -> dict[str, Any]:
    draft = row.drafts.filter(user=user).first()
    return {"proposals": proposals.propose(row.agent, draft.text if draft else row.text)}


def _draft_facts(draft: ProcedureDraft | None) -> dict[str, Any]:
    return {"draft": draft, "pins_made": editing.pins_made_for(draft) if draft else ()}


def _remarks_context(checked: CheckedProcedures, row: Procedure, user: User) -> dict[str, Any]:
    remarks: Sequence[Issue] = checked.remarks[row.pk]
    rendered = references.rendered_text(checked.pieces[row.pk])
    others = row.drafts.exclude(user=user).filter(saved_at__gte=timezone.now() - AT_WORK)
    return {
        "remarks": remarks,
        "errors": sum(remark.severity == "error" for remark in remarks),
        "warnings": sum(remark.severity == "warning" for remark in remarks),
        "of_agent": checked.of_agent,
        "rendered": rendered,
        "tokens": estimate_tokens(rendered),
        "at_work": list(others.select_related("user")),
    }


def _tools_for_pane(pins: Iterable[Pin], checked: CheckedProcedures) -> dict[str, Any]:
    """Return the agent's tools and sub-agents for the side pane."""
    tools: list[Mapping[str, Any]] = [
        {
            "pin": pin,
            "effect": pinned_signatures.effective_of(pin).annotations.effect,
            "state": checked.vocabulary.by_pin[pin.pk].state,
        }
        for pin in pins
        if pin.tool.kind == ItemKind.TOOL
    ]
    return {"tools": tools, "children": [names for names in checked.vocabulary.agents if not names.state]}


def _required_first(effective: Effective) -> list[EffectiveInput]:
    return sorted(effective.inputs, key=lambda each: not each.is_required)


def _completed_tools(agent: Agent) -> list[dict[str, Any]]:
    """Return the agent's tools and sub-agents as static/js/procedure.js completes them."""
    pin_rows = pinned_signatures.read_items([agent])
    required = _("required")
    tools: list[dict[str, Any]] = []
    for pin in (pin for pin in pin_rows if pin.tool.kind == ItemKind.TOOL):
        signature = pinned_signatures.effective_of(pin)
        inputs = [
            {
                "name": row.alias,
                "isRequired": row.is_required,
                "says": (f"{required} · " if row.is_required else "") + _brief(row.parameter),
            }
            for row in _required_first(signature)
        ]
        outputs = [{"name": row.alias, "says": _brief(row.parameter)} for row in signature.outputs]
        summary = cut_short(signature.description, MAX_SENTENCE)
        tools.append({"name": signature.name, "says": summary, "inputs": inputs, "outputs": outputs})
    names = vocabulary.vocabulary_of(agent, pins=pin_rows)
    for child in (child for child in names.agents if not child.state):
        summary = _("Hands over to %(title)s.") % {"title": child.title}
        tools.append({"name": child.name, "says": summary, "inputs": [], "outputs": []})
    return tools


def _brief(parameter: Parameter) -> str:
    return cut_short(parameter.description, MAX_BRIEF)


def _state_of(row: Procedure, number: int) -> str:
    """Return the state of the procedure for an editor who opened this version. If another state is stored,
    the edit is late.
    """
    version = row.versions.filter(number=number).first()
    if version is None or number == row.number:
        return edit_conflicts.etag(editing.facts(row))
    return edit_conflicts.etag(editing.facts(row) | {"title": version.title, "text": version.text})


def _find_procedure(request: HttpRequest, slug: str, procedure: str) -> Procedure:
    if rows := _PROCEDURE.rows(person(request), agent=slug, procedure=procedure):
        return rows[0]
    raise Http404


_PROCEDURE: QueryByRole[Procedure] = QueryByRole(
    lambda user: (
        Procedure.objects.live()
        .visible_to(user)
        .filter(agent__slug=named_value("agent"), slug=named_value("procedure"))
        .select_related("agent__team", "agent__parent", "updated_by")
    )
)
