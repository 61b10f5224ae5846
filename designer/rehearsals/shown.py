"""The tools and transfers of an agent as a model sees them. Judges choose among them."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from catalog.models.tools import ItemKind
from core.canonical_json import canonical
from designer.agents import transfers
from designer.exports.document import ReleasedSubAgent, ReleasedTransfer
from designer.exports.transfers import signature_of
from designer.models import Agent, Pin, Rehearsal, Transfer
from designer.pins import pinned_signatures
from designer.rehearsals.results import Sentence
from designer.signatures.effective import Effective


@dataclass(frozen=True)
class ShownTools:
    """Signatures, ordered by name.

    tools: names by the id of the catalog tool.
    transfers: names by the slug of the sub-agent.
    vendors: vendor names by tool name; empty for a release.
    """

    signatures: tuple[Effective, ...]
    tools: dict[int, str]
    transfers: dict[str, str]
    vendors: dict[str, str] = field(default_factory=dict)

    def sentences(self, rows: Iterable[Rehearsal]) -> list[Sentence]:
        """Return the sentences with the current tool names. Read `rows` with `sentences.sentences_of`."""
        return [
            Sentence(
                id=row.pk,
                says=row.says,
                expected=(
                    self.tools.get(row.tool.pk, "")
                    if row.tool
                    else self.transfers.get(row.child.slug if row.child else "", "")
                ),
                inputs=row.inputs,
                lost=str(row.tool or row.child),
            )
            for row in rows
        ]


def tools_of_agents(agents: Sequence[Agent], pins: Iterable[Pin] | None = None) -> dict[int, ShownTools]:
    """Return the tools of each agent as publishing now would write them, in two queries.

    pins: the agents' rows of `pinned_signatures.read_items`, if they were read.
    """
    tools: dict[int, list[tuple[int, Effective]]] = {agent.pk: [] for agent in agents}
    vendors: dict[int, dict[str, str]] = {agent.pk: {} for agent in agents}
    items = pinned_signatures.read_items(agents) if pins is None else pins
    for pin in (pin for pin in items if pin.tool.kind == ItemKind.TOOL):
        tools[pin.agent_id].append((pin.tool_id, pinned_signatures.effective_of(pin)))
        vendor = pin.tool.endpoint.vendor
        vendors[pin.agent_id][pin.name] = "" if vendor.is_own else vendor.name
    transfers_by_agent: dict[int, list[Transfer]] = {agent.pk: [] for agent in agents}
    for transfer in transfers.transfers_from(agents):
        transfers_by_agent[transfer.agent_id].append(transfer)
    return {
        agent.pk: replace(
            _build_shown(
                tools[agent.pk],
                [
                    ReleasedTransfer(
                        agent=sub_agent_transfer.child.slug,
                        name=sub_agent_transfer.name,
                        description=transfers.description_of(sub_agent_transfer),
                    )
                    for sub_agent_transfer in transfers_by_agent[agent.pk]
                ],
            ),
            vendors=vendors[agent.pk],
        )
        for agent in agents
    }


def tools_of_release(node: ReleasedSubAgent) -> ShownTools:
    return _build_shown([(tool.id, tool.signature) for tool in node.tools], node.transfers)


def _build_shown(
    tools: Sequence[tuple[int, Effective]], released_transfers: Iterable[ReleasedTransfer]
) -> ShownTools:
    signatures = [signature for _, signature in tools]
    transfer_signatures = [(transfer.agent, signature_of(transfer)) for transfer in released_transfers]
    signatures += [signature for _, signature in transfer_signatures]
    return ShownTools(
        tuple(sorted(signatures, key=lambda signature: signature.name)),
        {tool: signature.name for tool, signature in tools},
        {agent: signature.name for agent, signature in transfer_signatures},
    )


def digest(tools: ShownTools, sentences: Sequence[Sentence], judge: object) -> str:
    """Return a digest of the tools, the sentences and the judge."""
    return hashlib.sha256(canonical([list(tools.signatures), list(sentences), judge])).hexdigest()
