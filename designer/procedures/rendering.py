"""The procedures of agents as a release holds them: rendered, with references by the names of then."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from designer import transfers
from designer.exports.document import ReleasedProcedure, ReleasedReference
from designer.models import Agent, Pin, Procedure, Transfer
from designer.procedures import references, vocabulary
from designer.procedures.references import KnownAgent, KnownTool, Place, Vocabulary
from designer.signatures.effective import Effective


@dataclass(frozen=True)
class Rows:
    """What one agent is made of beside its pins. `removed` are pins that its procedures name, `gone` agents
    that they name and that cannot be handed over to."""

    procedures: Sequence[Procedure]
    removed: Sequence[Pin]
    transfers: Sequence[Transfer]
    gone: Sequence[KnownAgent]


def rows_of(agents: Collection[Agent]) -> Mapping[int, Rows]:
    """By the agents' primary keys, in at most five queries."""
    procedures: defaultdict[int, list[Procedure]] = defaultdict(list)
    for procedure in Procedure.objects.live().filter(agent__in=agents):
        procedures[procedure.agent_id].append(procedure)
    removed: defaultdict[int, list[Pin]] = defaultdict(list)
    if procedures:
        gone = Pin.objects.filter(agent__in=procedures).exclude(removed_at=None)
        for pin in gone.filter(references__procedure__removed_at=None, references__isnull=False).distinct():
            removed[pin.agent_id].append(pin)
    handed: defaultdict[int, list[Transfer]] = defaultdict(list)
    for transfer in transfers.of(agents):
        handed[transfer.agent_id].append(transfer)
    texts = {pk: [procedure.text for procedure in rows] for pk, rows in procedures.items()}
    lost = vocabulary.gone_agents(texts, {pk: [each.child_id for each in handed[pk]] for pk in texts})
    return {
        agent.pk: Rows(procedures[agent.pk], removed[agent.pk], handed[agent.pk], lost.get(agent.pk, ()))
        for agent in agents
    }


def rendered(rows: Rows, tools: Iterable[tuple[Pin, Effective]]) -> tuple[ReleasedProcedure, ...]:
    if not rows.procedures:
        return ()
    pinned = [vocabulary.known_tool(pin, shown) for pin, shown in tools]
    removed = [KnownTool(pin=pin.pk, name=pin.name, state="removed") for pin in rows.removed]
    agents = map(vocabulary.known_agent, rows.transfers)
    known = Vocabulary(tools=(*pinned, *removed), agents=(*agents, *rows.gone))
    return tuple(_released(procedure, known) for procedure in rows.procedures)


def _released(procedure: Procedure, known: Vocabulary) -> ReleasedProcedure:
    pieces = references.parse(procedure.text, known)
    return ReleasedProcedure(
        slug=procedure.slug,
        title=procedure.title,
        text=references.rendered(pieces),
        references=tuple(
            _named(place, known)
            for place in references.flat(pieces)
            # One that is gone is named in the text, and leads nowhere.
            if place.kind != "agent" or place.target is None or not known.by_agent[place.target].state
        ),
    )


def _named(place: Place, known: Vocabulary) -> ReleasedReference:
    name, member = "", place.member
    if place.kind == "agent" and place.target is not None:
        name = known.by_agent[place.target].name
    elif place.target is not None:
        tool = known.by_pin[place.target]
        name = tool.name
        sides = tool.inputs if place.kind == "input" else tool.outputs
        member = next((each.name for each in sides if each.id == member), member)
    return ReleasedReference(line=place.line, kind=place.kind, name=name, member=member)
