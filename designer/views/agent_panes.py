"""The side panel of an agent's pages: its tools and procedures."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from catalog.models.tools import ItemKind, ToolStatus
from catalog.token_estimate import tokens_of
from core import numbered_pages
from core.compiled_queries import PreparedQuery, named_value
from core.numbered_pages import NumberedPage
from designer.agents import agent_vendors, transfers
from designer.agents.agent_vendors import AllowedVendors
from designer.models import Agent, Pin, Procedure
from designer.overviews import shown_tools
from designer.overviews.shown_tools import FormatBudget
from designer.pins import pinned_signatures, token_budget
from designer.upgrades import pending_work

LINES_SHOWN = 50


def read_pins(agent: Agent) -> list[Pin]:
    """Return the rows of `pinned_signatures.read_items` with all that the panes show of them."""
    pins = _PINS.rows(agent=agent.pk)
    for pin in pins:
        pin.agent = agent
    return pins


_PINS: PreparedQuery[Pin] = PreparedQuery(
    lambda: (
        pending_work.with_newer(
            pinned_signatures.with_signatures(Pin.objects.live().filter(agent=named_value("agent")))
        )
        .select_related("tool__current", "tool__stopped", "tool__tool_picture")
        .defer(
            "version__raw",
            *("tool__current__raw", "tool__current__signature"),
            *("tool__stopped__raw", "tool__stopped__signature"),
        )
    )
)
_CHILDREN: PreparedQuery[Agent] = PreparedQuery(
    lambda: (
        Agent.objects.live().filter(parent=named_value("parent")).select_related("transfer").order_by("name")
    )
)
_PROCEDURES: PreparedQuery[Procedure] = PreparedQuery(
    lambda: Procedure.objects.live().filter(agent=named_value("agent")).defer("text")
)


def pane_context(
    agent: Agent,
    *,
    pane: str = "",
    in_format: FormatBudget | None = None,
    pins: Sequence[Pin] | None = None,
    query: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the context of `agent_base.html`. `pane` is the open pane: `pin-7`, `procedure-3`, `overview`;
    "" for none.
    `pins`: those of `read_pins`, if they were read. `query`: that of the address, with the page of the list
    and the text to find.
    """
    pins = read_pins(agent) if pins is None else pins
    reviews = pending_work.reviews(pins)
    allowed = agent_vendors.allowed_vendors_of(agent)
    every_line = [_line(pin, reviews.get(pin.pk), allowed, in_format) for pin in pins]
    lines = [line for line in every_line if line["pin"].tool.kind == ItemKind.TOOL]
    context_lines = [line for line in every_line if line["pin"].tool.kind != ItemKind.TOOL]
    below = _CHILDREN.rows(parent=agent.pk)
    active = [child for child in below if not child.archived_at]
    handed: list[dict[str, Any]] = []
    for row in [child.transfer for child in active]:
        # A model is shown a transfer as a tool.
        tokens = token_budget.tokens_of_transfer(row.name, transfers.description_of(row))
        handed.append({"transfer": row, "tokens": in_format.costs.get(row.name) if in_format else tokens})
    return {
        "agent": agent,
        "handed": handed,
        "sub_agents": below if agent.archived_at else active,
        "archived_sub_agents": [] if agent.archived_at else [child for child in below if child.archived_at],
        "allowed": allowed,
        "lines": lines,
        "line_groups": [
            (_("Tools"), _page_of_lines(lines, "agent-tools", pane, query or {})),
            *(
                [
                    (
                        _("Prompts and resources"),
                        _page_of_lines(context_lines, "agent-items", pane, query or {}),
                    )
                ]
                if context_lines
                else []
            ),
        ],
        "find": (query or {}).get("find", ""),
        "can_find": len(every_line) > LINES_SHOWN,
        "is_in_panes": True,
        "total": sum(row["tokens"] or 0 for row in (*lines, *handed)),
        "procedures": _page_of_procedures(agent, pane, query or {}),
        "chosen": pane,
        "counted": in_format.format if in_format else shown_tools.USUAL,
        "held_count": sum(review.tone == "bad" for review in reviews.values()),
        "behind_count": sum(line["is_behind"] for line in every_line),
    }


def _page_of_procedures(agent: Agent, pane: str, query: Mapping[str, str]) -> NumberedPage[Procedure]:
    """Return the procedures of one page: that of the address, else the one with the open pane."""
    rows = _PROCEDURES.rows(agent=agent.pk)
    opened = next((number for number, row in enumerate(rows, 1) if f"procedure-{row.pk}" == pane), 1)
    name = "agent-procedures"
    return numbered_pages.page_of(rows, query.get(name, str(opened)), size=LINES_SHOWN, name=name)


def _page_of_lines(
    lines: Sequence[dict[str, Any]], name: str, pane: str, query: Mapping[str, str]
) -> NumberedPage[dict[str, Any]]:
    """Return the lines of one page: that of the address, else the one with the open pane."""
    if wanted := query.get("find", "").strip().casefold():
        searched = "{0.name} {0.tool.name} {0.tool.endpoint.vendor}"
        lines = [line for line in lines if wanted in searched.format(line["pin"]).casefold()]
    opened = next((number for number, line in enumerate(lines, 1) if line["item"] == pane), 1)
    return numbered_pages.page_of(lines, query.get(name, str(opened)), size=LINES_SHOWN, name=name)


def _line(
    pin: Pin,
    review: pending_work.Review | None,
    allowed_vendors: AllowedVendors,
    in_format: FormatBudget | None,
) -> dict[str, Any]:
    """Return a pin's line in the list of an agent. `tokens` is None if the selected format cannot carry the
    tool.
    """
    signature = pinned_signatures.effective_of(pin)
    is_gone = pin.tool.status == ToolStatus.WITHDRAWN
    is_tuned = hasattr(pin, "tuning") or hasattr(pin.tool, "tuning")
    line = {
        "pin": pin,
        "item": f"pin-{pin.pk}",
        "effect": signature.annotations.effect,
        "limit": allowed_vendors.excluding_limit(pin.tool.endpoint.vendor),
        "tokens": in_format.costs.get(pin.name) if in_format else token_budget.tokens(signature),
        "vendors_tokens": tokens_of(pin.version.decoded()) if is_tuned and not in_format else 0,
        "is_behind": pin.version_id != pin.tool.current_id and pin.newer > 0,
        "is_tuned": is_tuned,
        "misfits": pinned_signatures.misfits_of(pin),
        "stale": len(pinned_signatures.stale_of(pin)),
        # That a tool is gone weighs more than that a change of it waits.
        "review": review if review and (review.tone == "bad" or not is_gone) else None,
    }
    noted = ("limit", "is_behind", "is_tuned", "misfits", "stale", "review")
    return line | {"has_notes": is_gone or any(line[name] for name in noted)}
