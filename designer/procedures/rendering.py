"""The procedures of agents in their released form, with references by the current names."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.compiled_queries import PreparedQuery, is_any_of
from designer.agents import transfers
from designer.exports.document import ReleasedProcedure, ReleasedReference
from designer.models import Agent, Pin, Procedure, Transfer
from designer.procedures import references, vocabulary
from designer.procedures.references import KnownAgent, TextPosition, Vocabulary, VocabularyTool
from designer.signatures.effective import Effective


@dataclass(frozen=True)
class Rows:
    """The rows of one agent besides its pins. `removed`: pins that its procedures name. `gone`: agents that
    they name and that cannot be transferred to.
    """

    procedures: Sequence[Procedure]
    removed: Sequence[Pin]
    transfers: Sequence[Transfer]
    gone: Sequence[KnownAgent]


def rows_of(agents: Collection[Agent]) -> Mapping[int, Rows]:
    """Return the rows by the agents' primary keys, in at most five queries."""
    procedures: defaultdict[int, list[Procedure]] = defaultdict(list)
    for procedure in _PROCEDURES.rows(agents=[agent.pk for agent in agents]):
        procedures[procedure.agent_id].append(procedure)
    removed: defaultdict[int, list[Pin]] = defaultdict(list)
    for pin in _REMOVED_PINS.rows(agents=list(procedures)) if procedures else ():
        removed[pin.agent_id].append(pin)
    transfers_by_agent: defaultdict[int, list[Transfer]] = defaultdict(list)
    for transfer in transfers.transfers_from(agents):
        transfers_by_agent[transfer.agent_id].append(transfer)
    texts = {pk: [procedure.text for procedure in rows] for pk, rows in procedures.items()}
    child_ids = {pk: [transfer.child_id for transfer in transfers_by_agent[pk]] for pk in texts}
    gone_agents = vocabulary.gone_agents(texts, child_ids)
    return {
        agent.pk: Rows(
            procedures[agent.pk],
            removed[agent.pk],
            transfers_by_agent[agent.pk],
            gone_agents.get(agent.pk, ()),
        )
        for agent in agents
    }


_PROCEDURES: PreparedQuery[Procedure] = PreparedQuery(
    lambda: Procedure.objects.live().filter(is_any_of("designer_procedure.agent_id", "agents"))
)
# Removed pins that procedures name.
_REMOVED_PINS: PreparedQuery[Pin] = PreparedQuery(
    lambda: (
        Pin.objects.filter(is_any_of("designer_pin.agent_id", "agents"))
        .exclude(removed_at=None)
        .filter(references__procedure__removed_at=None, references__isnull=False)
        .distinct()
    )
)


def render_procedures(rows: Rows, tools: Iterable[tuple[Pin, Effective]]) -> tuple[ReleasedProcedure, ...]:
    if not rows.procedures:
        return ()
    pinned = [vocabulary.known_tool(pin, signature) for pin, signature in tools]
    removed = [VocabularyTool(pin=pin.pk, name=pin.name, state="removed") for pin in rows.removed]
    agents = map(vocabulary.known_agent, rows.transfers)
    names = Vocabulary(tools=(*pinned, *removed), agents=(*agents, *rows.gone))
    procedures = []
    for procedure in rows.procedures:
        pieces = references.parse(procedure.text, names)
        procedures.append(
            ReleasedProcedure(
                slug=procedure.slug,
                title=procedure.title,
                text=references.rendered_text(pieces),
                references=tuple(
                    _named_reference(place, names)
                    for place in references.flat(pieces)
                    # A gone agent is named in the text, but is not a reference.
                    if place.kind != "agent" or place.target is None or not names.by_agent[place.target].state
                ),
            )
        )
    return tuple(procedures)


def _named_reference(place: TextPosition, names: Vocabulary) -> ReleasedReference:
    name, member = "", place.member
    if place.kind == "agent" and place.target is not None:
        name = names.by_agent[place.target].name
    elif place.target is not None:
        tool = names.by_pin[place.target]
        name = tool.name
        sides = tool.inputs if place.kind == "input" else tool.outputs
        member = next((row.name for row in sides if row.id == member), member)
    return ReleasedReference(line=place.line, kind=place.kind, name=name, member=member)
