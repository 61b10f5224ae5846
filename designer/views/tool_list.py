"""The list of tools: search, narrow, compare, and pin to the agent one came from."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib import messages
from django.db.models import Count, Max, Q
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from catalog import search
from catalog.models import Endpoint, Tool
from catalog.models.tools import ToolStatus
from catalog.search import Query, ResultPage
from catalog.views.asked import number, numbers
from core.compiled_queries import CompiledQuery, given, given_keys
from core.errors import DomainError
from designer import agent_addresses, agent_vendors, pins
from designer.agent_vendors import Allowed
from designer.errors import NameTakenError
from designer.models import Agent, Pin
from people.models import Role
from people.permissions import person, requires

ANY_STATUS = "any"
MAX_SELECTED = 20
FILTER_PARAMETERS = ("q", "vendor", "tag", "protocol", "status", "endpoint")
SORTS = {
    "": "Best match",
    "name": "Name",
    "-changed": "Changed lately",
    "vendor": "Vendor",
    "tokens": "Fewest tokens",
    "-tokens": "Most tokens",
}
LABELS = {
    "vendor": ("Vendor", "All vendors"),
    "tag": ("Tag", "All tags"),
    "protocol": ("Protocol", "All protocols"),
}


@requires(Role.VIEWER)
def tool_list(request: HttpRequest) -> HttpResponse:
    """The whole page, or only its results while a question is typed."""
    asked = request.GET
    seen = Agent.objects.active().visible_to(person(request))
    agent = _chosen_agent(request, asked["agent"]) if asked.get("agent") else None
    allowed = agent_vendors.of(agent) if agent else Allowed()
    page, problem = _found(asked, allowed)
    context = {
        "asked": asked,
        "agent": agent,
        "allowed": allowed,
        "page": page,
        "problem": problem,
        "rows": _shown(page.rows, agent),
        "count_says": f"More than {page.count:,} tools"
        if page.is_more
        else f"{page.count:,} tool{'' if page.count == 1 else 's'}",
        "is_filtered": any(asked.get(name) for name in FILTER_PARAMETERS),
        "clear_url": reverse("tool-list") + (f"?agent={agent.slug}" if agent else ""),
    }
    if request.headers.get("HX-Request"):
        response = render(request, "designer/_tools.html", context)
        response["HX-Replace-Url"] = _address(asked)
        return response
    endpoints = Endpoint.objects.filter(pk=number(asked.get("endpoint", "")))
    around = {
        "filters": _filters(asked, allowed),
        "endpoint": endpoints.first() if asked.get("endpoint") else None,
        "agents": [] if agent else seen.only("slug", "name"),
    }
    return render(request, "designer/tools.html", context | around)


def _chosen_agent(request: HttpRequest, slug: str) -> Agent:
    # By its address, or by one that it had when this page was opened.
    if agent := agent_addresses.agent_at(slug, person(request)):
        return agent
    raise Http404


@requires(Role.DESIGNER)
@require_POST
def tool_pin_many(request: HttpRequest) -> HttpResponse:
    """What is ticked, each in its current version. One that is refused does not hold up the others."""
    agent = _chosen_agent(request, request.POST.get("agent", ""))
    ticked = Tool.objects.select_related("endpoint__vendor").filter(
        pk__in=numbers(request.POST.getlist("tool"))[:MAX_SELECTED]
    )
    wanted = [
        pins.PinRequest(tool, alias=request.POST.get(f"alias-{tool.pk}", "").strip()) for tool in ticked
    ]
    answers = pins.pin_several(agent, actor=person(request), wanted=wanted)
    asked = []
    for each, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, DomainError) and "alias" in answer.fields:
            proposal = answer.proposal if isinstance(answer, NameTakenError) else ""
            asked.append(NameAsked(each.tool, each.alias or proposal, answer.message))
        elif isinstance(answer, DomainError):
            messages.error(request, answer.message)
    if done := sum(isinstance(answer, Pin) for answer in answers):
        messages.success(request, f"{done} tool{'s are' if done > 1 else ' is'} pinned to {agent}.")
    if asked:
        return render(request, "designer/pin_names.html", {"agent": agent, "asked": asked})
    return redirect("agent", agent.slug)


@dataclass(frozen=True)
class NameAsked:
    """A tool that is not pinned yet, because its name is taken; `alias` is proposed, or what was typed."""

    tool: Tool
    alias: str
    message: str


def _found(asked: QueryDict, allowed: Allowed) -> tuple[ResultPage, str]:
    try:
        return search.search(_query(asked, allowed)), ""
    except DomainError as error:
        # What an old address asks for may be gone; then nothing is found, and a sentence says why.
        return ResultPage([], None, None, 0, False), next(iter(error.fields.values()), error.message)


def _query(asked: QueryDict, allowed: Allowed) -> Query:
    status = asked.get("status") or ToolStatus.ACTIVE.value
    return Query(
        q=asked.get("q", ""),
        vendor=tuple(filter(None, asked.getlist("vendor"))),
        protocol=tuple(filter(None, asked.getlist("protocol"))),
        tag=tuple(filter(None, asked.getlist("tag"))),
        status="" if status == ANY_STATUS else status,
        endpoint=number(asked.get("endpoint", "")) if asked.get("endpoint") else None,
        sort=asked.get("sort", ""),
        cursor=asked.get("cursor", ""),
        within=allowed.keys,
    )


def _shown(rows: list[dict[str, Any]], agent: Agent | None) -> list[dict[str, Any]]:
    # Each row with how many agents use the tool, and the number of this agent's pin if it is among them.
    counted = _use().rows(tools=[row["id"] for row in rows], agent=agent and agent.pk)
    use = {tool: {"used_by": agents, "pinned": pin} for tool, agents, pin in counted}
    # Fifty reversals take more than a millisecond.
    before, _, after = reverse("tool", args=[0]).rpartition("0")
    return [
        row
        | use.get(row["id"], {"used_by": 0, "pinned": None})
        | {
            "address": f"{before}{row['id']}{after}",
            "says_status": "Not let through" if row["is_stopped"] else ToolStatus(row["status"]).label,
        }
        for row in rows
    ]


@cache
def _use() -> CompiledQuery[tuple[Any, int, int | None]]:
    live = Pin.objects.live().filter(tool__in=given_keys("tools")).order_by().values("tool")
    counted = live.annotate(
        used_by=Count("agent", distinct=True), pinned=Max("pk", filter=Q(agent=given("agent")))
    )
    return CompiledQuery(counted.values_list("tool", "used_by", "pinned"))


def _filters(asked: QueryDict, allowed: Allowed) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
    offered = search.choices()
    if allowed.vendors is not None:
        usable = {vendor.slug for vendor in allowed.vendors.values()}
        offered["vendor"] = [choice for choice in offered["vendor"] if choice.value in usable]
    filters = [
        (name, label, _options([("", everything), *offered[name]], asked.get(name, "")))
        for name, (label, everything) in LABELS.items()
        if len(offered[name]) > 1 or asked.get(name)
    ]
    statuses = [("", "Active"), (ToolStatus.WITHDRAWN.value, "Withdrawn"), (ANY_STATUS, "Any status")]
    filters.append(("status", "Status", _options(statuses, asked.get("status", ""))))
    filters.append(("sort", "Sort by", _options(SORTS.items(), asked.get("sort", ""))))
    return filters


def _options(choices: Iterable[tuple[str, str]], chosen: str) -> list[tuple[str, str, bool]]:
    # What is chosen stays on offer, however rare it is.
    offered = list(choices)
    if chosen and chosen not in dict(offered):
        offered.append((chosen, chosen))
    return [(value, label, value == chosen) for value, label in offered]


def _address(asked: QueryDict) -> str:
    # Without what was left empty, so that the address can be passed on.
    kept = QueryDict(mutable=True)
    for name in (*FILTER_PARAMETERS, "sort", "agent"):
        kept.setlist(name, [value for value in asked.getlist(name) if value])
    query = kept.urlencode()
    return f"{reverse('tool-list')}?{query}" if query else reverse("tool-list")
