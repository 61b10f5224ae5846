"""What came of a call, bounded and fit to be kept: everything in it was written by a vendor."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from django.db.models.functions import Now
from django.utils import timezone

from catalog.models.calls import Asked, Attempt, Call, CallStatus, Result, Retry, Sent
from core.canonical_json import canonical
from core.outbound.errors import printable
from core.outbound.exchange import Exchange
from protocols import parameters as json_schema
from protocols.base import Ask, Note, Outcome, UnreadableItemError
from protocols.calls import outcomes
from protocols.calls.arguments import note_on, unknown_inputs
from protocols.signature import Signature

NO_WORKER = (
    "No worker took this call, so nothing was sent. Look whether a worker is running, then run it again."
)
WORKER_LOST = (
    "The process that made this call ended before the answer came. It is not known whether the tool ran."
)
OUR_FAULT = "Pegboard itself failed here; its log says more. It is not known whether the tool ran."
DATABASE_LOST = (
    "The connection to Pegboard's database was lost after the call was begun. It is not known whether the "
    "tool ran. Look for its effect before it is called again, or look the call up by its idempotency key."
)

# Outputs are kept in a row and shown on a page; of longer ones, the beginning is.
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
# Headers of replies that are meant for the direct caller alone (RFC 9110, 7.6.1, 10.2.2 and 11.6.1).
BETWEEN_TWO = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade"),
    *("transfer-encoding", "location", "set-cookie", "set-cookie2", "www-authenticate"),
}


def ending(outcome: Outcome) -> dict[str, Any]:
    """The columns of a call that ends without its process."""
    return {"status": CallStatus.FINISHED, "finished_at": Now(), **told(outcome, [])}


def end_with_unknown_outcome(call: Call) -> Call:
    """End the call in memory alone, after the database was lost. `queue.sweep` ends its row later."""
    outcome = outcomes.failed("unknown", "OUTCOME_UNKNOWN", DATABASE_LOST)
    call.status, call.finished_at, call.is_ours = CallStatus.FINISHED, timezone.now(), False
    call.outcome, call.error_code, call.result = told(outcome, [], is_safe=call.terms.may_run_twice).values()
    return call


def told(outcome: Outcome, attempts: list[Attempt], *, is_safe: bool = False) -> dict[str, str]:
    """The columns of a call that say what came of it."""
    return {
        "outcome": outcome.outcome,
        "error_code": printable(str((outcome.error or {}).get("code", "")), 50),
        "result": kept(outcome, attempts, is_safe=is_safe),
    }


def kept(outcome: Outcome, attempts: Sequence[Attempt], *, is_safe: bool = False) -> str:
    """The `Result` as JSON. `is_safe`: it is stated that the tool may run twice."""
    outputs, parsed = sound(dict(outcome.outputs)), sound(dict(outcome.parsed))
    written = msgspec.json.encode(outputs)
    is_long = len(written) > MAX_OUTPUTS_BYTES
    asks = _asks(outcome.asks)
    result = Result(
        outputs={} if is_long else outputs,
        parsed={} if is_long or len(msgspec.json.encode(parsed)) > MAX_OUTPUTS_BYTES else parsed,
        whole_output=outcome.whole_output,
        cut=written[:MAX_CUT_BYTES].decode(errors="ignore") if is_long else "",
        error=_error(outcome.error),
        retry=retry(outcome, is_safe=is_safe),
        notes=[note_document(note) for note in outcome.notes[:MAX_LINES]],
        asks=asks,
        resume=_state(outcome.resume) if len(asks) == len(outcome.asks) else None,
        attempts=list(attempts),
        vendor_duration_ms=outcome.vendor_duration_ms,
    )
    return msgspec.json.encode(result).decode()


def note_document(note: Note) -> dict[str, str]:
    members = {"code": note.code, "message": note.message, "input": note.input, "proposal": note.proposal}
    return {name: _line(text) for name, text in members.items() if text}


def with_argument_notes(outcome: Outcome, signature: Signature, arguments: Mapping[str, Any]) -> Outcome:
    """Return the outcome with a note for each name that was sent and that the signature does not describe."""
    unknown = unknown_inputs(signature, arguments)
    return replace(outcome, notes=[*map(note_on, unknown), *outcome.notes]) if unknown else outcome


def notes_on_inputs(result: Result) -> list[dict[str, str]]:
    """Return the notes on what the caller has sent, and not on what the vendor has answered."""
    return [note for note in result.notes if "input" in note]


def retry(outcome: Outcome, *, is_safe: bool) -> Retry | None:
    """None for what worked, and for what another try of the same call would not help."""
    is_away, wait = outcome.outcome in ("unavailable", "unknown"), outcome.retry_after
    has_failed = is_away or outcome.outcome == "tool_error"
    if not has_failed and wait is None and not outcome.can_retry:
        return None
    return Retry(
        can_retry=(is_away and is_safe) if outcome.can_retry is None else outcome.can_retry,
        after_ms=None if wait is None else round(wait * 1000),
        is_transient=is_away or wait is not None,
        hint=sound(outcome.hint)[:MAX_QUESTION_LENGTH],
    )


def attempt(
    outcome: Outcome,
    exchanges: Sequence[Exchange],
    waited: float,
    took: float,
    unshown: Collection[str] = (),
) -> Attempt:
    """`unshown` names members of replies, and headers, whose text is struck out."""
    error = outcome.error or {}
    return Attempt(
        outcome=outcome.outcome,
        code=_line(str(error.get("code", ""))),
        message=_line(str(error.get("message", ""))),
        waited_ms=round(waited * 1000),
        duration_ms=round(took * 1000),
        exchanges=[
            Sent(
                method=each.method,
                url=_line(each.url),
                headers=_head(each.headers, unshown),
                body=_body(each.body),
                status=each.status,
                reply_headers=_head(
                    {n: v for n, v in each.reply_headers.items() if n not in BETWEEN_TWO}, unshown
                ),
                reply=_body(_struck_out(each.reply, unshown)),
                duration_ms=each.duration_ms,
            )
            for each in exchanges[:MAX_EXCHANGES]
        ],
    )


def questions(ask: Asked | Ask) -> Signature:
    """What an ask wants to know, as a signature, so that a form and its check come out of one schema."""
    # A schema that cannot be read asks for any JSON.
    try:
        shape = json_schema.read(ask.schema if ask.schema is not None else True, "asked", whole_name=ANSWER)
    except UnreadableItemError:
        shape = json_schema.read(True, "asked", whole_name=ANSWER)
    return Signature(name="asked", description="", inputs=shape.parameters, schema_rest=shape.rest)


def answer_of(signature: Signature, given: Mapping[str, Any]) -> Any:
    """The answer to an ask, from values by parameter."""
    if len(signature.inputs) == 1 and signature.inputs[0].is_whole:
        return given.get(signature.inputs[0].name)
    return dict(given)


def faults_in_answer(ask: Asked, answer: object) -> dict[str, str]:
    """Why an answer does not fit, by `id` or `id.member`."""
    signature = questions(ask)
    is_whole = len(signature.inputs) == 1 and signature.inputs[0].is_whole
    if not is_whole and not isinstance(answer, dict):
        return {ask.id: "is required" if answer is None else "must be an object"}
    given: Mapping[str, Any] = {signature.inputs[0].name: answer} if is_whole else answer  # type: ignore[assignment]
    refusal = outcomes.refusal(signature, given)
    if refusal is None:
        return {}
    fields: Mapping[str, str] = (refusal.error or {}).get("fields", {})
    return {ask.id if is_whole or not name else f"{ask.id}.{name}": why for name, why in fields.items()}


def _struck_out(reply: str, names: Collection[str]) -> str:
    # The reply as it came, which may be cut or no JSON at all, without the texts of some members.
    for name in names:
        reply = re.sub(rf'("{re.escape(name)}"\s*:\s*)"(?:[^"\\]|\\.)*(?:"|$)', r'\1"•••"', reply)
    return reply


def _head(headers: Mapping[str, str], unshown: Collection[str]) -> dict[str, str]:
    shown = {name: "•••" if name.lower() in unshown else value for name, value in headers.items()}
    lines = list(shown.items())[:MAX_LINES]
    return {_line(name, MAX_HEADER_LENGTH): _line(value, MAX_HEADER_LENGTH) for name, value in lines}


def _body(text: str) -> str:
    text = sound(text)
    return text if len(text) <= MAX_BODY_LENGTH else text[:MAX_BODY_LENGTH] + " …"


def _line(text: str, longest: int = MAX_LINE_LENGTH) -> str:
    text = sound(text)
    return text if len(text) <= longest else text[:longest] + "…"


def _error(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    # Texts are cut, and what is neither text nor a small value is left out.
    if error is None:
        return None
    told: dict[str, Any] = {
        _line(name): _line(value) if isinstance(value, str) else value
        for name, value in list(error.items())[:MAX_LINES]
        if isinstance(value, str | bool | int | float)
    }
    if vendor := error.get("vendor"):
        told["vendor"] = {_line(str(name)): _line(str(each)) for name, each in vendor.items()}
    if fields := error.get("fields"):
        told["fields"] = {_line(str(name)): _line(str(why)) for name, why in list(fields.items())[:MAX_LINES]}
    return told


def _asks(asks: Sequence[Ask]) -> list[Asked]:
    found = []
    for ask in asks[:MAX_ASKS]:
        schema = None if ask.schema is None else sound(dict(ask.schema))
        if schema is not None and len(canonical(schema)) > MAX_STATE_BYTES:
            schema = {}
        # Only what a person may open in a browser; it is shown as text and never followed from here.
        is_link = ask.url.lower().startswith(("https://", "http://")) and len(ask.url) <= MAX_URL_LENGTH
        url = ask.url if is_link and ask.url.isprintable() else ""
        request = None if ask.request is None else sound(dict(ask.request))
        found.append(Asked(_line(ask.id), sound(ask.message)[:MAX_QUESTION_LENGTH], schema, url, request))
    return found


def _state(state: Mapping[str, Any] | None) -> dict[str, Any] | None:
    # A state is handed back as it came or not at all: half of one would mean something else.
    if state is None or sound(dict(state)) != state:
        return None
    return dict(state) if len(canonical(state)) <= MAX_STATE_BYTES else None


def sound(value: Any) -> Any:
    """Without half surrogate pairs, which no JSON can carry."""
    match value:
        case str():
            return value if value.isascii() else value.encode(errors="replace").decode()
        case dict():
            return {sound(str(name)): sound(each) for name, each in value.items()}
        case list() | tuple():
            return [sound(each) for each in value]
    return value
