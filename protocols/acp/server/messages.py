"""The messages of a server of ACP."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from core.errors import DomainError
from protocols.acp import wire
from protocols.acp.server.release import ServedRun
from protocols.server import NoSuchAddressError, Refusal, ServerReply, ServerRequest, json_reply

# The kind of interrupt of tools whose vendors declare none. Its payload contains the question.
QUESTION = "question"
MAX_OUTPUT_LENGTH = 8_000  # characters of the output of a failed run
QUESTIONS = {
    wire.INTERRUPT_TYPE: QUESTION,
    "interrupt_payload": {
        "type": "object",
        "properties": {
            "message": {"type": "string"},
            "schema": {"type": "object", "description": "The JSON Schema of the answer, of a form."},
            "url": {"type": "string", "description": "What the user has to visit before the run goes on."},
        },
        "required": ["message"],
    },
    "resume_payload": {},
}
DEFAULT_LIMIT, MAX_LIMIT = 10, 1000


def refusal(refusal: Refusal) -> ServerReply:
    # An error of the protocol is a text. It uses 422 where REST uses 400.
    fields = "".join(f" {name}: {reason}" for name, reason in refusal.fields.items())
    status = 422 if refusal.status == 400 else refusal.status
    return json_reply(f"{refusal.message}{fields}", status)


def uuid_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NoSuchAddressError from None


def object_in(request: ServerRequest) -> dict[str, Any]:
    document = request.document
    if not isinstance(document, dict):
        raise DomainError("invalid_json", "The body must be a JSON object.")
    return document


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


def output_of(run: ServedRun) -> dict[str, Any]:
    """Return the output of a run. An interrupt is one question."""
    if run.status == "success":
        return wire.result(run.outputs)
    if run.status == "interrupted":
        (ask,) = run.asks
        details = {name: value for name, value in (("schema", ask.schema), ("url", ask.url)) if value}
        return wire.interrupt(run.question_kind or QUESTION, {"message": ask.message, **details})
    description = run.message
    if run.outputs:
        # A run that failed has no other member for what its tool returned.
        outputs = msgspec.json.encode(run.outputs).decode()
        description += f" Its output: {outputs[:MAX_OUTPUT_LENGTH]}"
    if run.output_schema is not None:
        description += f" Its output schema: {msgspec.json.encode(run.output_schema).decode()}"
    return wire.error(str(run.run_id), wire.ERRORS.get(run.outcome or "", 0), description)


def event(update: Mapping[str, Any], event_id: str) -> bytes:
    return f"id: {event_id}\nevent: {wire.EVENT}\ndata: ".encode() + msgspec.json.encode(update) + b"\n\n"
