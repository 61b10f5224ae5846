"""A root agent and everything below it: the tools and texts that each agent sends to a model, and the tree's
problems.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from catalog.token_estimate import estimate_tokens
from designer.agents import agents, transfers
from designer.models import Agent, Pin, Procedure, Transfer
from designer.pins import pinned_signatures, token_budget
from designer.procedures import lint, references, rendering, vocabulary
from designer.procedures.references import Piece, Vocabulary, VocabularyTool

MAX_NAMES = 3


@dataclass(frozen=True)
class Problem:
    """A problem of an agent tree. where: the agent to fix. `code`: the code of the lint issue, if there is
    one.
    """

    code: str
    where: Agent
    message: str
    fix: str


@dataclass(frozen=True)
class TreeNode:
    """One agent with its tools and texts. `path` sums the tokens from the root down to this agent."""

    agent: Agent
    depth: int
    tools: Sequence[tuple[Pin, int]]
    transfers: Sequence[tuple[Transfer, int]]
    procedures: Sequence[tuple[Procedure, int]]
    tokens: int
    path: int

    @classmethod
    def measure(
        cls,
        agent: Agent,
        depth: int,
        tools: Sequence[tuple[Pin, int]],
        agent_transfers: Sequence[Transfer],
        pieces: Mapping[Procedure, Sequence[Piece]],
        *,
        above: int,
    ) -> "TreeNode":
        """Count the tokens of an agent. above: the tokens from the root to its parent."""
        transfer_tokens = [
            (transfer, token_budget.tokens_of_transfer(transfer.name, transfers.description_of(transfer)))
            for transfer in agent_transfers
        ]
        texts = [
            (procedure, estimate_tokens(references.rendered_text(text))) for procedure, text in pieces.items()
        ]
        tokens = sum(count for part in (tools, transfer_tokens, texts) for _, count in part)
        return cls(agent, depth, tools, transfer_tokens, texts, tokens, above + tokens)


@dataclass(frozen=True)
class Tree:
    """Nodes in tree order."""

    nodes: Sequence[TreeNode]
    problems: Sequence[Problem]

    @property
    def tokens(self) -> int:
        return sum(node.tokens for node in self.nodes)

    @property
    def largest(self) -> TreeNode:
        return max(self.nodes, key=lambda node: node.path)

    @property
    def largest_path(self) -> list[Agent]:
        agents_by_id = {node.agent.pk: node.agent for node in self.nodes}
        path, parent_id = [self.largest.agent], self.largest.agent.parent_id
        while parent_id in agents_by_id:
            path.insert(0, agents_by_id[parent_id])
            parent_id = agents_by_id[parent_id].parent_id
        return path


def read_tree(agent: Agent) -> Tree:
    """Read the tree. The number of queries does not grow with the tree."""
    rows = list(Agent.objects.live().filter(pk__in=agents.tree_of(agent)).select_related("parent"))
    pins: defaultdict[int, list[Pin]] = defaultdict(list)
    for pin in pinned_signatures.read_tools(rows):
        pins[pin.agent_id].append(pin)
    transfers_by_agent: defaultdict[int, list[Transfer]] = defaultdict(list)
    for transfer in transfers.transfers_from(rows):
        transfers_by_agent[transfer.agent_id].append(transfer)
    procedure_rows = rendering.rows_of(rows)
    nodes: list[TreeNode] = []
    problems: list[Problem] = []
    paths: dict[int | None, int] = {None: 0}
    for depth, row in agents.in_tree_order(rows):
        effective_pins = [(pin, pinned_signatures.effective_of(pin)) for pin in pins[row.pk]]
        names = Vocabulary(
            tools=(
                *(vocabulary.known_tool(pin, effective) for pin, effective in effective_pins),
                *(
                    VocabularyTool(pin=pin.pk, name=pin.name, state="removed")
                    for pin in procedure_rows[row.pk].removed
                ),
            ),
            agents=(*map(vocabulary.known_agent, transfers_by_agent[row.pk]), *procedure_rows[row.pk].gone),
        )
        pieces = {
            procedure: references.parse(procedure.text, names)
            for procedure in procedure_rows[row.pk].procedures
        }
        node = TreeNode.measure(
            row,
            depth,
            [(pin, token_budget.tokens(effective)) for pin, effective in effective_pins],
            transfers_by_agent[row.pk],
            pieces,
            above=paths.get(row.parent_id, 0),
        )
        nodes.append(node)
        paths[row.pk] = node.path
        other_pins = [pin for holder, members in pins.items() if holder != row.pk for pin in members]
        problems += _find_procedure_problems(row, pieces, names, other_pins, procedure_rows[row.pk].removed)
        problems += [
            Problem(remark.code, row, remark.message, remark.fix)
            for remark in lint.unreferenced_issues(pieces.values(), names)
            if remark.code == "agent_unreachable"
        ]
    return Tree(nodes, [*problems, *_find_shared_tools([node for node in nodes if node.tools])])


def _find_procedure_problems(
    agent: Agent,
    pieces: Mapping[Procedure, Sequence[Piece]],
    names: Vocabulary,
    other_pins: Sequence[Pin],
    removed_pins: Sequence[Pin],
) -> Iterator[Problem]:
    """Yield the tools that a procedure names and another agent of the tree has."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    by_tool: defaultdict[int, list[str]] = defaultdict(list)
    for pin in other_pins:
        by_name[pin.name.lower()].append(pin.agent.name)
        by_tool[pin.tool_id].append(pin.agent.name)
    tools = {pin.pk: pin.tool_id for pin in removed_pins}
    for procedure, text in pieces.items():
        for piece in text:
            reference = piece.reference
            if reference is None or reference.kind in ("item", "agent"):
                continue
            if reference.target is None:
                holders, name = by_name.get(reference.name.lower()), reference.name
            else:
                holders = by_tool.get(tools.get(reference.target, 0))
                name = names.by_pin[reference.target].name
            if holders:
                agent_names = _(" and ").join(f"“{holder}”" for holder in holders[:MAX_NAMES])
                yield Problem(
                    "other_agents_tool",
                    agent,
                    _(
                        "“{procedure}”, line {line}: “{tool}()” is a tool of {other_agents}, and “{agent}” "
                        "does not have it."
                    ).format(
                        procedure=procedure, line=piece.line, tool=name, other_agents=agent_names, agent=agent
                    ),
                    _("Move the tool here, pin it here too, or transfer to that agent."),
                )


def _find_shared_tools(nodes: Sequence[TreeNode]) -> Iterator[Problem]:
    holders: defaultdict[int, list[Pin]] = defaultdict(list)
    for node in nodes:
        for pin, _tokens in node.tools:
            holders[pin.tool_id].append(pin)
    for pins in holders.values():
        if len(pins) > 1:
            agent_names = _(" and ").join(f"“{pin.agent}”" for pin in pins)
            message = (
                _("{agents} both have “{tool}”, in different versions.")
                if len({pin.version_id for pin in pins}) > 1
                else _("{agents} both have “{tool}”.")
            )
            yield Problem(
                "tool_twice",
                pins[-1].agent,
                message.format(agents=agent_names, tool=pins[0].tool),
                _("Unpin it in one of them; or leave both, if both need it."),
            )
