"""The names that an agent's procedures may refer to: its pins, its sub-agents, and other tools of the
catalog.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from django.db.models import Count, Min
from django.db.models.functions import Lower
from msgspec import UNSET
from msgspec.structs import replace

from catalog.models import Tool
from catalog.models.findings import FindingState
from catalog.models.tools import ItemKind, ToolStatus
from core.content_cache import ObjectCache
from core.schema import spelling
from designer.agents import transfers
from designer.agents.agents import tree_of
from designer.models import Agent, Pin, Transfer
from designer.pins import pinned_signatures
from designer.procedures.lint import Elsewhere
from designer.procedures.references import (
    AgentState,
    KnownAgent,
    KnownInput,
    KnownOutput,
    ToolState,
    Vocabulary,
    VocabularyTool,
)
from designer.signatures.effective import Effective
from people.models import User
from protocols.signature import Parameter

_PINS_NAMED = re.compile(r"\{(?:tool:|(?:in|out):)(\d{1,18})")
_AGENTS_NAMED = re.compile(r"\{agent:(\d{1,18})\}")
# Names inside a result are collected down to this depth.
MAX_DEPTH = 4
MAX_NAMES_INSIDE = 200


def vocabulary_of(
    agent: Agent, *, texts: Collection[str] = (), pins: Iterable[Pin] | None = None
) -> Vocabulary:
    """Return the vocabulary of an agent. `texts`: stored texts, whose removed pins and agents are included by
    their last name. `pins`: those of `pinned_signatures.read_items`, if they were read.
    """
    items = pinned_signatures.read_items([agent]) if pins is None else pins
    pins = [pin for pin in items if pin.tool.kind == ItemKind.TOOL]
    removed_ids = {int(pin_id) for text in texts for pin_id in _PINS_NAMED.findall(text)} - {
        pin.pk for pin in pins
    }
    removed = Pin.objects.filter(agent=agent, pk__in=removed_ids) if removed_ids else ()
    agent_transfers = transfers.transfers_from([agent])
    child_ids = {agent.pk: [transfer.child_id for transfer in agent_transfers]}
    return build_vocabulary(
        [(pin, pinned_signatures.effective_of(pin)) for pin in pins],
        removed_pins=removed,
        transfers=agent_transfers,
        removed_agents=gone_agents({agent.pk: texts}, child_ids).get(agent.pk, ()),
        kept_out=pinned_signatures.blocked_by_review(pins),
    )


def build_vocabulary(
    pins: Iterable[tuple[Pin, Effective]],
    *,
    removed_pins: Iterable[Pin],
    transfers: Iterable[Transfer],
    removed_agents: Iterable[KnownAgent],
    kept_out: Mapping[int, tuple[FindingState, str]],
) -> Vocabulary:
    """Build the vocabulary from rows that were read already; `kept_out` is that of
    `pinned_signatures.blocked_by_review`.
    """
    tools = []
    for pin, signature in pins:
        state: ToolState = "withdrawn" if pin.tool.status == ToolStatus.WITHDRAWN else ""
        if pin.pk in kept_out:
            state = "blocked" if kept_out[pin.pk][0] == FindingState.BLOCKED else "held"
        tools.append(known_tool(pin, signature, state))
    tools += [VocabularyTool(pin=pin.pk, name=pin.name, state="removed") for pin in removed_pins]
    return Vocabulary(tools=tuple(tools), agents=(*map(known_agent, transfers), *removed_agents))


def known_agent(transfer: Transfer) -> KnownAgent:
    return KnownAgent(id=transfer.child_id, name=transfer.name, title=transfer.child.name)


def gone_agents(
    texts: Mapping[int, Collection[str]], handed: Mapping[int, Collection[int]]
) -> dict[int, tuple[KnownAgent, ...]]:
    """Return, by agent, the agents in its stored texts that are not in `handed`, to which it can transfer."""
    agent_ids = {
        pk: {int(key) for text in agent_texts for key in _AGENTS_NAMED.findall(text)} - set(handed[pk])
        for pk, agent_texts in texts.items()
    }
    all_ids: set[int] = set().union(*agent_ids.values())
    if not all_ids:
        return {}
    teams = dict(Agent.objects.filter(pk__in=agent_ids).values_list("pk", "team_id"))
    agent_by_id = {row.pk: row for row in Agent.objects.filter(pk__in=all_ids).select_related("transfer")}
    known_by_id: dict[int, KnownAgent] = {}
    for pk, agent in agent_by_id.items():
        transfer = getattr(agent, "transfer", None)
        state: AgentState = "removed" if agent.removed_at else "archived" if agent.archived_at else "moved"
        # The transfer of a moved agent is named among other tools now.
        name = transfer.name if transfer and state == "archived" else transfers.default_name(agent)
        known_by_id[pk] = KnownAgent(id=pk, name=name, title=agent.name, state=state)
    # A user may enter any id, and not every reader may see other teams' agents.
    return {
        pk: tuple(
            known_by_id[key] for key in ids if key in known_by_id and agent_by_id[key].team_id == teams[pk]
        )
        for pk, ids in agent_ids.items()
    }


_known_tools: ObjectCache[VocabularyTool] = ObjectCache()


def known_tool(pin: Pin, effective: Effective, state: ToolState = "") -> VocabularyTool:
    return replace(_known_tools.get(effective, lambda: _describe_tool(effective)), pin=pin.pk, state=state)


def _describe_tool(effective: Effective) -> VocabularyTool:
    return VocabularyTool(
        pin=0,
        name=effective.name,
        wire_name=effective.wire_name,
        description=effective.description,
        inputs=tuple(
            KnownInput(
                id=row.parameter.id,
                name=row.alias,
                is_required=row.is_required,
                is_given=row.parameter.default is not UNSET,
                allowed=tuple(value.name for value in row.parameter.allowed_values),
            )
            for row in effective.inputs
        ),
        outputs=tuple(
            KnownOutput(id=row.parameter.id, name=row.alias, holds=_names_inside(row.parameter))
            for row in effective.outputs
        ),
        hidden=frozenset(row.parameter.id for row in effective.hidden),
    )


def _names_inside(parameter: Parameter) -> tuple[str, ...]:
    """Return the property names in a result's schema, down to MAX_DEPTH levels."""
    names: dict[str, None] = {}
    level: list[object] = [parameter.schema]
    for _ in range(MAX_DEPTH):
        next_level: list[object] = []
        for schema in level:
            properties = spelling.properties_of(schema)
            names |= dict.fromkeys(properties)
            next_level += properties.values()
            next_level += [schema.get("items")] if isinstance(schema, dict) else []
        level = next_level[:MAX_NAMES_INSIDE]
    return tuple(names)[:MAX_NAMES_INSIDE]


def find_elsewhere(names: Collection[str], agent: Agent, user: User) -> dict[str, Elsewhere]:
    """Return where tools with these names (lower case) are that this agent has not pinned, as far as `user`
    may see them.
    """
    if not names:
        return {}
    tool_rows = Tool.objects.filter(
        status=ToolStatus.ACTIVE, endpoint__removed_at=None, endpoint__vendor__removed_at=None
    )
    matching = tool_rows.annotate(lower=Lower("name")).filter(lower__in=names).values("lower")
    counts = matching.annotate(count=Count("pk"), first=Min("pk")).order_by()
    tools = {lower: (count, first) for lower, count, first in counts.values_list("lower", "count", "first")}
    pins = Pin.objects.live().visible_to(user).exclude(agent=agent).filter(agent__in=tree_of(agent))
    pinned = pins.annotate(lower=Lower("name")).filter(lower__in=names)
    agents: defaultdict[str, list[str]] = defaultdict(list)
    for name, title in pinned.order_by("agent__name").values_list("lower", "agent__name"):
        agents[name].append(title)
    return {
        name: Elsewhere(tools=count, tool=first, agents=tuple(agents.get(name, ())))
        for name in tools.keys() | agents.keys()
        for count, first in [tools.get(name, (0, None))]
    }
