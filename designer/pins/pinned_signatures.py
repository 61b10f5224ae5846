"""The pins of agents as a model sees them: rows in, effective signatures out."""

from collections.abc import Collection, Sequence

from django.utils.translation import gettext as _

from catalog.models import Tool
from catalog.models.findings import FindingState
from catalog.models.tools import ItemKind
from catalog.review import holds
from catalog.rules import retries
from catalog.rules.retries import ResolvedRetryPolicy
from core.compiled_queries import PreparedQueryByKeys
from core.outbound.errors import printable
from designer.models import Agent, Pin, PinQuerySet
from designer.pins import tunings
from designer.pins.tunings import words_of
from designer.signatures import model_names
from designer.signatures.effective import Effective, Misfit, effective, misfits
from designer.signatures.words import ParameterWords, Stale, Words, merge_words
from execution.threads import configurations


def pins_of_agents(agents: Sequence[Agent]) -> PinQuerySet:
    """Return the agents' pins of tools with all rows that their effective signatures need."""
    return pinned_items(agents).of_tools()


def pinned_items(agents: Sequence[Agent]) -> PinQuerySet:
    """Return the agents' pins of tools, prompts and resources, joined with what effective signatures need."""
    return with_signatures(Pin.objects.live().filter(agent__in=agents))


def read_items(agents: Collection[Agent]) -> list[Pin]:
    """Return the agents' pins with all rows that their effective signatures need, and with their agents."""
    agents_by_id = {agent.pk: agent for agent in agents}
    pins = _PINS_OF_AGENTS.rows(agents_by_id)
    for pin in pins:
        pin.agent = agents_by_id[pin.agent_id]
    return pins


def read_tools(agents: Collection[Agent]) -> list[Pin]:
    """Return the result of `read_items` without the pins of prompts and resources."""
    return [pin for pin in read_items(agents) if pin.tool.kind == ItemKind.TOOL]


_PINS_OF_AGENTS: PreparedQueryByKeys[Pin] = PreparedQueryByKeys(
    "designer_pin.agent_id",
    lambda is_of_agents: with_signatures(Pin.objects.live().filter(is_of_agents)).defer("version__raw"),
)


def with_signatures(pins: PinQuerySet) -> PinQuerySet:
    """Join all rows that effective signatures need."""
    return pins.select_related("version", "tuning", "tool__tuning", "tool__endpoint__vendor", "configuration")


def effective_of(pin: Pin, trial_words: Words | None = None) -> Effective:
    """Return the signature that a model sees.

    pin: read it with `pins_of_agents`, which saves queries.
    trial_words: texts to try in place of the agent's tuned texts.
    """
    return effective(
        pin.version.decoded(),
        name=pin.name,
        catalog_tuning=words_about(pin.tool),
        agent_tuning=agent_words(pin, trial_words),
    )


def effective_of_tool(tool: Tool) -> Effective | None:
    """Return the signature in agents that pin the current version, without their own tuned texts."""
    if tool.current is None:
        return None
    signature = tool.current.decoded()
    return effective(signature, name=model_names.derive(signature.name), catalog_tuning=words_about(tool))


def retry_of(pin: Pin) -> ResolvedRetryPolicy:
    """Return the retry policy of this pin and where each member is set."""
    return retries.resolve_policy(pin=pin.retry, agent=pin.agent.retry, endpoint=pin.tool.endpoint.retry)


def misfits_of(pin: Pin) -> list[Misfit]:
    """Return tuned texts that the pinned version has no member for."""
    return misfits(pin.version.decoded(), words_of_pin(pin))


def words_of_pin(pin: Pin) -> Words:
    """Return the tuned texts for all agents and those of the agent, which replace them."""
    return merge_words(words_about(pin.tool), agent_words(pin))


def stale_of(pin: Pin) -> list[Stale]:
    """Return the agent's tuned texts whose vendor text has changed in the pinned version."""
    tuning = getattr(pin, "tuning", None)
    return tunings.stale_of(tuning, pin.version.decoded()) if tuning else []


def words_about(target: Pin | Tool) -> Words:
    return words_of(getattr(target, "tuning", None))


def agent_words(pin: Pin, trial_words: Words | None = None) -> Words:
    """Return the agent's tuned texts, or the `trial_words` in their place.

    The values of a configuration take precedence, for an input that a model does not see.
    """
    tuned_words = words_about(pin) if trial_words is None else trial_words
    if pin.configuration is None:
        return tuned_words
    pin.version.tool = pin.tool  # read already
    parameter = configurations.parameter_of(pin.version)
    # If the version no longer has the input, `misfits_of` reports it.
    name = parameter.name if parameter else configurations.INPUT
    configured = ParameterWords(hidden=True, preset=pin.configuration.values)
    return merge_words(tuned_words, Words(parameters={name: configured}))


def blocked_by_review(pins: Collection[Pin]) -> dict[int, tuple[FindingState, str]]:
    """Return, per pin, the state and reason why review stops its version from being published. An accepted
    review allows it.
    """
    review_states = holds.review_states(pin.version for pin in pins)
    reasons: dict[int, tuple[FindingState, str]] = {}
    for pin in pins:
        state = review_states.get(pin.version_id)
        texts = {"name": pin.name, "version": printable(pin.version.name, 60)}
        if state == FindingState.BLOCKED:
            message = _(
                "“{name}” is pinned to version {version}, which was blocked in review. "
                "Move the pin to another version."
            )
            reasons[pin.pk] = state, message.format(**texts)
        elif state:
            message = _(
                "“{name}” is pinned to version {version}, which waits for review. "
                "An administrator decides there; or move the pin."
            )
            reasons[pin.pk] = state, message.format(**texts)
    return reasons
