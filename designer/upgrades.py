"""What breaks if a pin moves to the version that its vendor offers now."""

from dataclasses import dataclass

from django.db.models import QuerySet

from catalog.models import ToolVersion
from catalog.protocols.signature import Signature
from catalog.rules import diff
from designer import pending_work
from designer.models import Agent, Pin
from designer.signatures.effective import misfits
from designer.signatures.words import merged
from designer.tunings import words_of


@dataclass(frozen=True, slots=True)
class LostWords:
    """Tuned words that the other version has no place for. `refuses`: it cannot be published so."""

    message: str
    refuses: bool


@dataclass(frozen=True, slots=True)
class Upgrade:
    pin: Pin
    version: ToolVersion
    comparison: diff.Comparison
    lost: list[LostWords]

    @property
    def breaking(self) -> list[str]:
        return [change.sentence for change in self.comparison.changes if change.class_ == "breaking"]


def of(agent: Agent) -> list[Upgrade]:
    """One for each pin of the agent that is behind, by name."""
    return [to(pin, pin.tool.current) for pin in behind(agent) if pin.tool.current is not None]


def behind(agent: Agent) -> QuerySet[Pin]:
    """The agent's pins to which their vendors offer a newer version, with all that `to` reads."""
    return pending_work.behind(agent.pins.live().filter(tool__current__isnull=False)).select_related(
        "agent", "version", "tuning", "tool__tuning", "tool__current", "tool__endpoint__vendor"
    )


def to(pin: Pin, version: ToolVersion) -> Upgrade:
    """What moving the pin to this version would change, and which of our words would be lost."""
    after = version.decoded()
    return Upgrade(pin, version, diff.compare(pin.version.decoded(), after), lost(pin, after))


def lost(pin: Pin, signature: Signature) -> list[LostWords]:
    # Of the agent's own words, and of those for all agents beneath them.
    own = words_of(getattr(pin, "tuning", None))
    found = misfits(signature, merged(words_of(getattr(pin.tool, "tuning", None)), own))
    told = []
    for misfit in found:
        is_own = misfit.parameter in own.parameters or misfit.parameter in own.outputs
        whose = "This agent's words" if is_own else "The tool's words for all agents"
        ends = " Publishing is refused until they fit." if misfit.exposes else ""
        told.append(LostWords(f"{misfit.message} {whose} about it do not fit.{ends}", misfit.exposes))
    return told
