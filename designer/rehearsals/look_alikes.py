"""The confusable tools of an agent: rows in, pairs out, and the sentence that a designer takes over."""

from dataclasses import dataclass

from django.db import transaction

from catalog.search import lexicon
from core.errors import DomainError
from designer import agents, tunings
from designer.models import Agent
from designer.pinned_signatures import effective_of, pinned
from designer.rehearsals import built_in, shown, tool_purpose
from designer.rehearsals.confusion import Confusion, Pair, described
from designer.rehearsals.shown import Shown
from people.models import User

# How many pairs are shown.
SHOWN = 50


@dataclass(frozen=True, slots=True)
class Found:
    """A pair, and by tool the sentence for its description; empty for a transfer, which is worded elsewhere,
    and where nothing tells the two apart."""

    pair: Pair
    for_first: str
    for_second: str


def of_agent(agent: Agent) -> list[Found]:
    """The worst first."""
    return of_shown(shown.of_agents([agent])[agent.pk])


def of_shown(seen: Shown) -> list[Found]:
    judge, tuned = _confusion(seen), set(seen.tools.values())
    return [
        Found(
            pair,
            judge.sentence(pair.first, pair.second) if pair.first in tuned else "",
            judge.sentence(pair.second, pair.first) if pair.second in tuned else "",
        )
        for pair in judge.pairs()[:SHOWN]
    ]


def _confusion(seen: Shown) -> Confusion:
    signatures = [built_in.as_shown(tool) for tool in seen.signatures]
    return Confusion(signatures, lexicon.stems(tool_purpose.words_of(signatures)), seen.vendors)


@transaction.atomic
def tell_apart(agent: Agent, *, actor: User, tool: str, other: str) -> None:
    """Adds the sentence that says when `other` is meant to the agent's own words about `tool`."""
    agent = agents.locked(agent)
    seen = shown.of_agents([agent])[agent.pk]
    tools = {signature.name for signature in seen.signatures}
    pin = pinned([agent]).filter(name=tool).first()
    if pin is None or other not in tools or tool == other:
        message = "The agent does not show both of these tools any more. Look at the pairs again."
        raise DomainError("tool_not_shown", message, status=409)
    sentence = _confusion(seen).sentence(tool, other)
    if not sentence:
        message = f"Nothing in their words tells “{tool}” and “{other}” apart. Write it in your own words."
        raise DomainError("nothing_tells_apart", message, status=409)
    pin.agent = agent
    said = effective_of(pin).description
    if sentence in said:
        return
    tuning = tunings.of(pin)
    given = {name: getattr(tuning, name) for name in tunings.MEMBERS} if tuning else {}
    tunings.tune(pin, actor=actor, **{**given, "description": described(said, sentence)})
