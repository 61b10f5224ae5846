"""Decide whether a runtime may see the vendor's current form of a released tool. Pure.

Only additions are shown: every caller of the released signature continues to work, and existing texts are
    unchanged. Tuned texts apply by the names of inputs and outputs with the same ids: a renamed parameter or
    one with another id breaks callers.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from catalog.rules import diff
from catalog.rules.assess import OfferedVersion, assess
from catalog.rules.diff import Class
from catalog.rules.policy import Actions
from designer.exports.document import ReleasedTool, ReleasedVersion
from designer.releases import numbering
from designer.signatures.effective import effective, misfits
from designer.signatures.words import NOTHING, merge_words
from protocols.signature import Signature

Review = Literal["offered", "held", "blocked"]
# The code of the finding that lets a held version through once a user accepts it, regardless of the policy.
HELD = "HELD"
# The reasons why a runtime sees the released signature, with explanations.
REASONS = {
    "not_followed": "The tool does not follow its vendor: a designer has not chosen so.",
    "unreachable": (
        "The vendor did not answer in time, or not as its protocol requires, or cannot be called now."
    ),
    "withdrawn": "The vendor does not offer the tool any more.",
    "older": "The vendor offers a version from before the one that was released.",
    "held": "The version waits for review, or the endpoint's policy does not accept it.",
    "blocked": "The version was blocked in review.",
    "breaking": "Calls that worked may fail, or outputs that were there may be missing.",
    "risk": "A call may do more than before, or it is unclear what changed.",
    "alarm": (
        "A text of it has an open finding, or a reliability check failed, and no person has accepted that."
    ),
    "effects": "The vendor declares a lower risk than it did for the released version.",
    "text": "The vendor changed existing texts. Only texts of new inputs and outputs are shown.",
    "changed": (
        "An existing part has changed, even if it only accepts more: a value, a limit, an optional input."
    ),
    "words": "The designer's texts do not fit it: a model would see what they hide, or lose a name.",
    "not_carried": "The format cannot contain the version.",
}


@dataclass(frozen=True, slots=True)
class CatalogVersion:
    """A version in the catalog.

    alarms: severities of review findings that no user has accepted. accepted: codes of findings that a user
        has.
    is_older: by the vendor's order.
    """

    version: ReleasedVersion
    signature: Signature
    review: Review = "offered"
    alarms: Sequence[str] = ()
    accepted: Collection[str] = ()
    is_older: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision whether a newer version of a tool is shown.

    tool: the tool to show; as released if there is a `reason`.
    class_: the class of the difference between the released and the offered version, None if none was
        compared.
    """

    tool: ReleasedTool
    class_: Class | None = None
    reason: str = ""

    @property
    def is_fresh(self) -> bool:
        return not self.reason


def decide(
    released: ReleasedTool, signature: Signature, offered: CatalogVersion, actions: Actions
) -> Decision:
    """Decide. `signature`: the vendor's signature in the released version. `actions`: the endpoint's
    policy.
    """
    released_version, offered_version = released.version, offered.version
    if offered_version == released_version:
        return Decision(released, "none")
    is_rewritten = (
        bool(offered_version.label)
        and offered_version.label == released_version.label
        and offered_version.digest != released_version.digest
    )
    assessment = assess(
        OfferedVersion(signature, released_version.label, released_version.digest),
        OfferedVersion(offered.signature, offered_version.label, offered_version.digest),
        is_rewritten=is_rewritten,
    )
    unaccepted = (alarm.severity for alarm in assessment.alarms if alarm.code not in offered.accepted)
    severities = {*offered.alarms, *unaccepted}
    effects = assessment.effects or frozenset()
    is_more = assessment.class_ not in ("none", "compatible")
    tool = with_version(released, offered_version, offered.signature)
    # Hidden parts stay hidden, and inputs keep the names that a model knows.
    words = merge_words(*(released.tuning.get(layer, NOTHING) for layer in ("catalog", "agent")))
    exposed = {misfit for misfit in misfits(offered.signature, words) if misfit.exposes}
    exposes_more = bool(exposed - set(misfits(signature, words)))
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
        "words": exposes_more or bool(numbering.list_breaks(released, tool)),
    }
    reason = next((name for name, is_so in refusals.items() if is_so), "")
    if not reason and HELD not in offered.accepted and assessment.stop(actions):
        reason = "held"
    return Decision(released if reason else tool, assessment.class_, reason)


def with_version(released: ReleasedTool, version: ReleasedVersion, signature: Signature) -> ReleasedTool:
    """Return the tool as it would have been released with this version, with the release's tuned texts. The
    stricter statement about effects applies, for confirming and repeating calls.
    """
    tuning = released.tuning
    new_signature = effective(
        signature,
        name=released.signature.name,
        catalog_tuning=tuning.get("catalog"),
        agent_tuning=tuning.get("agent"),
    )
    effects = diff.stricter(released.signature.annotations, new_signature.annotations)
    new_signature = structs.replace(new_signature, annotations=effects)
    return structs.replace(released, version=version, signature=new_signature)
