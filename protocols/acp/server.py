"""The messages of a server of ACP. serving/serve/acp.py handles its requests."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from core.errors import DomainError
from protocols.acp import wire
from protocols.server import Refusal, Reply, ToolCallResult, json_reply

# The kind of interrupt of tools whose vendors declare none. Its payload contains the question.
QUESTION = "question"
DEFAULT_LIMIT, MAX_LIMIT = 10, 1000


def refusal(refusal: Refusal) -> Reply:
    # An error of the protocol is a text. It uses 422 where REST uses 400.
    fields = "".join(f" {name}: {reason}" for name, reason in refusal.fields.items())
    status = 422 if refusal.status == 400 else refusal.status
    return json_reply(f"{refusal.message}{fields}", status)


def page_of(query: Mapping[str, Any], maximum: int = MAX_LIMIT) -> tuple[int, int]:
    """Return `limit` and `offset` of a body or an address. Raises DomainError."""
    limit, offset = (
        int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10 else text
        for text in (query.get("limit", DEFAULT_LIMIT), query.get("offset", 0))
    )
    if type(limit) is not int or not 1 <= limit <= maximum or type(offset) is not int or offset < 0:
        message = f"“limit” must be a whole number from 1 to {maximum}, and “offset” one from 0."
        raise DomainError("invalid", message)
    return limit, offset


def configuration_of(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the configuration of a run, or None. Raises DomainError."""
    # Clients send an empty object if they have nothing to set.
    config = run.get("config")
    values = config.get("configurable") if isinstance(config, dict) else config
    if values is not None and not isinstance(values, dict):
        raise DomainError("invalid", "“config.configurable” must be an object.")
    return values or None


def answers_of(body: Mapping[str, Any], ask_ids: Sequence[str]) -> dict[str, Any]:
    """Return the answer to an interrupt by the id of the question."""
    kind = body.get(wire.INTERRUPT_TYPE)
    has_kind = isinstance(kind, str) and kind != QUESTION
    ask_id = str(kind) if has_kind or kind in ask_ids else "".join(ask_ids)
    return {ask_id: {name: value for name, value in body.items() if name != wire.INTERRUPT_TYPE}}


def output_of(
    result: ToolCallResult, *, run_id: str, status: str, interrupt_kind: str = ""
) -> dict[str, Any]:
    """Return the output of a run. An interrupt is one question."""
    if status == "success":
        return wire.result(result.outputs)
    if status == "interrupted":
        (ask,) = result.asks
        details = {name: value for name, value in (("schema", ask.schema), ("url", ask.url)) if value}
        return wire.interrupt(interrupt_kind, {"message": ask.message, **details})
    description = result.message
    if result.output_schema is not None:
        description += f" Its output schema: {msgspec.json.encode(result.output_schema).decode()}"
    return wire.error(run_id, wire.ERRORS.get(result.outcome or "", 0), description)


def event(update: Mapping[str, Any], event_id: str) -> bytes:
    return f"id: {event_id}\nevent: {wire.EVENT}\ndata: ".encode() + msgspec.json.encode(update) + b"\n\n"
