from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from core import numbered_pages
from core.compiled_queries import named_value
from designer.agents import agent_budgets, agent_vendors, agents
from designer.files import agent_copies
from designer.forms.agents import AgentEditForm, CopyAgentForm, NewAgentForm, TokenLimitForm
from designer.models import Agent
from designer.models.agents import MAX_NAME_LENGTH
from designer.overviews import shown_tools
from designer.procedures import editing
from designer.releases import drafts
from designer.views import agent_panes, last_agent
from designer.views.chosen_agent import find_agent
from people import teams
from people.forms import show_errors
from people.models import Role
from people.permissions import QueryByRole, person, requires, requires_post

PARTS_SHOWN = 11
AGENTS_SHOWN = 40


@requires(write=Role.DESIGNER)
def agent_list(request: HttpRequest) -> HttpResponse:
    actor = person(request)
    start = {"parent": request.GET.get("parent", ""), "team": teams.first_of(actor).slug}
    form = NewAgentForm(request.POST or None, initial=start, actor=actor)
    if request.method == "POST" and form.is_valid():
        values = form.facts()
        with form.catch_errors():
            if values["text"].strip():
                first = editing.create_agent_from_text(actor=actor, **values)
                messages.success(
                    request,
                    _("“{agent}” was created. Choose tools for its sentences.").format(agent=first.agent),
                )
                return redirect("procedure", first.agent.slug, first.slug)
            del values["text"]
            row = agents.create_agent(actor=actor, **values)
            messages.success(request, _("“{name}” was created. Pin its first tool next.").format(name=row))
            return redirect("agent", row.slug)
    is_archived = request.GET.get("archived") == "1"
    rows = agents.in_tree_order(drafts.agents_visible_to(actor, is_archived=is_archived))
    is_long = len(rows) > AGENTS_SHOWN
    find = request.GET.get("find", "").strip()
    rows = numbered_pages.rows_with_text(rows, find, lambda row: f"{row[1].name} {row[1].description}")
    archived = Agent.objects.live().visible_to(actor).exclude(archived_at=None)
    context = {
        "agents": rows,
        "page_size": AGENTS_SHOWN,
        "find": find,
        "can_find": is_long and not is_archived,
        "form": form,
        "several_teams": "team" in form.fields,
        "is_archived": is_archived,
        "archived_count": 0 if is_archived else archived.count(),
    }
    return render(request, "designer/agents.html", context)


@requires(Role.VIEWER)
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    user = person(request)
    rows = _AGENT_WITH_COUNTS.rows(user, slug=slug)
    if not rows:
        raise Http404
    row = rows[0]
    last_agent.remember(request, row)
    drafts.with_is_changed([row])
    text_format = shown_tools.TEXTS.get(request.GET.get("format", ""))
    in_format = shown_tools.budget(row, text_format) if text_format and row.pin_count else None
    is_opened = text_format is not None or request.GET.get("show") == "overview"
    panes = agent_panes.pane_context(
        row, pane="overview" if is_opened else "", in_format=in_format, query=request.GET
    )
    costs = [(line["tokens"], line["pin"].name) for line in panes["lines"]]
    costs += [(row["tokens"], row["transfer"].name) for row in panes["handed"]]
    sizes = sorted((cost for cost in costs if cost[0]), reverse=True)
    total = sum(tokens for tokens, _ in sizes)
    # The biggest parts of the bar each, and the rest as one.
    largest, others = sizes[:PARTS_SHOWN], sizes[PARTS_SHOWN:]
    if others:
        largest.append(
            (
                sum(tokens for tokens, _ in others),
                ngettext("{count} smaller tool", "{count} smaller tools", len(others)).format(
                    count=len(others)
                ),
            )
        )
    bar, start = [], 0.0
    for tokens, name in largest:
        width = 100 * tokens / total
        bar.append({"name": name, "tokens": tokens, "start": start, "width": width})
        start += width
    context = {
        **panes,
        "outside": [line for line in panes["lines"] if line["limit"]],
        "budget": {"total": total, "bar": bar},
        "formats": shown_tools.TEXTS.values(),
        "in_format": in_format,
    }
    return render(request, "designer/agent.html", context)


_AGENT_WITH_COUNTS: QueryByRole[Agent] = QueryByRole(
    lambda user: (
        Agent.objects.live()
        .visible_to(user)
        .with_counts()
        .filter(slug=named_value("slug"))
        .select_related("parent", "team", "token_limit")
    )
)


@requires(Role.DESIGNER)
def agent_edit(request: HttpRequest, slug: str) -> HttpResponse:
    row = find_agent(request, slug)
    form = _edit_form(row, request, request.POST or None)
    copying = _copy_form(row)
    if request.method == "POST" and form.is_valid():
        # An address or a team that is left empty stays as it is.
        values: dict[str, Any] = {k: v for k, v in form.facts().items() if v or k not in ("slug", "team")}
        with form.catch_errors():
            row = agents.update_agent(row, actor=person(request), expected=form.expected, **values)
            messages.success(request, _("Saved."))
            return redirect("agent", row.slug)
    return render(
        request,
        "designer/agent_edit.html",
        {"agent": row, "form": form, "copying": copying, "above": _limits_above(row)},
        status=form.status,
    )


@requires_post(Role.DESIGNER)
def agent_copy(request: HttpRequest, slug: str) -> HttpResponse:
    row = find_agent(request, slug)
    form = _copy_form(row, request.POST)
    if form.is_valid():
        with form.catch_errors():
            copy = agent_copies.copy_agent(row, actor=person(request), **form.cleaned_data)
            messages.success(request, _("“{copy}” was created. It is not published yet.").format(copy=copy))
            return redirect("agent", copy.slug)
    context = {
        "agent": row,
        "form": _edit_form(row, request),
        "copying": form,
        "above": _limits_above(row),
    }
    return render(request, "designer/agent_edit.html", context)


def _limits_above(row: Agent) -> Sequence[agent_vendors.VendorLimit]:
    return agent_vendors.allowed_vendors_of(row.parent).limits if row.parent else ()


def _edit_form(row: Agent, request: HttpRequest, data: QueryDict | None = None) -> AgentEditForm:
    initial = {
        "team": row.team.slug,
        "name": row.name,
        "slug": row.slug,
        "description": row.description,
        "parent": row.parent.slug if row.parent else "",
        "limits_vendors": row.limits_vendors,
    }
    vendors = agent_vendors.vendors_of(row)
    form = AgentEditForm(data, initial=initial, actor=person(request), vendors=vendors, retry=row.retry)
    form.edits(agents.facts(row))
    return form


def _copy_form(row: Agent, data: QueryDict | None = None) -> CopyAgentForm:
    initial = {"name": f"{agent_copies.PREFIX}{row}"[:MAX_NAME_LENGTH], "with_sub_agents": True}
    return CopyAgentForm(
        data,
        initial=initial,
        prefix="copy",
        has_sub_agents=row.children.active().exists(),
    )


@requires_post(Role.DESIGNER)
def agent_token_limit(request: HttpRequest, slug: str) -> HttpResponse:
    row = find_agent(request, slug)
    form = TokenLimitForm(request.POST)
    if form.is_valid():
        with form.catch_errors():
            agent_budgets.set_limit(row, actor=person(request), **form.cleaned_data)
            messages.success(request, _("Saved. The checks before publishing use it."))
    for errors in form.errors.values():
        messages.error(
            request, _("The limit was not saved: {reasons}").format(reasons=" ".join(map(str, errors)))
        )
    return redirect("agent", row.slug)


@requires_post(Role.DESIGNER)
def agent_archive(request: HttpRequest, slug: str) -> HttpResponse:
    message = _("“{agent}” is archived. Runtimes still get its releases.")
    return _decide(request, slug, agents.archive_agent, message)


@requires_post(Role.DESIGNER)
def agent_restore(request: HttpRequest, slug: str) -> HttpResponse:
    return _decide(request, slug, agents.restore_agent, _("“{agent}” was restored."))


@requires_post(Role.DESIGNER)
def agent_remove(request: HttpRequest, slug: str) -> HttpResponse:
    message = _("“{agent}” was removed. Its releases stay available.")
    return _decide(request, slug, agents.remove_agent, message, goes_away=True)


def _decide(
    request: HttpRequest, slug: str, act: Callable[..., object], message: str, *, goes_away: bool = False
) -> HttpResponse:
    row = find_agent(request, slug)
    with show_errors(request):
        act(row, actor=person(request))
        messages.success(request, message.format(agent=row))
        if goes_away:
            return redirect("agent-list")
    return redirect("agent", row.slug)
