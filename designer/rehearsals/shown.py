"""The tools and transfers of an agent as a model is shown them, which judges choose from."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from core.canonical_json import canonical
from designer import pinned_signatures, transfers
from designer.exports.document import ReleasedSubAgent, ReleasedTransfer
from designer.exports.transfers import signature_of
from designer.models import Agent, Rehearsal, Transfer
from designer.rehearsals.results import Sentence
from designer.signatures.effective import Effective


@dataclass(frozen=True)
class Shown:
    """In the order of their names. `tools` are the names by the tool's number in the catalog, `transfers` by
    the slug of the agent that takes over. `vendors` are those of the tools by the tools' names, for who reads
    the agent and not a release of it."""

    signatures: tuple[Effective, ...]
    tools: dict[int, str]
    transfers: dict[str, str]
    vendors: dict[str, str] = field(default_factory=dict)

    def sentences(self, rows: Iterable[Rehearsal]) -> list[Sentence]:
        """With the names of now. Read `rows` through `sentences.of`."""
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


def of_agents(agents: Sequence[Agent]) -> dict[int, Shown]:
    """As publishing now would write them, by agent, in two queries."""
    tools: dict[int, list[tuple[int, Effective]]] = {agent.pk: [] for agent in agents}
    vendors: dict[int, dict[str, str]] = {agent.pk: {} for agent in agents}
    for pin in pinned_signatures.pinned(agents):
        tools[pin.agent_id].append((pin.tool_id, pinned_signatures.effective_of(pin)))
        vendor = pin.tool.endpoint.vendor
        vendors[pin.agent_id][pin.name] = "" if vendor.is_own else vendor.name
    handed: dict[int, list[Transfer]] = {agent.pk: [] for agent in agents}
    for transfer in transfers.of(agents):
        handed[transfer.agent_id].append(transfer)
    return {
        agent.pk: replace(
            _shown(
                tools[agent.pk],
                [
                    ReleasedTransfer(
                        agent=each.child.slug, name=each.name, description=transfers.description_of(each)
                    )
                    for each in handed[agent.pk]
                ],
            ),
            vendors=vendors[agent.pk],
        )
        for agent in agents
    }


def of_released(node: ReleasedSubAgent) -> Shown:
    return _shown([(tool.id, tool.signature) for tool in node.tools], node.transfers)


def _shown(tools: Sequence[tuple[int, Effective]], handed: Iterable[ReleasedTransfer]) -> Shown:
    signatures = [signature for _, signature in tools]
    taken_over = [(each.agent, signature_of(each)) for each in handed]
    signatures += [signature for _, signature in taken_over]
    return Shown(
        tuple(sorted(signatures, key=lambda signature: signature.name)),
        {tool: signature.name for tool, signature in tools},
        {agent: signature.name for agent, signature in taken_over},
    )


def digest(shown: Shown, sentences: Sequence[Sentence], judge: object) -> str:
    """Of all that a judge is shown and asked, and of the judge."""
    return hashlib.sha256(canonical([list(shown.signatures), list(sentences), judge])).hexdigest()
