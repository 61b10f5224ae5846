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
    judge = _confusion(seen)
    return [_found(pair, judge, seen) for pair in judge.pairs()[:SHOWN]]


def of_two(agent: Agent, tool: str, other: str) -> Found:
    """These two, however much they are alike. Raises DomainError where the agent does not show both."""
    seen = shown.of_agents([agent])[agent.pk]
    _refuse_unless_shown(seen, tool, other)
    judge = _confusion(seen)
    return _found(judge.pair(tool, other), judge, seen)


def _found(pair: Pair, judge: Confusion, seen: Shown) -> Found:
    tuned = set(seen.tools.values())
    return Found(
        pair,
        judge.sentence(pair.first, pair.second) if pair.first in tuned else "",
        judge.sentence(pair.second, pair.first) if pair.second in tuned else "",
    )


def _refuse_unless_shown(seen: Shown, tool: str, other: str) -> None:
    tools = {signature.name for signature in seen.signatures}
    if tool == other or not {tool, other} <= tools:
        message = "The agent does not show both of these tools. Look at the pairs again."
        raise DomainError("tool_not_shown", message, status=409)


def _confusion(seen: Shown) -> Confusion:
    signatures = [built_in.as_shown(tool) for tool in seen.signatures]
    return Confusion(signatures, lexicon.stems(tool_purpose.words_of(signatures)), seen.vendors)


@transaction.atomic
def tell_apart(agent: Agent, *, actor: User, tool: str, other: str) -> None:
    """Adds the sentence that says when `other` is meant to the agent's own words about `tool`."""
    agent = agents.locked(agent)
    seen = shown.of_agents([agent])[agent.pk]
    _refuse_unless_shown(seen, tool, other)
    pin = pinned([agent]).filter(name=tool).first()
    if pin is None:
        message = f"“{tool}” hands over to a sub-agent. Word it on the page of the agent."
        raise DomainError("transfer_worded_elsewhere", message, status=409)
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
