"""The list of tools: search, narrow, compare, and pin what is ticked to an agent."""

from functools import cache
from typing import Any

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from catalog.models import Endpoint
from catalog.models.tools import ToolStatus
from catalog.search import recorded_searches
from catalog.search.progress import catalog_progress, is_catching_up
from catalog.views.asked import number
from core.compiled_queries import CompiledQuery, given_keys
from designer.agents import agent_addresses
from designer.models import Agent, Pin
from designer.views import add_tools, last_agent
from designer.views.tool_search import (
    FILTER_PARAMETERS,
    filters,
    query_of,
    question_before,
    says_count,
    search_tools,
    with_pictures,
)
from people.models import Role
from people.permissions import person, requires


@requires(Role.VIEWER)
def tool_list(request: HttpRequest) -> HttpResponse:
    """The whole page, or only its results while a question is typed."""
    query = request.GET
    visible_agents = Agent.objects.active().visible_to(person(request))
    if query.get("agent") and person(request).can_design:
        parameters = {name: query.getlist(name) for name in add_tools.SEARCH_PARAMETERS}
        return redirect(add_tools.address(_chosen_agent(request, query["agent"]), parameters))
    page, problem = search_tools(query_of(query))
    context = {
        "asked": query,
        "page": page,
        "problem": problem,
        "rows": _with_details(page.rows),
        "count_says": says_count(page, query.get("kind", "")),
        "is_filtered": any(query.get(name) for name in FILTER_PARAMETERS),
        "clear_url": reverse("tool-list"),
        "as_typed_url": f"{_address(query)}&as_typed=true",
        "progress": catalog_progress() if is_catching_up() else None,
    }
    if request.headers.get("HX-Request"):
        response = render(request, "designer/_tools.html", context)
        response["HX-Replace-Url"] = _address(query)
        return response
    endpoints = Endpoint.objects.filter(pk=number(query.get("endpoint", "")))
    agents = visible_agents.only("slug", "name")
    frame = {
        "filters": filters(query),
        "endpoint": endpoints.first() if query.get("endpoint") else None,
        "agents": agents,
        "chosen": last_agent.proposed(request, agents),
    }
    return render(request, "designer/tools.html", context | frame)


def _chosen_agent(request: HttpRequest, slug: str) -> Agent:
    # By its address, or by one that it had when this page was opened.
    if agent := agent_addresses.agent_at(slug, person(request)):
        return agent
    raise Http404


@requires(Role.DESIGNER)
@require_POST
def tool_pin_many(request: HttpRequest) -> HttpResponse:
    """Pin the selected tools in their current versions. Refused ones stay selected on the agent's page."""
    agent = _chosen_agent(request, request.POST.get("agent", ""))
    last_agent.remember(request, agent)
    done, refused = add_tools.pin_ticked(request, agent)
    for error in refused.values():
        messages.error(request, error.message)
    if done:
        messages.success(request, add_tools.says_pinned(done, agent))
        ticked = [number(text) for text in request.POST.getlist("tool")]
        pinned = [tool for tool in ticked if tool and tool not in refused]
        recorded_searches.record_choice(question_before(request), pinned, is_pinned=True)
    if refused:
        return redirect(add_tools.address(agent, {"tool": [str(pk) for pk in refused]}))
    return redirect("agent", agent.slug)


def _with_details(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Each row with how many agents use the tool.
    use = dict(_use().rows(tools=[row["id"] for row in rows]))
    # Fifty reversals take more than a millisecond.
    before, _, after = reverse("tool", args=[0]).rpartition("0")
    return [
        row
        | {
            "used_by": use.get(row["id"], 0),
            "address": f"{before}{row['id']}{after}",
            "says_status": "Not released by review" if row["is_stopped"] else ToolStatus(row["status"]).label,
        }
        for row in with_pictures(rows)
    ]


@cache
def _use() -> CompiledQuery[tuple[Any, int]]:
    live = Pin.objects.live().filter(tool__in=given_keys("tools")).order_by().values("tool")
    counted = live.annotate(used_by=Count("agent", distinct=True))
    return CompiledQuery(counted.values_list("tool", "used_by"))


def _address(asked: QueryDict) -> str:
    # Without what was left empty, so that the address can be passed on.
    parameters = QueryDict(mutable=True)
    for name in (*FILTER_PARAMETERS, "sort"):
        parameters.setlist(name, [value for value in asked.getlist(name) if value])
    query = parameters.urlencode()
    return f"{reverse('tool-list')}?{query}" if query else reverse("tool-list")
