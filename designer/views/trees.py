"""The tree of an agent: the tokens that each agent shows at once, and moves of agents and pins inside the
tree.
"""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from core.errors import DomainError
from designer.agents import agents
from designer.forms.agents import MoveAgentForm
from designer.forms.pins import MovePinsForm
from designer.models import Agent
from designer.overviews import agent_trees
from designer.pins import pins
from designer.views.chosen_agent import find_agent
from people.forms import OperationForm
from people.models import Role
from people.permissions import person, requires, requires_post


@requires(Role.VIEWER)
def agent_tree(request: HttpRequest, slug: str) -> HttpResponse:
    return _render_page(request, find_agent(request, slug))


@requires_post(Role.DESIGNER)
def tree_pins(request: HttpRequest, slug: str) -> HttpResponse:
    """Move the ticked tools to another agent of the tree: all of them or none."""
    row = find_agent(request, slug)
    form = MovePinsForm(request.POST, tree=_agents_of_tree(row))
    if not form.is_valid():
        return _render_page(request, row, form)
    selected_pins, to = list(form.cleaned_data["pins"]), form.cleaned_data["to"]
    try:
        # An empty field leaves the names of the tools unchanged.
        alias = form.cleaned_data["alias"] or None
        moved = pins.move_to_agent(selected_pins, actor=person(request), new_agent=to, alias=alias)
    except DomainError as error:
        form.refuse(error)
        return _render_page(request, row, form)
    message = ngettext(
        "“{name}” is now in “{agent}”. Procedures that name moved tools are listed below.",
        "{count} tools are now in “{agent}”. Procedures that name moved tools are listed below.",
        len(moved),
    )
    messages.success(request, message.format(name=moved[0].name, count=len(moved), agent=to))
    return redirect("agent-tree", slug)


@requires_post(Role.DESIGNER)
def tree_agents(request: HttpRequest, slug: str) -> HttpResponse:
    """Give an agent of the tree another parent in it, or none."""
    row = find_agent(request, slug)
    form = MoveAgentForm(request.POST, tree=_agents_of_tree(row))
    if not form.is_valid():
        return _render_page(request, row, form)
    agent, parent = form.cleaned_data["agent"], form.cleaned_data["parent"]
    try:
        agents.update_agent(agent, actor=person(request), parent=parent)
    except DomainError as error:
        form.refuse(error)
        return _render_page(request, row, form)
    messages.success(
        request,
        (
            _("“{agent}” is now a sub-agent of “{parent}”.") if parent else _("“{agent}” has no parent now.")
        ).format(agent=agent, parent=parent),
    )
    return redirect("agent-tree", slug)


def _render_page(request: HttpRequest, row: Agent, form: OperationForm | None = None) -> HttpResponse:
    tree = agent_trees.read_tree(row)
    is_of_pins = isinstance(form, MovePinsForm)
    context = {
        "agent": row,
        "tree": tree,
        "form": form,
        "ticked": form["pins"].value() or [] if form and is_of_pins else [],
        "to": form["to"].value() if form and is_of_pins else "",
        "alias": form["alias"] if form and is_of_pins and form["alias"].value() else None,
    }
    return render(request, "designer/agent_tree.html", context)


def _agents_of_tree(row: Agent) -> list[Agent]:
    return list(Agent.objects.live().filter(pk__in=agents.tree_of(row)))
