"""Proposals for the sentences of a procedure that name no tool: a tool, a sub-agent, or a tool that is
missing.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from catalog.models import Endpoint, Tool
from catalog.models.tools import ToolStatus
from catalog.models.vendors import EndpointStatus
from catalog.search import listing
from catalog.search.tool_query import Query
from core.compiled_queries import CompiledQuery, named_keys, named_value
from core.errors import DomainError
from designer.agents import agent_vendors, agents
from designer.models import Agent, Pin, Procedure, ProcedureDraft, Transfer
from designer.pins import pins
from designer.procedures import editing, references, supplies, vocabulary
from designer.procedures.references import Piece
from designer.procedures.supplies import ProcedureSentence
from people.models import User

# Each sentence is one search.
MAX_SENTENCES = 6
MAX_TOOLS = 3
MIN_WORDS = 2
# Errors of a sync that a sign-in ends.
REFUSED = ("AUTH", "NEEDS_SIGN_IN")
_LAYOUT = re.compile(r"^\s*(?:(?:[>*+•-]|\d{1,3}[.)])\s+)+")
_END = " \t*_.!?;:"


@dataclass(frozen=True, slots=True)
class Proposal:
    """The tools that one sentence may use; none if nothing fits it.

    line: from 1.
    tools: rows of the search, each with `pin`, the name by which the agent has it pinned, or "".
    """

    text: str
    line: int
    tools: Sequence[Mapping[str, Any]] = ()
    sub_agents: Sequence[Agent] = ()


@dataclass(frozen=True, slots=True)
class Proposals:
    """Tools that are proposed for the sentences of a procedure.

    rows: in the order of the text. sign_ins: endpoints of its tools that wait for a sign-in.
    is_more: further sentences name no tool.
    """

    rows: Sequence[Proposal]
    sign_ins: Sequence[Endpoint]
    is_more: bool

    @property
    def fitting(self) -> list[Proposal]:
        return [row for row in self.rows if row.tools]

    @property
    def unmet(self) -> list[Proposal]:
        return [row for row in self.rows if not row.tools]


def propose(agent: Agent, text: str) -> Proposals:
    """Return the proposals for a text, stored or as entered."""
    pieces = references.parse(text, vocabulary.vocabulary_of(agent, texts=[text]))
    displayed, waiting = references.display_text(pieces), find_open_sentences(pieces)
    within = agent_vendors.allowed_vendors_of(agent).keys
    query = Query(status=(ToolStatus.ACTIVE,), within=within, limit=2 * MAX_TOOLS)
    pin_names = dict(_PIN_NAMES.rows(agent=agent.pk))
    first = waiting[:MAX_SENTENCES]
    questions = [_LAYOUT.sub("", sentence.text).strip(_END) for sentence in first]
    rows = []
    for sentence, first_tools in zip(first, listing.find_first_tools(questions, query), strict=True):
        matches = [] if first_tools.fits_badly else [row for row in first_tools.rows if not row["is_stopped"]]
        tools = [row | {"pin": pin_names.get(row["id"], "")} for row in matches[:MAX_TOOLS]]
        line = displayed.count("\n", 0, sentence.start) + 1
        rows.append(Proposal(sentence.text.strip(), line, tools))
    endpoints = {tool["endpoint"] for row in rows for tool in row.tools}
    sign_ins = find_sign_ins(agent, endpoints)
    tool_ids = {tool["id"] for row in rows for tool in row.tools}
    holders: defaultdict[int, dict[int, Agent]] = defaultdict(dict)
    if tool_ids:
        keys = {"agent": agent.pk, "team": agent.team_id, "tree": list(agents.tree_of(agent))}
        for pin in _PINS_OF_PROPOSED_AGENTS.rows(tools=list(tool_ids), **keys):
            holders[pin.tool_id][pin.agent_id] = pin.agent
    result = []
    for row in rows:
        sub_agents = {key: holder for tool in row.tools for key, holder in holders[tool["id"]].items()}
        result.append(replace(row, sub_agents=list(sub_agents.values())[:MAX_TOOLS]))
    return Proposals(result, sign_ins, len(waiting) > MAX_SENTENCES)


def find_open_sentences(pieces: Iterable[Piece]) -> list[ProcedureSentence]:
    """Return the sentences of the displayed text that name no tool and could: no headings, lists of tools,
    introductions of a list or things to ask for.
    """
    text, offsets = "", []
    for piece in pieces:
        if piece.reference and piece.reference.kind != "item":
            offsets.append(len(text))
        text += piece.display_text
    return [
        sentence
        for sentence in supplies.sentences(text)
        if not (sentence.is_listed or sentence.lists_tools)
        and not text[text.rfind("\n", 0, sentence.start) + 1 :].lstrip().startswith("#")
        and not sentence.text.rstrip().endswith(":")
        and len(_LAYOUT.sub("", sentence.text).split()) >= MIN_WORDS
        and not any(sentence.start <= offset < sentence.end for offset in offsets)
    ]


@transaction.atomic
def accept(
    procedure: Procedure,
    *,
    actor: User,
    title: str,
    body: str,
    based_on: int,
    sentence: str,
    target: Tool | Agent,
) -> tuple[ProcedureDraft, int]:
    """Pin the tool, or make the agent a sub-agent, if it is not yet, and name it at the end of the sentence.

    Return the actor's draft with the new text, and the line of the sentence. Raises DomainError if the text
    does not have the sentence any more.
    """
    pieces = references.parse(body, vocabulary.vocabulary_of(procedure.agent, texts=[body]))
    text = references.display_text(pieces)
    row = next((row for row in find_open_sentences(pieces) if row.text.strip() == sentence.strip()), None)
    if row is None:
        message = _("This sentence was changed or removed. Choose from the new proposals.")
        raise DomainError("sentence_changed", message, fields={"sentence": message}, status=409)
    pin = None
    if isinstance(target, Agent):
        if target.parent_id != procedure.agent_id:
            agents.update_agent(target, actor=actor, parent=procedure.agent)
        name = Transfer.objects.get(child=target).name
    elif pinned := procedure.agent.pins.live().filter(tool=target).first():
        name = pinned.name
    else:
        pin = pins.pin_tool(procedure.agent, actor=actor, tool=target)
        name = pin.name
    end = row.start + len(row.text.rstrip(_END))
    text = f"{text[:end]}: {name}(){text[end:]}"
    draft = editing.keep_draft(procedure, user=actor, title=title, body=text, based_on=based_on)
    if pin:
        draft.pins_made.add(pin)
    return draft, text.count("\n", 0, end) + 1


def proposed_agents(agent: Agent) -> QuerySet[Agent]:
    """Return the agents of its team that are its sub-agents, or that could be: without a parent."""
    return _select_proposed_agents(agent.pk, agent.team_id, agents.tree_of(agent))


def _select_proposed_agents(agent: Any, team: Any, tree: Any) -> QuerySet[Agent]:
    is_own = Q(parent=agent)
    rows = Agent.objects.active().filter(is_own | Q(parent=None), team=team)
    return rows.exclude(~is_own & Q(pk__in=tree))


def find_sign_ins(agent: Agent, endpoints: Collection[int] = ()) -> list[Endpoint]:
    """Return the endpoints that wait for a sign-in: the endpoints of the agent's tools, and those in
    `endpoints`.
    """
    return [
        row
        for row in _ENDPOINTS_NEEDING_ACTION.rows(agent=agent.pk, endpoints=list(endpoints))
        if row.status == EndpointStatus.NEEDS_SIGN_IN or (row.error_code in REFUSED and not row.credential_id)
    ]


_PIN_NAMES: CompiledQuery[tuple[int, str]] = CompiledQuery(
    lambda: Pin.objects.live().filter(agent=named_value("agent")).values_list("tool_id", "name")
)
_ENDPOINTS_NEEDING_ACTION: CompiledQuery[Endpoint] = CompiledQuery(
    lambda: (
        Endpoint.objects.needing_action()
        .with_status()
        .select_related("vendor")
        .filter(
            Q(pk__in=named_keys("endpoints"))
            | Q(pk__in=Pin.objects.live().filter(agent=named_value("agent")).values("tool__endpoint"))
        )
    )
)
# The agents with a pin of a proposed tool that the agent could transfer to.
_PINS_OF_PROPOSED_AGENTS: CompiledQuery[Pin] = CompiledQuery(
    lambda: (
        Pin.objects.live()
        .filter(
            tool__in=named_keys("tools"),
            agent__in=_select_proposed_agents(named_value("agent"), named_value("team"), named_keys("tree")),
        )
        .select_related("agent")
        .order_by("agent__name")
    )
)
