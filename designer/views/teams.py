"""Teams: their people and their agents. For administrators; other users only belong to them."""

from typing import Any

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from core import numbered_pages
from core.errors import DomainError
from core.pagination import Keyset
from designer.agents import agents
from designer.forms.teams import MemberForm, MovedAgentForm, TeamForm
from designer.models import Agent
from people import teams
from people.forms import show_errors
from people.models import Role, Team, User
from people.permissions import person, requires, requires_post

PAGE_SIZE = 50


@requires(Role.ADMIN)
def team_list(request: HttpRequest) -> HttpResponse:
    form = TeamForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            row = teams.create_team(actor=person(request), **form.cleaned_data)
            messages.success(request, _("“{name}” was created. Add its members next.").format(name=row))
            return redirect("team", row.slug)
    rows = Team.objects.live().annotate(
        member_count=Count("members", filter=Q(members__is_active=True), distinct=True),
        agent_count=Count("agents", filter=Q(agents__removed_at=None), distinct=True),
    )
    page = Keyset(rows, "name").page(request.GET.get("cursor"), PAGE_SIZE)
    return render(request, "designer/teams.html", {"form": form, "page": page})


@requires(Role.ADMIN)
def team(request: HttpRequest, slug: str) -> HttpResponse:
    row = _find_team(slug)
    form = TeamForm(request.POST or None, initial={"name": row.name})
    form.edits(teams.facts(row))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            name = form.cleaned_data["name"]
            teams.rename_team(row, actor=person(request), name=name, expected=form.expected)
            messages.success(request, _("Saved."))
            return redirect("team", row.slug)
    return _render_page(request, row, form=form)


def _render_page(request: HttpRequest, row: Team, **forms: Any) -> HttpResponse:
    team_row = _find_team(row.slug)
    rename = TeamForm(initial={"name": team_row.name})
    rename.edits(teams.facts(team_row))
    agent_rows = list(team_row.agents.active().filter(parent=None).order_by("name").only("name", "slug"))
    find = request.GET.get("find", "").strip()
    context = {
        "team": team_row,
        "form": rename,
        "member_form": MemberForm(team=team_row),
        "agent_form": MovedAgentForm(team=team_row),
        "members": team_row.memberships.select_related("user").order_by("user__username"),
        "agents": numbered_pages.rows_with_text(agent_rows, find, lambda agent: agent.name),
        "can_find": len(agent_rows) > numbered_pages.PAGE_SIZE,
        "find": find,
    }
    status = max((form.status for form in forms.values()), default=200)
    return render(request, "designer/team.html", context | forms, status=status)


@requires_post(Role.ADMIN)
def team_member_add(request: HttpRequest, slug: str) -> HttpResponse:
    row = _find_team(slug)
    form = MemberForm(request.POST, team=row)
    if form.is_valid():
        with form.catch_errors():
            teams.add_member(row, form.cleaned_data["person"], actor=person(request))
            messages.success(
                request,
                _("{user} sees this team's agents from now on.").format(user=form.cleaned_data["person"]),
            )
            return redirect("team", row.slug)
    return _render_page(request, row, member_form=form)


@requires_post(Role.ADMIN)
def team_member_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_team(slug)
    user = get_object_or_404(User, pk=pk)
    with show_errors(request):
        teams.remove_member(row, user, actor=person(request))
        messages.success(request, _("{user} does not see this team's agents any more.").format(user=user))
    return redirect("team", row.slug)


@requires_post(Role.ADMIN)
def team_agent_move(request: HttpRequest, slug: str) -> HttpResponse:
    row = _find_team(slug)
    form = MovedAgentForm(request.POST, team=row)
    if form.is_valid():
        agent: Agent = form.cleaned_data["agent"]
        with form.catch_errors():
            agents.update_agent(agent, actor=person(request), team=row)
            messages.success(
                request,
                _("“{agent}” belongs to “{name}” now, with its sub-agents.").format(agent=agent, name=row),
            )
            return redirect("team", row.slug)
    return _render_page(request, row, agent_form=form)


@requires_post(Role.ADMIN)
def team_remove(request: HttpRequest, slug: str) -> HttpResponse:
    row = _find_team(slug)
    try:
        agents.remove_team(row, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("team", row.slug)
    messages.success(request, _("“{name}” was removed.").format(name=row))
    return redirect("team-list")


def _find_team(slug: str) -> Team:
    return get_object_or_404(Team.objects.live(), slug=slug)
