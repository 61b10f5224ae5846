"""Whether a call that failed is sent again, and after how long. Pure.

A policy is stated in three places, member by member: for a pin before its agent, for an agent before the
endpoint. docs/decisions/0058-retries.md says why the rules are these.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from core.errors import invalid
from protocols.base import Outcome
from protocols.signature import Annotations

When = Literal["none", "safe", "all"]
Level = Literal["pin", "agent", "endpoint", "default"]
# What is stated at one place: members of a policy, those that are left out are another place's to say.
Stated = Mapping[str, Any]

# For people, in the order of how much is risked.
WHENS: dict[When, str] = {
    "none": "Never",
    "safe": "When it does no harm",
    "all": "Always, even if it may run twice",
}
MAX_GIVE_UP_SECONDS = 120
MAX_ATTEMPTS = 10
# Seconds before the second attempt, the third, and so on; the last one stays.
PAUSES: tuple[float, ...] = (0.5, 2.0, 8.0, 15.0)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """These values never change: a release that states no policy means them."""

    retry: When = "safe"
    give_up_after_seconds: int = 30
    attempts: int = 3


DEFAULT = RetryPolicy()


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """On what terms a call is made: its policy, and what is known of the tool's effects."""

    policy: RetryPolicy = DEFAULT
    effects: Annotations = Annotations()

    @property
    def may_run_twice(self) -> bool:
        return self.policy.retry == "all" or is_harmless(self.effects)


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """What counts, and where each member of it is stated."""

    policy: RetryPolicy
    levels: Mapping[str, Level]


def resolved(*, pin: Stated | None = None, agent: Stated | None = None, endpoint: Stated) -> Resolved:
    places: list[tuple[Level, Stated]] = [("pin", pin or {}), ("agent", agent or {}), ("endpoint", endpoint)]
    values, levels = {}, {}
    for member in RetryPolicy.__struct_fields__:
        found = ((level, stated[member]) for level, stated in places if stated.get(member) is not None)
        level, values[member] = next(found, ("default", getattr(DEFAULT, member)))
        levels[member] = level
    return Resolved(policy=RetryPolicy(**values), levels=levels)


def stated(held: Stated, changes: Stated) -> dict[str, Any]:
    """What is stated after the changes, of which None takes a member back. Raises DomainError (`invalid`)."""
    if wrong := faults(changes):
        raise invalid(**wrong)
    members = {**held, **changes}
    return {name: members[name] for name in RetryPolicy.__struct_fields__ if members.get(name) is not None}


def faults(changes: Stated) -> dict[str, str]:
    """By member a sentence that says what may be stated; empty when all may."""
    found = {}
    if changes.get("retry") not in (None, *get_args(When)):
        found["retry"] = f"Choose one of: {', '.join(get_args(When))}."
    bounds = {"give_up_after_seconds": MAX_GIVE_UP_SECONDS, "attempts": MAX_ATTEMPTS}
    for name, most in bounds.items():
        value = changes.get(name)
        if value is not None and (type(value) is not int or not 1 <= value <= most):
            found[name] = f"Choose a number from 1 to {most}."
    return found


def sentence(policy: RetryPolicy) -> str:
    """What it does, as the middle of a sentence."""
    gives_up = f"gives up after {policy.give_up_after_seconds} s"
    match policy.retry:
        case "none":
            return f"never sends it again, {gives_up}"
        case "safe":
            return f"sends it again when that does no harm, {policy.attempts} attempts at most, {gives_up}"
        case "all":
            return f"sends it again in any case, {policy.attempts} attempts at most, {gives_up}"


def is_harmless(effects: Annotations) -> bool:
    """Whether running it twice is stated to do no more than running it once."""
    return effects.read_only is True or effects.idempotent is True


def may_repeat(terms: Terms, outcome: Outcome) -> bool:
    """Whether the same call may be sent again at all, however often it was sent."""
    # A hint is meant for the model, which then may ask for something else.
    if terms.policy.retry == "none" or outcome.can_retry is False or outcome.hint:
        return False
    if outcome.outcome == "tool_error":
        return outcome.can_retry is True
    if outcome.outcome != "unavailable":
        return False
    if outcome.can_retry or terms.may_run_twice:
        return True
    # The drafts take any 5xx for a reason to try again. Silence is none: the tool may be at work. Nor is an
    # error of a tool of which it is stated that a second run does more than the first.
    is_stated_harmful = terms.effects.destructive is True or terms.effects.idempotent is False
    return str((outcome.error or {}).get("code", "")).startswith("HTTP_") and not is_stated_harmful


def wait_before_next(
    terms: Terms, outcome: Outcome, *, attempts: int, seconds_left: float, chance: float = 0.0
) -> float | None:
    """Seconds until the call is sent again, None when `outcome` is the last one.

    `attempts` have been made. `chance`, from 0 to 1, spreads those who wait for one vendor.
    """
    if attempts >= terms.policy.attempts or not may_repeat(terms, outcome):
        return None
    pause = PAUSES[min(attempts, len(PAUSES)) - 1]
    if outcome.retry_after is not None:
        # The vendor's own time counts, and is never cut short.
        pause = outcome.retry_after
    wait = pause * (1 + chance / 4)
    return wait if wait < seconds_left else None
