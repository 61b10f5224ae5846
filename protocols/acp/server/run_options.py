"""Validate the options of a run besides its input.

Values outside of the protocol's schema are rejected, as are values that Pegboard does not implement, so that
no option is accepted and then ignored. Options that match what Pegboard does are accepted.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from core.errors import DomainError
from protocols.acp import wire

_CHOICES = {
    "on_disconnect": ("cancel", "continue"),
    "multitask_strategy": ("reject", "rollback", "interrupt", "enqueue"),
    # About the implicit thread of a run without one, which Pegboard never creates.
    "on_completion": ("delete", "keep"),
    "if_not_exists": ("create", "reject"),
}


def check(options: Mapping[str, Any]) -> None:
    """Validate the options of a new run. Raises DomainError for the first unsupported one."""
    for member, choices in _CHOICES.items():
        _one_of(member, options.get(member), choices)
    if options.get("multitask_strategy") not in (None, "reject"):
        raise _only("multitask_strategy", "reject", "a thread has one run at a time")
    _check_modes(options.get("stream_mode"))
    subgraphs = options.get("stream_subgraphs")
    if subgraphs is not None and not isinstance(subgraphs, bool):
        raise DomainError("invalid", "“stream_subgraphs” must be true or false.")
    if subgraphs:
        raise _not_supported("stream_subgraphs", "a tool has no subgraphs.")
    if (after := options.get("after_seconds")) is not None:
        if type(after) is not int:
            raise DomainError("invalid", "“after_seconds” must be a whole number.")
        if after:
            raise _not_supported("after_seconds", "a run starts immediately.")
    if (metadata := options.get("metadata")) is not None and not isinstance(metadata, dict):
        raise DomainError("invalid", "“metadata” must be an object.")
    if isinstance(config := options.get("config"), dict):
        _check_config(config)


def disconnect_check(options: Mapping[str, Any], has_left: Callable[[], bool]) -> Callable[[], bool] | None:
    """Return `has_left` if the run is cancelled when its client disconnects; None if it continues then.

    Without `on_disconnect` a run is cancelled, as the schema of ACP states. Raises DomainError for `cancel`
    with a webhook.
    """
    if not options.get("webhook"):
        return None if options.get("on_disconnect") == "continue" else has_left
    if options.get("on_disconnect") == "cancel":
        message = (
            "A run with a webhook continues after its client has disconnected, and reports its end to the "
            "webhook. Set “on_disconnect” to “continue”."
        )
        raise DomainError("invalid", message)
    return None


def check_cancelling(action: str | None, wait: str) -> None:
    """Validate a request to cancel a run, which has ended when the reply is sent. Raises DomainError."""
    _one_of("action", action, ("interrupt", "rollback"))
    if action == "rollback":
        raise _only("action", "interrupt", "the effects of a tool cannot be undone")
    if wait.lower() not in ("", "true", "false", "1", "0"):
        raise DomainError("invalid", "“wait” must be true or false.")


def matches_search(options: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Return whether a run matches a search. Raises DomainError."""
    _one_of("status", options.get("status"), wire.RUN_STATUSES)
    return all(options.get(member) in (None, run[member]) for member in ("status", "agent_id"))


def _check_modes(modes: object) -> None:
    for mode in modes if isinstance(modes, list) else [modes]:
        _one_of("stream_mode", mode, ("values", "custom"), is_nullable=mode is modes)
        if mode == "custom":
            raise _only("stream_mode", "values", "no agent declares another mode")


def _one_of(member: str, value: object, choices: Collection[str], *, is_nullable: bool = True) -> None:
    # Some clients send null for omitted options.
    if value is None and is_nullable:
        return
    if not isinstance(value, str) or value not in choices:
        raise DomainError("invalid", f"“{member}” must be one of: {', '.join(choices)}.")


def _check_config(config: Mapping[str, Any]) -> None:
    if config.get("recursion_limit") is not None:
        raise _not_supported("config.recursion_limit", "the vendor of the agent decides it.")
    tags = config.get("tags")
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise DomainError("invalid", "“config.tags” must be an array of texts.")


def _only(member: str, value: str, reason: str) -> DomainError:
    return DomainError("invalid", f"“{member}” can only be “{value}”: {reason}.")


def _not_supported(member: str, reason: str) -> DomainError:
    return DomainError("invalid", f"“{member}” is not supported: {reason}")
