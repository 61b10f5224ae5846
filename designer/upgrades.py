"""What breaks if a pin moves to the version that its vendor offers now."""

from dataclasses import dataclass

from django.db.models import F

from catalog import diff
from catalog.models import ToolVersion
from designer import attention
from designer.effective import misfits
from designer.models import Agent, Pin
from designer.tunings import words_of


@dataclass(frozen=True, slots=True)
class Upgrade:
    """`impact` is one sentence for each thing of this agent that would no longer hold."""

    pin: Pin
    version: ToolVersion
    comparison: diff.Comparison
    impact: list[str]


def of(agent: Agent) -> list[Upgrade]:
    """One for each pin of the agent that is behind, by name. Nothing moves by itself."""
    behind = attention.with_newer(agent.pins.live().exclude(version=F("tool__current")))
    rows = behind.filter(newer__gt=0).select_related(
        "agent", "version", "tuning", "tool__tuning", "tool__current", "tool__endpoint__vendor"
    )
    return [_to(pin, pin.tool.current) for pin in rows if pin.tool.current is not None]


def _to(pin: Pin, version: ToolVersion) -> Upgrade:
    after = version.decoded()
    comparison = diff.compare(pin.version.decoded(), after)
    tuning = getattr(pin, "tuning", None)
    lost = [misfit.message for misfit in misfits(after, words_of(tuning))]
    breaking = [change.sentence for change in comparison.changes if change.class_ == "breaking"]
    return Upgrade(pin, version, comparison, [*breaking, *lost])
