"""The confusable tools of an agent, and the sentences that a designer can add to separate them."""

from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _

from catalog.search import stemming
from core.errors import DomainError
from designer.agents import agents
from designer.models import Agent
from designer.pins import tunings
from designer.pins.pinned_signatures import effective_of, pins_of_agents
from designer.rehearsals import built_in, shown, tool_purpose
from designer.rehearsals.confusion import Confusion, Pair, append_sentence
from designer.rehearsals.shown import ShownTools
from people.models import User

# Number of pairs on the page.
MAX_PAIRS = 50


@dataclass(frozen=True, slots=True)
class ConfusablePair:
    """A pair, and per tool the sentence for its description. "" for a transfer, whose text is edited
    elsewhere, and where nothing separates the two tools.
    """

    pair: Pair
    for_first: str
    for_second: str


def confusable_pairs(agent: Agent) -> list[ConfusablePair]:
    """Return the confusable pairs of the agent, the worst first."""
    return confusable_pairs_of(shown.tools_of_agents([agent])[agent.pk])


def confusable_pairs_of(shown_tools: ShownTools) -> list[ConfusablePair]:
    confusion = _build_confusion(shown_tools)
    return [_with_sentences(pair, confusion, shown_tools) for pair in confusion.pairs()[:MAX_PAIRS]]


def confusable_pair(agent: Agent, tool: str, other: str) -> ConfusablePair:
    """Return this pair, even with a low score. Raises DomainError unless the agent shows both tools."""
    shown_tools = shown.tools_of_agents([agent])[agent.pk]
    _refuse_unless_shown(shown_tools, tool, other)
    confusion = _build_confusion(shown_tools)
    return _with_sentences(confusion.pair(tool, other), confusion, shown_tools)


def _with_sentences(pair: Pair, confusion: Confusion, shown_tools: ShownTools) -> ConfusablePair:
    tool_names = set(shown_tools.tools.values())
    return ConfusablePair(
        pair,
        confusion.sentence(pair.first, pair.second) if pair.first in tool_names else "",
        confusion.sentence(pair.second, pair.first) if pair.second in tool_names else "",
    )


def _refuse_unless_shown(shown_tools: ShownTools, tool: str, other: str) -> None:
    names = {signature.name for signature in shown_tools.signatures}
    if tool == other or not {tool, other} <= names:
        message = _("The agent does not show both of these tools. Reload the page.")
        raise DomainError("tool_not_shown", message, status=409)


def _build_confusion(shown_tools: ShownTools) -> Confusion:
    signatures = [built_in.as_shown(tool) for tool in shown_tools.signatures]
    return Confusion(signatures, stemming.stems(tool_purpose.words_of(signatures)), shown_tools.vendors)


@transaction.atomic
def add_contrast(agent: Agent, *, actor: User, tool: str, other: str) -> None:
    """Append the sentence that states when to use `other` to the agent's tuned description of `tool`."""
    agent = agents.lock_agent(agent)
    shown_tools = shown.tools_of_agents([agent])[agent.pk]
    _refuse_unless_shown(shown_tools, tool, other)
    pin = pins_of_agents([agent]).filter(name=tool).first()
    if pin is None:
        message = _(
            "“{tool}” is a transfer to a sub-agent. Edit its description on the agent's page."
        ).format(tool=tool)
        raise DomainError("transfer_worded_elsewhere", message, status=409)
    sentence = _build_confusion(shown_tools).sentence(tool, other)
    if not sentence:
        message = _(
            "Nothing in the texts of “{tool}” and “{other}” separates them. Write your own sentence."
        ).format(tool=tool, other=other)
        raise DomainError("nothing_tells_apart", message, status=409)
    pin.agent = agent
    description = effective_of(pin).description
    if sentence in description:
        return
    tuning = tunings.tuning_of(pin)
    tuned_values = {name: getattr(tuning, name) for name in tunings.MEMBERS} if tuning else {}
    tunings.tune(pin, actor=actor, **{**tuned_values, "description": append_sentence(description, sentence)})
