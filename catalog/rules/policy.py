"""The policy of an endpoint, which decides about a new version until a user has reviewed it. Pure.

A policy has an action for each class of change, with defaults in `DEFAULT`. A version of several classes gets
the strictest action.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from catalog.rules.diff import Effect
from catalog.rules.inspection import Alarm, Severity
from core.translatable import mark as _

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
    "accept": _("Accept"),
    "hold": _("Hold for review"),
    "block": _("Block"),
}
# Label of each class, and its reason in a message about a held version.
CLASSES: dict[Class, tuple[str, str]] = {
    "new_tool": (_("New tool"), _("no person has looked at this tool yet")),
    "drift": (
        _("Changed without a new version"),
        _("the vendor rewrote a version that it had published"),
    ),
    "breaks_callers": (_("Breaking for agents"), _("calls that worked may fail")),
    "breaks_readers": (_("Outputs may be missing"), _("outputs that were there may be missing")),
    "widens_risk": (
        _("More risk, or an unclear change"),
        _("a call may do more or asks for less caution than before, or it is unclear what changed"),
    ),
    "text": (_("Changed text"), _("words that a model reads have changed")),
    "compatible": (_("Compatible changes"), _("it has changed, if only a little")),
    "alarm_medium": (_("Finding of medium severity"), _("its text raised an alarm")),
    "alarm_high": (_("Finding of high severity"), _("its text raised a severe alarm")),
}
# Pins never move by themselves, so most changes may be offered at once. Exceptions are hidden text, and a new
# text under the label of a version that users have approved.
DEFAULT: dict[Class, Action] = {
    **dict.fromkeys(CLASSES, "accept"),
    **dict.fromkeys(("drift", "alarm_high"), "hold"),
}
# Each preset, from the least strict to the strictest one, with its actions. The first one is the default.
PRESETS: dict[str, tuple[str, dict[Class, Action]]] = {
    "trusting": (
        _("Changes are offered at once. Only rewritten versions and severe findings wait."),
        DEFAULT,
    ),
    "careful": (
        _("Changes that may break an agent, ask for more or raise a finding wait for a decision."),
        {
            **dict.fromkeys(CLASSES, "hold"),
            **dict.fromkeys(("new_tool", "text", "compatible"), "accept"),
        },
    ),
    "strict": (
        _("Every new tool and every change waits. Severe findings are blocked."),
        {**dict.fromkeys(CLASSES, "hold"), "alarm_high": "block"},
    ),
}
# Alarms that concern the name of a tool, not its text.
ABOUT_NAMES = frozenset({"COLLISION", "LOOK_ALIKE"})
SEVERE: frozenset[Class] = frozenset({"drift", "widens_risk", "alarm_high"})

_STRICTNESS: tuple[Action, ...] = ("accept", "hold", "block")


@dataclass(frozen=True, slots=True)
class Stop:
    """A version that the policy does not accept: the action, the severity and the reasons."""

    action: Action
    severity: Severity
    reasons: tuple[str, ...]

    @property
    def state(self) -> str:
        return "blocked" if self.action == "block" else "open"

    @property
    def predicate(self) -> str:
        """The end of a sentence that begins with the name of the version."""
        template = _("{version} waits for a decision: {reasons}.")
        if self.action == "block":
            template = _("{version} was blocked by the policy of this endpoint: {reasons}.")
        return template.format(version="", reasons="; ".join(self.reasons)).strip()


def preset_of(actions: Actions) -> str:
    """Return the name of the preset with these actions, "" if there is none."""
    return next((name for name, (_summary, preset) in PRESETS.items() if preset == actions), "")


def with_defaults(stated_policy: Policy) -> dict[Class, Action]:
    return {class_: cast(Action, stated_policy.get(class_, action)) for class_, action in DEFAULT.items()}


def classes(
    effects: Iterable[Effect] | None, alarms: Sequence[Alarm] = (), *, is_rewritten: bool = False
) -> set[Class]:
    """Return the classes of a change.

    effects: of the change, or None if no version of the tool was accepted before.
    is_rewritten: the vendor has published another text under the same version label.
    """
    change_classes: set[Class] = {"new_tool"} if effects is None else set()
    change_classes |= {"drift"} if is_rewritten else set()
    for effect in effects or ():
        change_classes.add("compatible" if effect == "cosmetic" else effect)
    severities = {alarm.severity for alarm in alarms}
    if "high" in severities:
        change_classes |= {"alarm_high"}
    elif "medium" in severities:
        change_classes |= {"alarm_medium"}
    return change_classes


def apply_policy(
    policy: Actions, change_classes: Iterable[Class], alarms: Sequence[Alarm] = ()
) -> Stop | None:
    """Return why and how the version is stopped, or None to accept it. `alarms`: for the reasons."""
    present_classes = set(change_classes)
    stopping = [class_ for class_ in CLASSES if class_ in present_classes and policy[class_] != "accept"]
    if not stopping:
        return None
    action = max((policy[class_] for class_ in stopping), key=_STRICTNESS.index)
    reasons = []
    for class_ in stopping:
        severity = {"alarm_high": "high", "alarm_medium": "medium"}.get(class_)
        codes = {alarm.code for alarm in alarms if alarm.severity == severity}
        if not codes or codes - ABOUT_NAMES:
            reasons.append(CLASSES[class_][1])
        # Alarms about the name have a reason of their own.
        if codes & ABOUT_NAMES:
            reasons.append(_("its name is or looks like that of another vendor's tool"))
    return Stop(action, "high" if SEVERE & set(stopping) else "medium", tuple(reasons))
