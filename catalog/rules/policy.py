"""What becomes of a new version before a person has looked at it: an endpoint's policy. Pure.

A policy names an action for each class of change; what it does not name is as in `DEFAULT`. A version
that is of several classes gets the strictest of their actions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from catalog.rules.diff import Effect
from catalog.rules.inspection import Alarm, Severity

Action = Literal["accept", "hold", "block"]
Class = Literal[
    "new_tool",
    "drift",
    "breaks_callers",
    "breaks_readers",
    "widens_risk",
    "text",
    "compatible",
    "alarm_medium",
    "alarm_high",
]
Policy = Mapping[str, str]
Actions = Mapping[Class, Action]

ACTIONS: dict[Action, str] = {
    "accept": "Accept",
    "hold": "Hold for review",
    "block": "Block",
}
# Each with the words for people, and with how a held version says why it waits.
CLASSES: dict[Class, tuple[str, str]] = {
    "new_tool": ("A tool that was not there before", "no person has looked at this tool yet"),
    "drift": (
        "A published version that was rewritten in place",
        "the vendor rewrote a version that it had published",
    ),
    "breaks_callers": ("Calls that worked may fail", "calls that worked may fail"),
    "breaks_readers": ("Outputs that were there may be missing", "outputs that were there may be missing"),
    "widens_risk": (
        "A call may do more or asks for less caution than before, or it is unclear",
        "a call may do more or asks for less caution than before, or it is unclear what changed",
    ),
    "text": ("Words that a model reads", "words that a model reads have changed"),
    "compatible": ("Compatible and cosmetic changes", "it has changed, if only a little"),
    "alarm_medium": ("An alarm of medium severity", "its text raised an alarm"),
    "alarm_high": ("An alarm of high severity", "its text raised a severe alarm"),
}
# Pins never move by themselves, so a change may be offered at once. Text that hides something may not, nor
# what was put in the place of a text that people have read and approved under the same name.
DEFAULT: dict[Class, Action] = {
    **dict.fromkeys(CLASSES, "accept"),
    **dict.fromkeys(("drift", "alarm_high"), "hold"),
}
# Alarms that say nothing against a tool's text.
ABOUT_NAMES = frozenset({"COLLISION", "LOOK_ALIKE"})
SEVERE: frozenset[Class] = frozenset({"drift", "widens_risk", "alarm_high"})

_STRICTNESS: tuple[Action, ...] = ("accept", "hold", "block")


@dataclass(frozen=True, slots=True)
class Stop:
    """A version that is not let through: what happens to it, how severe it is, and why."""

    action: Action
    severity: Severity
    reasons: tuple[str, ...]

    @property
    def state(self) -> str:
        return "blocked" if self.action == "block" else "open"

    @property
    def says(self) -> str:
        """The rest of a sentence that begins with the name of the version."""
        did = (
            "was blocked by the policy of this endpoint" if self.action == "block" else "waits for a decision"
        )
        return f"{did}: {'; '.join(self.reasons)}."


def whole(stated: Policy) -> dict[Class, Action]:
    return {each: cast(Action, stated.get(each, action)) for each, action in DEFAULT.items()}


def classes(
    effects: Iterable[Effect] | None, alarms: Sequence[Alarm] = (), *, is_rewritten: bool = False
) -> set[Class]:
    """`effects` are those of the change, or None when nothing of the tool was let through so far.

    `is_rewritten`: the vendor has published something else under the same version label.
    """
    found: set[Class] = {"new_tool"} if effects is None else set()
    found |= {"drift"} if is_rewritten else set()
    for effect in effects or ():
        found.add("compatible" if effect == "cosmetic" else effect)
    severities = {alarm.severity for alarm in alarms}
    if "high" in severities:
        found |= {"alarm_high"}
    elif "medium" in severities:
        found |= {"alarm_medium"}
    return found


def judge(policy: Actions, found: Iterable[Class], alarms: Sequence[Alarm] = ()) -> Stop | None:
    """None lets the version through. `alarms` are those that `found` was made of, for the reason."""
    stopping = [each for each in CLASSES if each in set(found) and policy[each] != "accept"]
    if not stopping:
        return None
    action = max((policy[each] for each in stopping), key=_STRICTNESS.index)
    reasons = tuple(reason for each in stopping for reason in (_alarmed(each, alarms) or (CLASSES[each][1],)))
    return Stop(action, "high" if SEVERE & set(stopping) else "medium", reasons)


def _alarmed(each: Class, alarms: Sequence[Alarm]) -> tuple[str, ...]:
    # Why a version is stopped whose name raised alarms, and perhaps its text as well.
    severity = {"alarm_high": "high", "alarm_medium": "medium"}.get(each)
    codes = {alarm.code for alarm in alarms if alarm.severity == severity}
    if not codes & ABOUT_NAMES:
        return ()
    clash = "its name is or looks like that of another vendor's tool"
    return (clash,) if codes <= ABOUT_NAMES else (CLASSES[each][1], clash)
