"""The pins of agents as a model is shown them: rows in, effective signatures out."""

from collections.abc import Collection, Sequence

from catalog.models import Tool
from catalog.models.findings import FindingState
from catalog.review import holds
from catalog.rules import retries
from catalog.rules.retries import Resolved
from catalog.tools import configurations
from core.outbound.errors import printable
from designer import tunings
from designer.models import Agent, Pin, PinQuerySet
from designer.signatures import model_names
from designer.signatures.effective import Effective, Misfit, effective, misfits
from designer.signatures.words import ParameterWords, Stale, Words, merged
from designer.tunings import words_of


def pinned(agents: Sequence[Agent]) -> PinQuerySet:
    """The agents' pins of tools with all that their effective signatures need."""
    return pinned_items(agents).of_tools()


def pinned_items(agents: Sequence[Agent]) -> PinQuerySet:
    """The same with the pins of prompts and resources."""
    return with_signatures(Pin.objects.live().filter(agent__in=agents))


def with_signatures(pins: PinQuerySet) -> PinQuerySet:
    """These pins with all that their effective signatures need."""
    return pins.select_related("version", "tuning", "tool__tuning", "tool__endpoint__vendor", "configuration")


def effective_of(pin: Pin, tried: Words | None = None) -> Effective:
    """What a model is shown of this pin; read it through `pinned` to spare queries. `tried` are words that
    stand for the agent's own."""
    return effective(
        pin.version.decoded(),
        name=pin.name,
        catalog_tuning=words_about(pin.tool),
        agent_tuning=agents_words(pin, tried),
    )


def effective_of_tool(tool: Tool) -> Effective | None:
    """What agents that pin its current version are shown, before any words of their own."""
    if tool.current is None:
        return None
    signature = tool.current.decoded()
    return effective(signature, name=model_names.derive(signature.name), catalog_tuning=words_about(tool))


def retry_of(pin: Pin) -> Resolved:
    """What a call of this pin does that fails, and where each member of it is stated."""
    return retries.resolved(pin=pin.retry, agent=pin.agent.retry, endpoint=pin.tool.endpoint.retry)


def misfits_of(pin: Pin) -> list[Misfit]:
    """Tuned words that the pinned version has no place for."""
    return misfits(pin.version.decoded(), merged(words_about(pin.tool), agents_words(pin)))


def stale_of(pin: Pin) -> list[Stale]:
    """The agent's own words whose vendor's text is another in the pinned version."""
    tuning = getattr(pin, "tuning", None)
    return tunings.stale_of(tuning, pin.version.decoded()) if tuning else []


def words_about(target: Pin | Tool) -> Words:
    return words_of(getattr(target, "tuning", None))


def agents_words(pin: Pin, tried: Words | None = None) -> Words:
    """The agent's own words, or those that are `tried`. The values of a configuration stand above them, for
    an input that a model is not shown."""
    own = words_about(pin) if tried is None else tried
    if pin.configuration is None:
        return own
    pin.version.tool = pin.tool  # read already
    parameter = configurations.parameter_of(pin.version)
    # Where the version has no such input any more, this is told as a misfit.
    name = parameter.name if parameter else configurations.INPUT
    configured = ParameterWords(hidden=True, preset=pin.configuration.values)
    return merged(own, Words(parameters={name: configured}))


def kept_out(pins: Collection[Pin]) -> dict[int, tuple[FindingState, str]]:
    """By pin: why review does not let its version be published. An accepted review lets it through."""
    review_states = holds.review_states(pin.version for pin in pins)
    found: dict[int, tuple[FindingState, str]] = {}
    for pin in pins:
        state = review_states.get(pin.version_id)
        which = f"“{pin.name}” is pinned to version {printable(pin.version.name, 60)}, which"
        if state == FindingState.BLOCKED:
            found[pin.pk] = state, f"{which} was blocked in review. Move the pin to another version."
        elif state:
            message = f"{which} waits for review. An administrator decides there; or move the pin."
            found[pin.pk] = state, message
    return found
