"""What a client of ACP may say of a run beside its input: what is done, and what is refused with a sentence.

Values that the protocol's schema does not have are refused, and so are those that it has and Pegboard does
not do: nothing is taken and then left undone. What is done anyway may be said.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from core.errors import DomainError
from protocols.acp import wire

_CHOICES = {
    "on_disconnect": ("cancel", "continue"),
    "multitask_strategy": ("reject", "rollback", "interrupt", "enqueue"),
    # Of the thread that a run without one might have, and never has here.
    "on_completion": ("delete", "keep"),
    "if_not_exists": ("create", "reject"),
}


def check(asked: Mapping[str, Any]) -> None:
    """The options of a run that is begun. Raises DomainError for the first that is not done."""
    for member, choices in _CHOICES.items():
        _one_of(member, asked.get(member), choices)
    if asked.get("multitask_strategy") not in (None, "reject"):
        raise _only("multitask_strategy", "reject", "a second run on a thread is refused")
    _check_modes(asked.get("stream_mode"))
    if _flag("stream_subgraphs", asked.get("stream_subgraphs")):
        raise _not_offered("stream_subgraphs", "a tool has none.")
    if (after := asked.get("after_seconds")) is not None:
        if type(after) is not int:
            raise DomainError("invalid", "“after_seconds” is a whole number.")
        if after:
            raise _not_offered("after_seconds", "a run begins at once.")
    if (metadata := asked.get("metadata")) is not None and not isinstance(metadata, dict):
        raise DomainError("invalid", "“metadata” is no object.")
    if isinstance(config := asked.get("config"), dict):
        _check_config(config)


def left(asked: Mapping[str, Any], has_left: Callable[[], bool]) -> Callable[[], bool] | None:
    """What says that the client of a run has hung up, so that the run is cancelled, as the schema has it
    where nothing is said; None where the run goes on. Raises DomainError for a run with a webhook that is not
    to go on."""
    if not asked.get("webhook"):
        return None if asked.get("on_disconnect") == "continue" else has_left
    if asked.get("on_disconnect") == "cancel":
        message = (
            "A run with a webhook goes on when its client hangs up: its webhook is told of its end. "
            "Say “continue” as “on_disconnect”."
        )
        raise DomainError("invalid", message)
    return None


def check_cancelling(action: str | None, wait: str) -> None:
    """How a run is cancelled: it has ended when that is answered. Raises DomainError."""
    _one_of("action", action, ("interrupt", "rollback"))
    if action == "rollback":
        raise _only("action", "interrupt", "what a tool has done stays done")
    if wait.lower() not in ("", "true", "false", "1", "0"):
        raise DomainError("invalid", "“wait” is true or false.")


def is_searched(asked: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Whether a search finds this run, by what it is. Raises DomainError."""
    _one_of("status", asked.get("status"), wire.RUN_STATUSES)
    return all(asked.get(member) in (None, run[member]) for member in ("status", "agent_id"))


def _check_modes(modes: object) -> None:
    for mode in modes if isinstance(modes, list) else [modes]:
        _one_of("stream_mode", mode, ("values", "custom"), is_nullable=mode is modes)
        if mode == "custom":
            raise _only("stream_mode", "values", "no agent declares another one")


def _check_config(config: Mapping[str, Any]) -> None:
    if config.get("recursion_limit") is not None:
        raise _not_offered("config.recursion_limit", "how far an agent goes is its vendor's.")
    tags = config.get("tags")
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise DomainError("invalid", "“config.tags” is an array of texts.")


def _one_of(member: str, value: object, choices: Collection[str], *, is_nullable: bool = True) -> None:
    # Some clients send null for what they do not say.
    if value is None and is_nullable:
        return
    if not isinstance(value, str) or value not in choices:
        raise DomainError("invalid", f"“{member}” is one of: {', '.join(choices)}.")


def _flag(member: str, value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise DomainError("invalid", f"“{member}” is true or false.")
    return bool(value)


def _only(member: str, value: str, why: str) -> DomainError:
    return DomainError("invalid", f"“{member}” is offered as “{value}” alone: {why}.")


def _not_offered(member: str, why: str) -> DomainError:
    return DomainError("invalid", f"“{member}” is not offered: {why}")
