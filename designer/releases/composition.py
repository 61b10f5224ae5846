"""Compose the release document of an agent from its current rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Max

from catalog.models import Endpoint
from catalog.models.tools import ItemKind
from catalog.rules import retries
from core.canonical_json import canonical
from designer.agents import agents, transfers
from designer.exports import document as release_document
from designer.exports.document import (
    ReleasedAgent,
    ReleasedConfiguration,
    ReleaseDocument,
    ReleasedSubAgent,
    ReleasedTool,
    ReleasedTransfer,
    ReleasedVersion,
)
from designer.models import Agent, Pin, Transfer
from designer.models.pins import PinMode
from designer.pins import pinned_signatures
from designer.procedures import rendering
from designer.signatures.words import Words


@dataclass(frozen=True)
class Node:
    """One agent of a tree: its pins, each as it would be released, and the rows of its procedures.

    `context` are its pins of prompts and resources.
    """

    agent: Agent
    tools: Sequence[tuple[Pin, ReleasedTool]]
    context: Sequence[tuple[Pin, ReleasedTool]]
    rows: rendering.Rows
    released: ReleasedSubAgent

    @property
    def pins(self) -> list[Pin]:
        return [pin for pin, _ in self.tools]

    @property
    def all_pins(self) -> list[Pin]:
        return [pin for pin, _ in (*self.tools, *self.context)]


def trees(roots: Sequence[Agent]) -> dict[int, list[Node]]:
    """Return, by primary key, each root with all its sub-agents, each after its parent. The number of queries
    does not grow with them.
    """
    agents_by_root = agents.with_all_below(roots)
    rows = {agent.pk: agent for tree in agents_by_root.values() for agent in tree}
    procedure_rows = rendering.rows_of(rows.values())
    # One query reads all pins, and one each kind of row that procedures need.
    items: defaultdict[int, list[tuple[Pin, ReleasedTool]]] = defaultdict(list)
    for pin in pinned_signatures.read_items(rows.values()):
        items[pin.agent_id].append((pin, released_tool(pin)))
    nodes = {pk: _build_node(agent, items[pk], procedure_rows[pk], rows) for pk, agent in rows.items()}
    return {root: [nodes[agent.pk] for agent in tree] for root, tree in agents_by_root.items()}


def document(nodes: Sequence[Node], *, number: int) -> ReleaseDocument:
    root, *sub_agents = (node.released for node in nodes)
    return ReleaseDocument(
        schema=release_document.SCHEMA,
        agent=ReleasedAgent(slug=root.slug, name=root.name, description=root.description),
        number=number,
        tools=root.tools,
        procedures=root.procedures,
        transfers=root.transfers,
        agents=tuple(sub_agents),
        context=root.context,
    )


def draft(agent: Agent) -> ReleaseDocument:
    """Return the document that publishing would write now."""
    return document(trees([agent])[agent.pk], number=next_number(agent))


def next_number(agent: Agent) -> int:
    return number_after(agent, agent.releases.aggregate(last=Max("number"))["last"] or 0)


def number_after(agent: Agent, newest: int) -> int:
    """Return the number of the release after release `newest` (0: none exists)."""
    return max(agent.numbers_used, newest) + 1


def tools_of(
    agent: Agent, *, trial_words: Mapping[int, Words] | None = None, pins: Iterable[Pin] | None = None
) -> ReleaseDocument:
    """Return the agent's document without procedures and sub-agents.

    trial_words: texts by pin that replace the stored ones. pins: the rows of `read_items`, if they were read.
    """
    items = pinned_signatures.read_items([agent]) if pins is None else pins
    tools = (
        released_tool(pin, (trial_words or {}).get(pin.pk)) for pin in items if pin.tool.kind == ItemKind.TOOL
    )
    return ReleaseDocument(
        schema=release_document.SCHEMA,
        agent=ReleasedAgent(slug=agent.slug, name=agent.name, description=agent.description),
        number=next_number(agent),
        tools=_by_name(tools),
        transfers=_released_transfers(transfers.transfers_from([agent])),
    )


def is_same(one: ReleaseDocument, other: ReleaseDocument) -> bool:
    # The number is not compared, because it always differs.
    first, second = (
        canonical([row.agent, row.tools, row.procedures, row.transfers, row.agents, row.context])
        for row in (one, other)
    )
    return first == second


def released_tool(pin: Pin, trial_words: Words | None = None) -> ReleasedTool:
    endpoint: Endpoint = pin.tool.endpoint
    version = pin.version
    policy = pinned_signatures.retry_of(pin).policy
    row = pin.configuration
    return ReleasedTool(
        id=pin.tool_id,
        tool_id=pin.tool.tool_id,
        vendor=endpoint.vendor.slug,
        endpoint=endpoint.url,
        protocol=endpoint.protocol,
        version=ReleasedVersion(ordinal=version.ordinal, label=version.label, digest=version.digest),
        signature=pinned_signatures.effective_of(pin, trial_words),
        tuning={
            "catalog": pinned_signatures.words_about(pin.tool),
            "agent": pinned_signatures.agent_words(pin, trial_words),
        },
        retry=None if policy == retries.DEFAULT else policy,
        mode="fresh" if pin.mode == PinMode.FRESH else "cached",
        configuration=ReleasedConfiguration(name=row.name, number=row.number) if row else None,
    )


def _build_node(
    agent: Agent,
    items: Sequence[tuple[Pin, ReleasedTool]],
    rows: rendering.Rows,
    agents_by_id: Mapping[int, Agent],
) -> Node:
    tools = [entry for entry in items if entry[0].tool.kind == ItemKind.TOOL]
    context = [entry for entry in items if entry[0].tool.kind != ItemKind.TOOL]
    parent = agents_by_id.get(agent.parent_id or 0)
    released = ReleasedSubAgent(
        id=agent.pk,
        slug=agent.slug,
        name=agent.name,
        description=agent.description,
        parent=parent.slug if parent else "",
        tools=_by_name(tool for _, tool in tools),
        procedures=rendering.render_procedures(rows, ((pin, tool.signature) for pin, tool in tools)),
        transfers=_released_transfers(rows.transfers),
        context=_by_name(item for _, item in context),
    )
    return Node(agent, tools, context, rows, released)


def _by_name(tools: Iterable[ReleasedTool]) -> tuple[ReleasedTool, ...]:
    return tuple(sorted(tools, key=lambda tool: tool.signature.name))


def _released_transfers(rows: Iterable[Transfer]) -> tuple[ReleasedTransfer, ...]:
    released = (
        ReleasedTransfer(agent=row.child.slug, name=row.name, description=transfers.description_of(row))
        for row in rows
    )
    return tuple(sorted(released, key=lambda transfer: transfer.name))
