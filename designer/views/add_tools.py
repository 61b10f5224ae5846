"""Choose tools for an agent: a search, a selection across several searches, and its cost.

The form and, without the script, the address contain the whole state; nothing is stored here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.search import ResultPage
from catalog.token_estimate import tokens_of
from catalog.tools import effective_texts
from catalog.views.asked import number
from core.errors import DomainError
from designer.agents import agent_vendors, transfers
from designer.agents.agent_vendors import AllowedVendors
from designer.exports.base import Format
from designer.models import Agent
from designer.overviews import shown_tools
from designer.pins import pinned_signatures, pins, token_budget
from designer.signatures import model_names
from designer.views import tool_search
from people.models import Role
from people.permissions import person, requires
from protocols.signature import Signature

TIGHTEST = min(
    (format_ for format_ in shown_tools.TEXTS.values() if format_.limits.advised_tools),
    key=lambda format_: format_.limits.advised_tools or 0,
)
SEARCH_PARAMETERS = ("q", "kind", "vendor", "tag", "protocol", "sort")


@requires(Role.DESIGNER)
def add_tools(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the page, the dialog on the agent's page, or a part of them that htmx swaps."""
    agents = Agent.objects.active().visible_to(person(request)).select_related("token_limit")
    agent = get_object_or_404(agents, slug=slug)
    is_partial = request.headers.get("HX-Request") == "true"
    if request.method != "POST":
        choice = ToolSelection.from_parameters(agent, request.GET)
        return _render_page(request, choice, "designer/_add_tools_dialog.html" if is_partial else "")
    if request.POST.get("do") == "pin":
        partial = "designer/_add_choice.html" if is_partial else ""
        done, refused = pin_ticked(request, agent)
        if refused or not done:
            return _render_page(
                request,
                ToolSelection.from_parameters(agent, request.POST, errors_by_tool=refused, done=done),
                partial,
            )
        messages.success(request, describe_pinned(done, agent))
        address = reverse("agent", args=[agent.slug])
        return HttpResponse(headers={"HX-Redirect": address}) if partial else redirect(address)
    choice = ToolSelection.from_parameters(agent, request.POST)
    return (
        _render_page(request, choice, "designer/_add_choice.html") if is_partial else redirect(choice.address)
    )


def _render_page(request: HttpRequest, choice: "ToolSelection", partial: str) -> HttpResponse:
    filters = tool_search.filters(choice.asked, choice.allowed)
    context = {
        "choice": choice,
        "agent": choice.agent,
        "allowed": choice.allowed,
        "asked": choice.asked,
        "rows": choice.rows,
        "filters": [row for row in filters if row[0] in SEARCH_PARAMETERS],
    }
    return render(request, partial or "designer/add_tools.html", context)


def pin_ticked(request: HttpRequest, agent: Agent) -> tuple[int, dict[int, DomainError]]:
    """Return the number of pinned tools, and by tool the reason why another was not pinned."""
    ordinals = dict(_ticks(request.POST)[: pins.MAX_PINS_PER_REQUEST])
    tools = Tool.objects.select_related("endpoint__vendor").in_bulk(ordinals)
    requests = [
        pins.PinRequest(tools[pk], ordinal=ordinal or None, alias=request.POST.get(f"alias-{pk}", "").strip())
        for pk, ordinal in ordinals.items()
        if pk in tools
    ]
    answers = pins.pin_several(agent, actor=person(request), pin_requests=requests)
    refused = {
        pin_request.tool.pk: answer
        for pin_request, answer in zip(requests, answers, strict=True)
        if isinstance(answer, DomainError)
    }
    return len(requests) - len(refused), refused


def describe_pinned(count: int, agent: Agent) -> str:
    message = ngettext("{count} tool is pinned to {agent}.", "{count} tools are pinned to {agent}.", count)
    return message.format(count=count, agent=agent)


def _ticks(parameters: QueryDict) -> list[tuple[int, int]]:
    # The last one counts, which is the one in the list that was searched last.
    pairs = (row.partition(":") for row in parameters.getlist("tool"))
    ordinal_by_tool = {number(pk): number(ordinal) for pk, _, ordinal in pairs}
    return [(pk, ordinal) for pk, ordinal in ordinal_by_tool.items() if pk]


def address(agent: Agent, parameters: Mapping[str, list[str]]) -> str:
    query = urlencode({name: values for name, values in parameters.items() if any(values)}, doseq=True)
    return reverse("add-tools", args=[agent.slug]) + (f"?{query}" if query else "")


@dataclass(frozen=True)
class TickedTool:
    """A tool in the tray. `message`: why it was refused, or why it needs an alias; `alias`: entered or
    proposed."""

    tool: Tool
    signature: Signature
    alias: str = ""
    message: str = ""
    asks_name: bool = False

    @property
    def tokens(self) -> int:
        return tokens_of(self.signature)


@dataclass(frozen=True)
class BudgetPreview:
    """The tokens and tools of the agent including the ticked tools, against the lowest known limit."""

    tokens: int
    tools: int
    more_tokens: int
    more_tools: int
    # The limit that the agent's designer set for tools and procedures together.
    allows: int | None

    tightest: ClassVar[Format] = TIGHTEST

    @property
    def advised(self) -> int:
        return self.tightest.limits.advised_tools or 0

    @property
    def all_tokens(self) -> int:
        return self.tokens + self.more_tokens

    @property
    def all_tools(self) -> int:
        return self.tools + self.more_tools

    @property
    def is_too_long(self) -> bool:
        return self.allows is not None and self.all_tokens > self.allows

    @property
    def is_over(self) -> bool:
        return self.all_tools > self.advised

    @property
    def bar(self) -> dict[str, float]:
        """Return the lengths of the bar in hundredths; the bar ends at the limit, or beyond it."""
        maximum = max(self.all_tools, self.advised)
        parts = {"now": self.tools, "more": self.more_tools, "mark": self.advised}
        return {name: 100 * size / maximum for name, size in parts.items()}


@dataclass(frozen=True)
class ToolSelection:
    """The ticked tools of the page that pins several. `cursor` is of the page of results that is shown.
    `done` is the number of tools that the last press pinned.
    """

    agent: Agent
    allowed: AllowedVendors
    asked: QueryDict
    cursor: str
    page: ResultPage
    problem: str
    rows: list[dict[str, Any]]
    ticked: list[TickedTool]
    budget: BudgetPreview
    done: int = 0
    is_full: bool = False
    refused: Mapping[int, DomainError] = field(default_factory=dict)
    most: int = pins.MAX_PINS_PER_REQUEST

    @classmethod
    def from_parameters(
        cls,
        agent: Agent,
        parameters: QueryDict,
        *,
        errors_by_tool: Mapping[int, DomainError] | None = None,
        done: int = 0,
    ) -> Self:
        allowed = agent_vendors.allowed_vendors_of(agent)
        action, _, target = parameters.get("do", "").partition(":")
        cursor = {"to": target, "search": ""}.get(action, parameters.get("at", ""))
        query = replace(tool_search.query_of(parameters, allowed), status=(ToolStatus.ACTIVE,), endpoint=None)
        page, problem = tool_search.search_tools(replace(query, cursor=cursor))
        here = {pin.tool_id: pin for pin in pinned_signatures.read_tools([agent])}
        rows = [
            row | {"pinned": (pin := here.get(row["id"])), "is_offered": not (pin or row["is_stopped"])}
            for row in tool_search.with_pictures(page.rows)
        ]
        ticks = [pk for pk in _ticked_tool_ids(parameters, rows) if pk not in here]
        ticked = _tray(
            agent,
            ticks[: pins.MAX_PINS_PER_REQUEST],
            parameters,
            here.values(),
            allowed,
            errors_by_tool or {},
        )
        ticked_ids = {item.tool.pk for item in ticked}
        return cls(
            agent=agent,
            allowed=allowed,
            asked=parameters,
            cursor=cursor,
            page=page,
            problem=problem,
            rows=[row | {"is_ticked": row["id"] in ticked_ids} for row in rows],
            ticked=ticked,
            budget=BudgetPreview(
                tokens=sum(token_budget.tokens(pinned_signatures.effective_of(pin)) for pin in here.values()),
                tools=len(here),
                more_tokens=sum(item.tokens for item in ticked),
                more_tools=len(ticked),
                allows=limit.tokens if (limit := getattr(agent, "token_limit", None)) else None,
            ),
            done=done,
            is_full=len(ticks) > pins.MAX_PINS_PER_REQUEST,
            refused=errors_by_tool or {},
        )

    @property
    def elsewhere(self) -> list[TickedTool]:
        """Return the selected tools that the current list does not contain."""
        boxes = {row["id"] for row in self.rows if row["is_offered"]}
        return [item for item in self.ticked if item.tool.pk not in boxes]

    @property
    def counts(self) -> dict[str, int]:
        offered = [row for row in self.rows if row["is_offered"]]
        return {"all": len(offered), "reads": sum(row["effect"] == "reads" for row in offered)}

    @property
    def says_count(self) -> str:
        return tool_search.describe_count(self.page, self.asked.get("kind", ""))

    @property
    def is_empty_press(self) -> bool:
        return self.asked.get("do") == "pin" and not self.ticked

    @property
    def is_searched(self) -> bool:
        return any(self.asked.get(name) for name in SEARCH_PARAMETERS if name != "sort")

    @property
    def address(self) -> str:
        """Return the address at which a browser without the script finds all of this again."""
        query = {name: self.asked.getlist(name) for name in SEARCH_PARAMETERS}
        ticked = {"at": [self.cursor], "tool": [str(row.tool.pk) for row in self.ticked]}
        typed = {f"alias-{row.tool.pk}": [self.asked.get(f"alias-{row.tool.pk}", "")] for row in self.ticked}
        return address(self.agent, query | ticked | typed)


def _ticked_tool_ids(parameters: QueryDict, rows: list[dict[str, Any]]) -> list[int]:
    """Return the tools that are ticked after a button was pressed. `rows`: those that the page shows."""
    action, _, target = parameters.get("do", "").partition(":")
    offered = {row["id"]: row["effect"] for row in rows if row["is_offered"]}
    ticks = [pk for pk, _ in _ticks(parameters)]
    if action == "drop":
        return [pk for pk in ticks if pk != number(target)]
    if action == "all":
        return list(dict.fromkeys([*ticks, *offered]))
    if action in ("none", "reads"):
        ticks = [pk for pk in ticks if pk not in offered]
        return ticks + [pk for pk, effect in offered.items() if action == "reads" and effect == "reads"]
    return ticks


def _tray(
    agent: Agent,
    ticks: list[int],
    parameters: QueryDict,
    here: Any,
    allowed_vendors: AllowedVendors,
    errors_by_tool: Mapping[int, DomainError],
) -> list[TickedTool]:
    tools = Tool.objects.filter(current__isnull=False).select_related("current", "endpoint__vendor")
    tool_rows = tools.in_bulk(ticks)
    signatures = effective_texts.effective_signatures(tool_rows.values())
    used_names = [*(pin.name for pin in here), *transfers.names_of(agent)] if tool_rows else []
    tray = []
    for tool in (tool_rows[pk] for pk in ticks if pk in tool_rows):
        typed = parameters.get(f"alias-{tool.pk}", "").strip()
        name = typed or model_names.derive(signatures[tool.pk].name)
        free = model_names.propose(name, used_names, vendor=tool.endpoint.vendor.slug)
        error = errors_by_tool.get(tool.pk)
        message = error.message if error else allowed_vendors.refusal(agent, tool)
        if not typed and free != name:
            message = message or _(
                "Another tool of “{agent}” is called “{name}”. The model can call this one:"
            ).format(agent=agent, name=name)
        asks_name = bool(typed) or free != name or bool(error and "alias" in error.fields)
        alias = (typed or free) if asks_name else ""
        tray.append(TickedTool(tool, signatures[tool.pk], alias, message, asks_name))
        used_names.append(alias or name)
    return tray
