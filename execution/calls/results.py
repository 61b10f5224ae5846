"""The stored result of a call, with limits, because vendors wrote everything in it."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from django.db.models.functions import Now
from django.utils import timezone

from catalog.models.calls import Attempt, Call, CallStatus, RecordedExchange, Result, Retry, StoredQuestion
from core.canonical_json import canonical
from core.outbound.errors import printable
from core.outbound.exchange import Exchange
from protocols import parameters as json_schema
from protocols.call_outcome import Ask, Outcome
from protocols.calls import outcomes
from protocols.calls.arguments import note_on, unknown_inputs
from protocols.list_pages import Note, UnreadableItemError
from protocols.signature import Signature

NO_WORKER = (
    "No worker claimed this call, so nothing was sent. Check that a worker is running, then run it again."
)
WORKER_LOST = (
    "The process that made this call ended before the answer came. It is not known whether the tool ran."
)
OUR_FAULT = "Pegboard failed. Its log contains the error. It is not known whether the tool ran."
DATABASE_LOST = (
    "The connection to Pegboard's database was lost after the call was begun. It is not known whether the "
    "tool ran. Look for its effect before it is called again, or look the call up by its idempotency key."
)

# Outputs are stored in a row and shown on a page. Only the beginning of longer ones is stored.
MAX_OUTPUTS_BYTES = 1024 * 1024
MAX_STATE_BYTES = 256 * 1024
MAX_CUT_BYTES = 16 * 1024
MAX_BODY_LENGTH = 16 * 1024
MAX_LINE_LENGTH = 1000
MAX_HEADER_LENGTH = 300
MAX_LINES = 50
MAX_EXCHANGES = 20
MAX_ASKS = 10
MAX_QUESTION_LENGTH = 4000
MAX_URL_LENGTH = 2048
ANSWER = "answer"
# Reply headers that are only for the direct client (RFC 9110, 7.6.1, 10.2.2 and 11.6.1).
HOP_BY_HOP_HEADERS = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade"),
    *("transfer-encoding", "location", "set-cookie", "set-cookie2", "www-authenticate"),
}


def ending(outcome: Outcome) -> dict[str, Any]:
    """Return the columns of a call that ends without its process."""
    return {"status": CallStatus.FINISHED, "finished_at": Now(), **result_columns(outcome, [])}


def end_with_unknown_outcome(call: Call) -> Call:
    """End the call in memory only, after a loss of the database. `queue.sweep` ends its row later."""
    outcome = outcomes.failed("unknown", "OUTCOME_UNKNOWN", DATABASE_LOST)
    call.status, call.finished_at, call.is_ours = CallStatus.FINISHED, timezone.now(), False
    call.outcome, call.error_code, call.result = result_columns(
        outcome, [], is_safe=call.terms.may_run_twice
    ).values()
    return call


def result_columns(outcome: Outcome, attempts: list[Attempt], *, is_safe: bool = False) -> dict[str, str]:
    """Return the columns of a call with its outcome."""
    code = str((outcome.error or {}).get("code", ""))
    return {
        "outcome": outcome.outcome,
        "error_code": printable(code, 50) if code else "",
        "result": encode_result(outcome, attempts, is_safe=is_safe),
    }


def encode_result(outcome: Outcome, attempts: Sequence[Attempt], *, is_safe: bool = False) -> str:
    """Encode the `Result`. `is_safe`: the tool is declared to be repeatable."""
    outputs, parsed = sound(dict(outcome.outputs)), sound(dict(outcome.parsed))
    output_json = msgspec.json.encode(outputs)
    is_too_long = len(output_json) > MAX_OUTPUTS_BYTES
    asks = []
    for ask in outcome.asks[:MAX_ASKS]:
        schema = None if ask.schema is None else sound(dict(ask.schema))
        if schema is not None and len(canonical(schema)) > MAX_STATE_BYTES:
            schema = {}
        # Only addresses that a user may open in a browser. Pegboard shows them as text and never requests
        # them.
        is_link = ask.url.lower().startswith(("https://", "http://")) and len(ask.url) <= MAX_URL_LENGTH
        url = ask.url if is_link and ask.url.isprintable() else ""
        request = None if ask.request is None else sound(dict(ask.request))
        asks.append(
            StoredQuestion(
                _record_line(ask.id), sound(ask.message)[:MAX_QUESTION_LENGTH], schema, url, request
            )
        )
    result = Result(
        outputs={} if is_too_long else outputs,
        parsed={} if is_too_long or len(msgspec.json.encode(parsed)) > MAX_OUTPUTS_BYTES else parsed,
        whole_output=outcome.whole_output,
        cut=output_json[:MAX_CUT_BYTES].decode(errors="ignore") if is_too_long else "",
        error=_record_error(outcome.error),
        retry=retry(outcome, is_safe=is_safe),
        notes=[note_document(note) for note in outcome.notes[:MAX_LINES]],
        asks=asks,
        resume=_storable_state(outcome.resume) if len(asks) == len(outcome.asks) else None,
        attempts=list(attempts),
        vendor_duration_ms=outcome.vendor_duration_ms,
    )
    return msgspec.json.encode(result).decode()


def note_document(note: Note) -> dict[str, str]:
    members = {"code": note.code, "message": note.message, "input": note.input, "proposal": note.proposal}
    return {name: _record_line(text) for name, text in members.items() if text}


def with_argument_notes(outcome: Outcome, signature: Signature, arguments: Mapping[str, Any]) -> Outcome:
    """Return the outcome with a note for each argument that the signature does not describe."""
    unknown = unknown_inputs(signature, arguments)
    return replace(outcome, notes=[*map(note_on, unknown), *outcome.notes]) if unknown else outcome


def notes_on_inputs(result: Result) -> list[dict[str, str]]:
    """Return the notes on the caller's arguments, without those on the vendor's reply."""
    return [note for note in result.notes if "input" in note]


def retry(outcome: Outcome, *, is_safe: bool) -> Retry | None:
    """Return the advice on a retry, or None if it worked or a retry of the same call cannot help."""
    is_unavailable, seconds = outcome.outcome in ("unavailable", "unknown"), outcome.retry_after
    has_failed = is_unavailable or outcome.outcome == "tool_error"
    if not has_failed and seconds is None and not outcome.can_retry:
        return None
    return Retry(
        can_retry=(is_unavailable and is_safe) if outcome.can_retry is None else outcome.can_retry,
        after_ms=None if seconds is None else round(seconds * 1000),
        is_transient=is_unavailable or seconds is not None,
        hint=sound(outcome.hint)[:MAX_QUESTION_LENGTH],
    )


def attempt(
    outcome: Outcome,
    exchanges: Sequence[Exchange],
    waited_seconds: float,
    seconds: float,
    unshown: Collection[str] = (),
) -> Attempt:
    """Return the record of one attempt. `unshown`: the members and headers whose values are masked."""
    error = outcome.error or {}
    return Attempt(
        outcome=outcome.outcome,
        code=_record_line(str(error.get("code", ""))),
        message=_record_line(str(error.get("message", ""))),
        waited_ms=round(waited_seconds * 1000),
        duration_ms=round(seconds * 1000),
        exchanges=[
            RecordedExchange(
                method=exchange.method,
                url=_record_line(exchange.url),
                headers=_record_headers(exchange.headers, unshown),
                body=_record_body(exchange.body),
                status=exchange.status,
                reply_headers=_record_headers(
                    {n: v for n, v in exchange.reply_headers.items() if n not in HOP_BY_HOP_HEADERS}, unshown
                ),
                reply=_record_body(_mask_members(exchange.reply, unshown)),
                duration_ms=exchange.duration_ms,
            )
            for exchange in exchanges[:MAX_EXCHANGES]
        ],
    )


def questions(ask: StoredQuestion | Ask) -> Signature:
    """Return a question as a signature, from which a form and its validation are generated."""
    # A question with an unreadable schema accepts any JSON.
    try:
        shape = json_schema.read_schema(
            ask.schema if ask.schema is not None else True, "asked", whole_name=ANSWER
        )
    except UnreadableItemError:
        shape = json_schema.read_schema(True, "asked", whole_name=ANSWER)
    return Signature(name="asked", description="", inputs=shape.parameters, schema_rest=shape.rest)


def answer_of(signature: Signature, values: Mapping[str, Any]) -> Any:
    """Return the answer to a question from the values of its parameters."""
    if len(signature.inputs) == 1 and signature.inputs[0].is_whole:
        return values.get(signature.inputs[0].name)
    return dict(values)


def faults_in_answer(ask: StoredQuestion, answer: object) -> dict[str, str]:
    """Return why an answer is invalid, by `id` or `id.member`."""
    signature = questions(ask)
    is_whole = len(signature.inputs) == 1 and signature.inputs[0].is_whole
    if not is_whole and not isinstance(answer, dict):
        return {ask.id: "is required" if answer is None else "must be an object"}
    values: Mapping[str, Any] = {signature.inputs[0].name: answer} if is_whole else answer  # type: ignore[assignment]
    refusal = outcomes.refusal(signature, values)
    if refusal is None:
        return {}
    fields: Mapping[str, str] = (refusal.error or {}).get("fields", {})
    return {ask.id if is_whole or not name else f"{ask.id}.{name}": reason for name, reason in fields.items()}


def _mask_members(reply: str, names: Collection[str]) -> str:
    """Mask the texts of some members in a reply, which may be truncated or not JSON."""
    for name in names:
        reply = re.sub(rf'("{re.escape(name)}"\s*:\s*)"(?:[^"\\]|\\.)*(?:"|$)', r'\1"•••"', reply)
    return reply


def _record_headers(headers: Mapping[str, str], unshown: Collection[str]) -> dict[str, str]:
    masked_headers = {name: "•••" if name.lower() in unshown else value for name, value in headers.items()}
    lines = list(masked_headers.items())[:MAX_LINES]
    return {
        _record_line(name, MAX_HEADER_LENGTH): _record_line(value, MAX_HEADER_LENGTH) for name, value in lines
    }


def _record_body(text: str) -> str:
    text = sound(text)
    return text if len(text) <= MAX_BODY_LENGTH else text[:MAX_BODY_LENGTH] + " …"


def _record_line(text: str, max_length: int = MAX_LINE_LENGTH) -> str:
    text = sound(text)
    return text if len(text) <= max_length else text[:max_length] + "…"


def _record_error(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Truncate texts, and drop values that are neither texts nor small."""
    if error is None:
        return None
    members: dict[str, Any] = {
        _record_line(name): _record_line(value) if isinstance(value, str) else value
        for name, value in list(error.items())[:MAX_LINES]
        if isinstance(value, str | bool | int | float)
    }
    if vendor := error.get("vendor"):
        members["vendor"] = {
            _record_line(str(name)): _record_line(str(text)) for name, text in vendor.items()
        }
    if fields := error.get("fields"):
        members["fields"] = {
            _record_line(str(name)): _record_line(str(reason))
            for name, reason in list(fields.items())[:MAX_LINES]
        }
    return members


def _storable_state(state: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the state unchanged, or None if it cannot be stored completely."""
    if state is None or sound(dict(state)) != state:
        return None
    return dict(state) if len(canonical(state)) <= MAX_STATE_BYTES else None


def sound(value: Any) -> Any:
    """Replace half surrogate pairs, which JSON cannot represent."""
    match value:
        case str():
            # `str`, because a wording is a text that msgspec does not encode.
            return str(value) if value.isascii() else value.encode(errors="replace").decode()
        case dict():
            return {sound(str(name)): sound(item) for name, item in value.items()}
        case list() | tuple():
            return [sound(item) for item in value]
    return value
