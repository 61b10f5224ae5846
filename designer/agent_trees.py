"""A root and all that is below it: what each agent shows a model at once, and what is wrong with the tree."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalog.token_estimate import estimate_tokens
from designer import agents, pinned_signatures, token_budget, transfers
from designer.models import Agent, Pin, Procedure, Transfer
from designer.procedures import lint, references, rendering, vocabulary
from designer.procedures.references import KnownTool, Piece, Vocabulary

NAMED = 3


@dataclass(frozen=True)
class Problem:
    """`where` is the agent to mend it at. `code` is that of the lint, where it has one."""

    code: str
    where: Agent
    message: str
    fix: str


@dataclass(frozen=True)
class Node:
    """One agent with what it shows at once. `path` sums the tokens from the root down to here."""

    agent: Agent
    depth: int
    tools: Sequence[tuple[Pin, int]]
    transfers: Sequence[tuple[Transfer, int]]
    procedures: Sequence[tuple[Procedure, int]]
    tokens: int
    path: int


@dataclass(frozen=True)
class Tree:
    """Nodes in the order of the tree. `deepest` leads to the node whose path shows the most tokens."""

    nodes: Sequence[Node]
    problems: Sequence[Problem]

    @property
    def tokens(self) -> int:
        return sum(node.tokens for node in self.nodes)

    @property
    def largest(self) -> Node:
        return max(self.nodes, key=lambda node: node.path)

    @property
    def largest_path(self) -> list[Agent]:
        known = {node.agent.pk: node.agent for node in self.nodes}
        path, above = [self.largest.agent], self.largest.agent.parent_id
        while above in known:
            path.insert(0, known[above])
            above = known[above].parent_id
        return path


def of(agent: Agent) -> Tree:
    """In a number of queries that does not grow with the tree."""
    rows = list(Agent.objects.live().filter(pk__in=agents.tree_of(agent)).select_related("parent"))
    pins: defaultdict[int, list[Pin]] = defaultdict(list)
    by_key = {row.pk: row for row in rows}
    for pin in pinned_signatures.pinned(rows):
        pin.agent = by_key[pin.agent_id]
        pins[pin.agent_id].append(pin)
    handed: defaultdict[int, list[Transfer]] = defaultdict(list)
    for transfer in transfers.of(rows):
        handed[transfer.agent_id].append(transfer)
    written = rendering.rows_of(rows)
    nodes: list[Node] = []
    problems: list[Problem] = []
    paths: dict[int | None, int] = {None: 0}
    for depth, row in agents.ordered(rows):
        shown = [(pin, pinned_signatures.effective_of(pin)) for pin in pins[row.pk]]
        known = Vocabulary(
            tools=(
                *(vocabulary.known_tool(pin, effective) for pin, effective in shown),
                *(KnownTool(pin=pin.pk, name=pin.name, state="removed") for pin in written[row.pk].removed),
            ),
            agents=(*map(vocabulary.known_agent, handed[row.pk]), *written[row.pk].gone),
        )
        pieces = {each: references.parse(each.text, known) for each in written[row.pk].procedures}
        node = _node(
            row,
            depth,
            [(pin, token_budget.tokens(effective)) for pin, effective in shown],
            handed[row.pk],
            pieces,
            above=paths.get(row.parent_id, 0),
        )
        nodes.append(node)
        paths[row.pk] = node.path
        problems += _of_procedures(row, pieces, known, _elsewhere(row, pins), written[row.pk].removed)
        problems += [
            Problem(remark.code, row, remark.message, remark.fix)
            for remark in lint.unreferenced(pieces.values(), known)
            if remark.code == "agent_unreachable"
        ]
    return Tree(nodes, [*problems, *_of_shared_tools([node for node in nodes if node.tools])])


def _node(
    agent: Agent,
    depth: int,
    tools: Sequence[tuple[Pin, int]],
    handed: Sequence[Transfer],
    pieces: Mapping[Procedure, Sequence[Piece]],
    *,
    above: int,
) -> Node:
    ways = [
        (each, token_budget.tokens_of_transfer(each.name, transfers.description_of(each))) for each in handed
    ]
    texts = [(each, estimate_tokens(references.rendered(text))) for each, text in pieces.items()]
    tokens = sum(count for part in (tools, ways, texts) for _, count in part)
    return Node(agent, depth, tools, ways, texts, tokens, above + tokens)


@dataclass(frozen=True)
class _Elsewhere:
    """Names of the other agents of the tree, by the tool they show: by its name in lower case, by its key."""

    by_name: Mapping[str, list[str]]
    by_tool: Mapping[int, list[str]]


def _elsewhere(agent: Agent, pins: Mapping[int, Sequence[Pin]]) -> _Elsewhere:
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    by_tool: defaultdict[int, list[str]] = defaultdict(list)
    for holder, held in pins.items():
        for pin in held if holder != agent.pk else ():
            by_name[pin.name.lower()].append(pin.agent.name)
            by_tool[pin.tool_id].append(pin.agent.name)
    return _Elsewhere(by_name, by_tool)


def _of_procedures(
    agent: Agent,
    pieces: Mapping[Procedure, Sequence[Piece]],
    known: Vocabulary,
    elsewhere: _Elsewhere,
    removed: Sequence[Pin],
) -> Iterator[Problem]:
    """Tools that a procedure names and another agent of the tree shows: typed, or moved away since."""
    tools = {pin.pk: pin.tool_id for pin in removed}
    for procedure, text in pieces.items():
        for piece in text:
            reference = piece.reference
            if reference is None or reference.kind in ("item", "agent"):
                continue
            if reference.target is None:
                holders, name = elsewhere.by_name.get(reference.name.lower()), reference.name
            else:
                holders = elsewhere.by_tool.get(tools.get(reference.target, 0))
                name = known.by_pin[reference.target].name
            if holders:
                whose = " and ".join(f"“{holder}”" for holder in holders[:NAMED])
                yield Problem(
                    "other_agents_tool",
                    agent,
                    f"“{procedure}”, line {piece.line}: “{name}()” is a tool of {whose}, and “{agent}” is not"
                    " shown it.",
                    "Move the tool here, pin it here too, or hand over to that agent.",
                )


def _of_shared_tools(nodes: Sequence[Node]) -> Iterator[Problem]:
    holders: defaultdict[int, list[Pin]] = defaultdict(list)
    for node in nodes:
        for pin, _ in node.tools:
            holders[pin.tool_id].append(pin)
    for pins in holders.values():
        if len(pins) > 1:
            whose = " and ".join(f"“{pin.agent}”" for pin in pins)
            differs = len({pin.version_id for pin in pins}) > 1
            yield Problem(
                "tool_twice",
                pins[-1].agent,
                f"{whose} both have “{pins[0].tool}”{', in different versions' if differs else ''}.",
                "Keep it where it is needed, and unpin it in the other; or leave both, if both need it.",
            )
