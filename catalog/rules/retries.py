"""The rule by which a failed call is sent again. Pure.

A policy is set at three levels, member by member: the pin overrides its agent, and the agent overrides the
endpoint. docs/decisions/0058-retries.md has the reasons.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from core.errors import invalid
from core.translatable import Wording
from core.translatable import mark as _
from protocols.call_outcome import Outcome
from protocols.signature import Annotations

When = Literal["none", "safe", "all"]
Level = Literal["pin", "agent", "endpoint", "default"]
# The members that are set at one level.
Stated = Mapping[str, Any]

# Labels, in the order of increasing risk.
WHENS: dict[When, str] = {
    "none": _("Never"),
    "safe": _("Only when safe"),
    "all": _("Always, even if the tool may run twice"),
}
MAX_GIVE_UP_SECONDS = 120
MAX_ATTEMPTS = 10
# Seconds before the second attempt, the third, and so on. The last value repeats.
PAUSES: tuple[float, ...] = (0.5, 2.0, 8.0, 15.0)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A retry policy. The defaults never change, because releases without a policy rely on them."""

    retry: When = "safe"
    give_up_after_seconds: int = 30
    attempts: int = 3


DEFAULT = RetryPolicy()


class RetryTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The retry policy of a call, and the known effects of its tool."""

    policy: RetryPolicy = DEFAULT
    effects: Annotations = Annotations()

    @property
    def may_run_twice(self) -> bool:
        return self.policy.retry == "all" or is_harmless(self.effects)


class ResolvedRetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The effective policy, and the level at which each member is set."""

    policy: RetryPolicy
    levels: Mapping[str, Level]


def resolve_policy(
    *, pin: Stated | None = None, agent: Stated | None = None, endpoint: Stated
) -> ResolvedRetryPolicy:
    """Return each member of the policy from the pin, else the agent, else the endpoint, else the default."""
    levels_in_order: list[tuple[Level, Stated]] = [
        ("pin", pin or {}),
        ("agent", agent or {}),
        ("endpoint", endpoint),
    ]
    values, levels = {}, {}
    for member in RetryPolicy.__struct_fields__:
        settings = (
            (level, stated[member]) for level, stated in levels_in_order if stated.get(member) is not None
        )
        level, values[member] = next(settings, ("default", getattr(DEFAULT, member)))
        levels[member] = level
    return ResolvedRetryPolicy(policy=RetryPolicy(**values), levels=levels)


def change_policy(current: Stated, changes: Stated) -> dict[str, Any]:
    """Apply changes to the members of one level; None removes a member. Raises DomainError (`invalid`)."""
    if messages := faults(changes):
        raise invalid(**messages)
    members = {**current, **changes}
    return {name: members[name] for name in RetryPolicy.__struct_fields__ if members.get(name) is not None}


def faults(changes: Stated) -> dict[str, str]:
    """Return an error message for each invalid member."""
    messages = {}
    if changes.get("retry") not in (None, *get_args(When)):
        choices = ", ".join(get_args(When))
        messages["retry"] = f"Choose one of: {choices}."
    bounds = {"give_up_after_seconds": MAX_GIVE_UP_SECONDS, "attempts": MAX_ATTEMPTS}
    for name, maximum in bounds.items():
        value = changes.get(name)
        if value is not None and (type(value) is not int or not 1 <= value <= maximum):
            messages[name] = f"Choose a number from 1 to {maximum}."
    return messages


def sentence(policy: RetryPolicy) -> Wording:
    """Describe the policy, as the predicate of a sentence about a runtime."""
    values = {"attempts": policy.attempts, "seconds": policy.give_up_after_seconds}
    match policy.retry:
        case "none":
            template = _("never retries, gives up after {seconds} s")
        case "safe":
            template = _("retries only when safe, {attempts} attempts at most, gives up after {seconds} s")
        case "all":
            template = _("always retries, {attempts} attempts at most, gives up after {seconds} s")
    return Wording(template, values)


def is_harmless(effects: Annotations) -> bool:
    """Return whether running the tool twice is declared to have the effect of running it once."""
    return effects.read_only is True or effects.idempotent is True


def may_repeat(terms: RetryTerms, outcome: Outcome) -> bool:
    """Return whether the policy and the outcome allow another attempt, whatever the number of attempts."""
    # A hint is for the model, which may then change its request.
    if terms.policy.retry == "none" or outcome.can_retry is False or outcome.hint:
        return False
    if outcome.outcome == "tool_error":
        return outcome.can_retry is True
    if outcome.outcome != "unavailable":
        return False
    if outcome.can_retry or terms.may_run_twice:
        return True
    # The protocols allow a retry after any 5xx status. Silence does not allow one, because the tool may still
    # be running. A tool that is declared harmful to repeat is not retried.
    is_stated_harmful = terms.effects.destructive is True or terms.effects.idempotent is False
    return str((outcome.error or {}).get("code", "")).startswith("HTTP_") and not is_stated_harmful


def wait_before_next(
    terms: RetryTerms, outcome: Outcome, *, attempts: int, seconds_left: float, chance: float = 0.0
) -> float | None:
    """Return the seconds until the next attempt, or None if `outcome` is final.

    attempts: the number of attempts so far. chance: from 0 to 1, spreads callers of the same vendor.
    """
    if attempts >= terms.policy.attempts or not may_repeat(terms, outcome):
        return None
    pause = PAUSES[min(attempts, len(PAUSES)) - 1]
    if outcome.retry_after is not None:
        # The vendor's time takes precedence and is never shortened.
        pause = outcome.retry_after
    seconds = pause * (1 + chance / 4)
    return seconds if seconds < seconds_left else None
