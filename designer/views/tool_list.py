"""The list of tools: search, narrow, compare, and pin the ticked tools to an agent."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.models import Endpoint
from catalog.models.tools import ToolStatus
from catalog.search import recorded_searches
from catalog.search.progress import pending_progress
from catalog.search.similar import similar_tools
from catalog.views.asked import number
from designer.agents import agent_addresses
from designer.models import Agent
from designer.pins import tool_use
from designer.views import add_tools, last_agent
from designer.views.tool_search import (
    FILTER_PARAMETERS,
    Facet,
    describe_count,
    facets_of,
    options,
    query_of,
    question_before,
    search_tools,
    sort_choices,
    with_pictures,
)
from designer.views.tools import find_tool
from people.models import Role
from people.permissions import person, requires, requires_post

DENSITY, DENSITIES = "density", ("comfortable", "compact")


@requires(Role.VIEWER)
def tool_list(request: HttpRequest) -> HttpResponse:
    """Show the page, or only its results while the user types a question."""
    query = request.GET
    visible_agents = Agent.objects.active().visible_to(person(request))
    if query.get("agent") and person(request).can_design:
        parameters = {name: query.getlist(name) for name in add_tools.SEARCH_PARAMETERS}
        return redirect(add_tools.address(_chosen_agent(request, query["agent"]), parameters))
    use_counts = tool_use.agents_by_tool()
    tool_query = replace(query_of(query), use_counts=use_counts, is_folded=True)
    page, problem = search_tools(tool_query)
    facets = [] if problem else facets_of(tool_query, page)
    # How much each row shows: as chosen now, or the last time in this browser.
    names = (request.GET.get(DENSITY), request.COOKIES.get(DENSITY))
    density = next((name for name in names if name in DENSITIES), DENSITIES[0])
    context = {
        "asked": query,
        "page": page,
        "problem": problem,
        "rows": _with_details(page.rows, use_counts),
        "facets": facets,
        "chosen": _chosen_facets(query, facets),
        "density": density,
        "count_says": describe_count(page, query.get("kind", "")),
        "is_filtered": any(query.get(name) for name in FILTER_PARAMETERS),
        "clear_url": reverse("tool-list"),
        "as_typed_url": f"{_short_query(query)}&as_typed=true",
        "progress": pending_progress(),
    }
    if request.headers.get("HX-Request"):
        response = render(request, "designer/_tools_swapped.html", context)
        response["HX-Replace-Url"] = _short_query(query)
        response.set_cookie(DENSITY, density, max_age=365 * 86_400, samesite="Lax", httponly=True)
        return response
    endpoints = Endpoint.objects.filter(pk=number(query.get("endpoint", "")))
    agents = visible_agents.only("slug", "name")
    frame = {
        "sorts": options(sort_choices(), query.get("sort", "")),
        "endpoint": endpoints.first() if query.get("endpoint") else None,
        "agents": agents,
        "proposed_agent": last_agent.last_agent_slug(request, agents),
    }
    return render(request, "designer/tools.html", context | frame)


def _chosen_agent(request: HttpRequest, slug: str) -> Agent:
    # By its address, or by one that it had when this page was opened.
    if agent := agent_addresses.agent_at(slug, person(request)):
        return agent
    raise Http404


@requires_post(Role.DESIGNER)
def tool_pin_many(request: HttpRequest) -> HttpResponse:
    """Pin the selected tools in their current versions. Refused ones stay selected on the agent's page."""
    agent = _chosen_agent(request, request.POST.get("agent", ""))
    last_agent.remember(request, agent)
    done, refused = add_tools.pin_ticked(request, agent)
    for error in refused.values():
        messages.error(request, error.message)
    if done:
        messages.success(request, add_tools.describe_pinned(done, agent))
        ticked = [number(text) for text in request.POST.getlist("tool")]
        pinned = [tool for tool in ticked if tool and tool not in refused]
        recorded_searches.record_choice(question_before(request), pinned, is_pinned=True)
    if refused:
        return redirect(add_tools.address(agent, {"tool": [str(pk) for pk in refused]}))
    return redirect("agent", agent.slug)


@requires(Role.VIEWER)
def tool_similar(request: HttpRequest, pk: int) -> HttpResponse:
    """Tools with about the same job, which the page of a tool loads after itself."""
    tool = find_tool(pk)
    similar_rows = similar_tools(tool)
    groups = {
        _("Same job at other vendors"): similar_rows.same_job,
        _("Similar tools of this vendor"): similar_rows.neighbours,
    }
    similar = [(heading, with_pictures(rows)) for heading, rows in groups.items()]
    return render(request, "designer/_similar.html", {"similar": similar})


def _chosen_facets(query: QueryDict, facets: list[Facet]) -> list[tuple[str, str]]:
    """Return the chosen facet values, each with the address of the list without it."""
    links = []
    for facet in facets:
        for facet_value in (*facet.values, *facet.more):
            values = query.getlist(facet.name)
            if facet_value.value in values:
                others = query.copy()
                others.setlist(facet.name, [value for value in values if value != facet_value.value])
                links.append((f"{facet.label}: {facet_value.label}", _short_query(others)))
    return links


def _with_details(rows: list[dict[str, Any]], use: Mapping[int, int]) -> list[dict[str, Any]]:
    """Add to each row its address, the number of agents that use the tool, and its status if unusual."""
    # Reversed once: fifty reversals take more than a millisecond.
    before, _unused, after = reverse("tool", args=[0]).rpartition("0")
    detailed_rows = []
    for row in with_pictures(rows):
        unusual_status = "" if row["status"] == ToolStatus.ACTIVE else str(ToolStatus(row["status"]).label)
        if row["is_stopped"]:
            unusual_status = _("Not released by review")
        address = f"{before}{row['id']}{after}"
        used_by = use.get(row["id"], 0)
        detailed_rows.append(row | {"used_by": used_by, "address": address, "says_status": unusual_status})
    return detailed_rows


def _short_query(query_parameters: QueryDict) -> str:
    """Return the query without empty parameters, so that the address can be shared."""
    parameters = QueryDict(mutable=True)
    for name in (*FILTER_PARAMETERS, "sort"):
        parameters.setlist(name, [value for value in query_parameters.getlist(name) if value])
    query = parameters.urlencode()
    return f"{reverse('tool-list')}?{query}" if query else reverse("tool-list")
