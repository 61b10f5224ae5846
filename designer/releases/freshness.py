"""Whether a runtime may be shown what a vendor has made of a released tool since. Pure.

Only what adds is shown: every caller of the released signature can go on, and what was there says what it
said. Our words go along by the names of inputs and outputs, which are those of the same ids: a parameter that
got another name or another id breaks callers.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from catalog.rules import diff
from catalog.rules.assess import Offer, assess
from catalog.rules.diff import Class
from catalog.rules.policy import Actions
from designer.exports.document import ReleasedTool, ReleasedVersion
from designer.releases import numbering
from designer.signatures.effective import effective, misfits
from designer.signatures.words import NOTHING, merged
from protocols.signature import Signature

Review = Literal["offered", "held", "blocked"]
# The code of what a person accepts who lets a held version through; that overrules the policy.
HELD = "HELD"
# Why a runtime is shown the signature of the release, and what that means.
REASONS = {
    "not_followed": "The tool does not follow its vendor: a designer has not chosen so.",
    "unreachable": "The vendor did not answer in time, or not as its protocol says, or may not be asked now.",
    "withdrawn": "The vendor does not offer the tool any more.",
    "older": "The vendor offers a version from before the one that was released.",
    "held": "The version waits for review, or the endpoint's policy does not accept it.",
    "blocked": "The version was blocked in review.",
    "breaking": "Calls that worked may fail, or outputs that were there may be missing.",
    "risk": "A call may do more than before, or it is unclear what changed.",
    "alarm": "A text of it raises an alarm, or it breaks a promise, and no person has accepted that.",
    "effects": "The vendor says that a call does less harm than it said of the released version.",
    "text": "The vendor words what is there otherwise. Words of a new input or output alone are shown.",
    "changed": "What is there has changed, if only to take more: a value, a limit, what need not be given.",
    "words": "The designer's words do not go along: a model would see what they hide, or lose a name.",
    "not_carried": "The format cannot carry the version.",
}


@dataclass(frozen=True, slots=True)
class Offered:
    """A version that the catalog holds. `alarms` are what review says about it and no person has accepted:
    the severity of each; `accepted` are the codes of what a person has. `is_older` is by the vendor's order.
    """

    version: ReleasedVersion
    signature: Signature
    review: Review = "offered"
    alarms: Sequence[str] = ()
    accepted: Collection[str] = ()
    is_older: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """`tool` is what is shown: with a `reason`, as it was released. `class_` is that of what differs between
    the released version and the one that was looked at, None where none was.
    """

    tool: ReleasedTool
    class_: Class | None = None
    reason: str = ""

    @property
    def is_fresh(self) -> bool:
        return not self.reason


def decide(released: ReleasedTool, signature: Signature, offered: Offered, actions: Actions) -> Decision:
    """`signature` is the vendor's in the released version, `actions` are the policy of the endpoint."""
    was, now = released.version, offered.version
    if now == was:
        return Decision(released, "none")
    is_rewritten = bool(now.label) and now.label == was.label and now.digest != was.digest
    found = assess(
        Offer(signature, was.label, was.digest),
        Offer(offered.signature, now.label, now.digest),
        is_rewritten=is_rewritten,
    )
    unaccepted = (alarm.severity for alarm in found.alarms if alarm.code not in offered.accepted)
    severities = {*offered.alarms, *unaccepted}
    effects = found.effects or frozenset()
    is_more = found.class_ not in ("none", "compatible")
    tool = with_version(released, now, offered.signature)
    refusals = {
        "blocked": offered.review == "blocked",
        "held": offered.review == "held",
        "older": offered.is_older,
        "breaking": bool(effects & {"breaks_callers", "breaks_readers"}),
        "risk": not effects <= set(diff.SAFE),
        "alarm": bool(severities - {"low"}),
        "effects": signature.annotations != offered.signature.annotations,
        "text": is_more and "text" in effects,
        "changed": is_more,
        "words": _loses_words(released, signature, tool, offered.signature),
    }
    reason = next((name for name, is_so in refusals.items() if is_so), "")
    if not reason and HELD not in offered.accepted and found.stop(actions):
        reason = "held"
    return Decision(released if reason else tool, found.class_, reason)


def with_version(released: ReleasedTool, version: ReleasedVersion, signature: Signature) -> ReleasedTool:
    """The tool as it would have been released with this version, in the words of the release. Of what either
    says about effects the stricter holds, for confirming and for repeating a call.
    """
    tuning = released.tuning
    shown = effective(
        signature,
        name=released.signature.name,
        catalog_tuning=tuning.get("catalog"),
        agent_tuning=tuning.get("agent"),
    )
    effects = diff.stricter(released.signature.annotations, shown.annotations)
    shown = structs.replace(shown, annotations=effects)
    return structs.replace(released, version=version, signature=shown)


def _loses_words(released: ReleasedTool, was: Signature, tool: ReleasedTool, now: Signature) -> bool:
    # What a designer has hidden stays hidden, and what the model calls an input it is called.
    words = merged(*(released.tuning.get(layer, NOTHING) for layer in ("catalog", "agent")))
    exposed = {misfit for misfit in misfits(now, words) if misfit.exposes}
    return bool(exposed - set(misfits(was, words)) or numbering.breaks(released, tool))
