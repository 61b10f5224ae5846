"""Outcomes of calls that are the same for every protocol."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from core import strict_json
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.reply import Reply
from core.outbound.retry_after import DAY, retry_after
from core.strict_json import AnswerDocument
from core.value_descriptions import describe_value
from protocols.call_outcome import Outcome, OutcomeKind
from protocols.calls.arguments import find_problems
from protocols.list_pages import Note
from protocols.signature import Signature

MAX_EXPLANATION_LENGTH = 500
MAX_CODE_LENGTH = 100
MAX_FAULTS = 50

# Members in which vendors state an error code, and errors per input.
_CODES = ("code", "errcode", "error_code", "type")
_FIELDS = ("fields", "parameter_errors", "detail", "validation")

# Errors after the request was sent.
CUT_OFF = ("DEADLINE", "IDLE", "RESET", "NO_REPLY", "BODY_TRUNCATED")
# Statuses after which the tool may have run. By HTTP, a 503 request was not handled.
_PERHAPS_RUN = (*CUT_OFF, *(f"HTTP_{status}" for status in (408, *range(500, 600)) if status != 503))
_NO_ACCESS = ("AUTH", "INSUFFICIENT_SCOPE", "NEEDS_SIGN_IN", "TOKEN_NOT_TAKEN")
_REPLACED = Note(
    "CHARACTERS_REPLACED",
    "The result contained characters that cannot be stored (NUL, half of a surrogate pair, or invalid "
    "UTF-8), or values that are not JSON. The characters were replaced by U+FFFD, the values by their text.",
)
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "enum": (str,),
    "int": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def failed(
    outcome: OutcomeKind,
    code: str,
    message: str,
    *,
    fields: Mapping[str, str] | None = None,
    vendor: Mapping[str, str] | None = None,
) -> Outcome:
    """Return a failed outcome. fields: a reason for each invalid argument. vendor: see `vendor_error`."""
    details = {name: value for name, value in (("fields", fields), ("vendor", vendor)) if value}
    return Outcome(outcome, error={"code": code, "message": message, **details})


def vendor_error(code: object, description: str) -> dict[str, str] | None:
    """Return the vendor's own code and its description, or None without a code."""
    is_code = isinstance(code, str | int) and not isinstance(code, bool) and code != ""
    return {"code": printable(str(code), MAX_CODE_LENGTH), "description": description} if is_code else None


def notes_on(answer: AnswerDocument) -> tuple[Note, ...]:
    """Return notes on the text of a result."""
    return (_REPLACED,) if answer.is_repaired else ()


def refusal(signature: Signature, arguments: Mapping[str, Any]) -> Outcome | None:
    """Return the outcome for invalid arguments, before anything is sent, or None."""
    if fields := find_problems(signature, arguments):
        return failed("invalid_arguments", "ARGUMENTS", "Some inputs do not fit.", fields=fields)
    return None


def convert_error(error: ProtocolError) -> Outcome:
    """Return the outcome of a call whose HTTP request failed."""
    match error:
        case UnavailableError():
            doubt = " It is not known whether the tool ran." if error.code in CUT_OFF else ""
            failure = {"code": error.code, "message": error.message + doubt}
            can_retry = None if error.code in _PERHAPS_RUN else True
            return Outcome("unavailable", error=failure, retry_after=error.retry_after, can_retry=can_retry)
        case RefusedError():
            kind: OutcomeKind = "needs_authorization" if error.code in _NO_ACCESS else "refused"
            return failed(kind, error.code, error.message)
    message = f"The tool may have run, but its reply cannot be read: {error.message}"
    return failed("tool_error", error.code, message)


def with_wait(outcome: Outcome, reply: Reply) -> Outcome:
    # A vendor that states a time for a retry permits the same call.
    delay = retry_after(reply.headers.get("retry-after", ""))
    return outcome if delay is None else replace(outcome, retry_after=min(delay, DAY), can_retry=True)


def complaint(
    reply: Reply, *, look_up: Callable[[], object] | None = None, keeps_body: bool = False
) -> Outcome:
    """Return the outcome of a reply with an error status that the protocol does not define.

    A 404 may be about the subject of the call or about the tool. look_up: requests the tool, if the protocol
    can, and raises RefusedError `NOT_FOUND` if the vendor does not have it. keeps_body: return the body as
    outputs.
    """
    reason, fields = explanation(reply)
    ending, vendor = f": {reason}" if reason else ".", vendor_error(_vendor_code(reply), reason)
    match reply.status:
        case 400 | 422:
            message = f"The vendor refused the inputs ({reply.status}){ending}"
            outcome = failed(
                "invalid_arguments", f"HTTP_{reply.status}", message, fields=fields, vendor=vendor
            )
        case 403:
            message = f"The credential may not run this tool (403){ending}"
            outcome = failed("refused", "FORBIDDEN", message, vendor=vendor)
        case _:
            message = f"The tool returned {reply.status}{ending}"
            outcome = failed("tool_error", f"HTTP_{reply.status}", message, vendor=vendor)
    is_gone = False
    if reply.status in (404, 410) and look_up:
        try:
            look_up()
        except ProtocolError as error:
            is_gone = isinstance(error, RefusedError) and error.code == "NOT_FOUND"
    if is_gone:
        details = outcome.error["message"] if outcome.error else ""
        message = f"The vendor does not have this tool or version any more. {details}"
        outcome = failed("refused", "NOT_FOUND", message, vendor=vendor)
    if keeps_body:
        body = _read_body(reply)
        outcome = replace(outcome, outputs=body.value, notes=notes_on(body))
    return with_wait(outcome, reply)


def _read_body(reply: Reply) -> AnswerDocument:
    """Read a body in place of outputs: JSON or text."""
    with suppress(ProtocolViolationError):
        answer = strict_json.require_answer(reply)
        return replace(answer, value={"body": answer.value})
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_text = kind.startswith("text/") or kind.endswith(("/xml", "+xml"))
    if not (is_text and reply.body.strip()):
        return AnswerDocument({})
    return strict_json.repair_value({"body": reply.body.decode(errors="replace")})


def _vendor_code(reply: Reply) -> object:
    # The type of problem details (RFC 9457) is an address.
    document: object = None
    with suppress(ProtocolViolationError):
        document = strict_json.require_answer(reply).value
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        document = document["error"]
    codes = [document.get(member) for member in _CODES] if isinstance(document, dict) else []
    return next(
        (code for code in codes if isinstance(code, str | int) and code not in ("", "about:blank")), None
    )


def explanation(reply: Reply) -> tuple[str, dict[str, str]]:
    """Return the vendor's reason for an error, and its reasons by input name."""
    # Servers send a text, an object with a text, a list of errors (FastAPI, Prism) or problem details (RFC
    # 9457).
    document: object = None
    with suppress(ProtocolViolationError):
        document = strict_json.require_answer(reply).value
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        document = document["error"]
    if document is None:
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        text = reply.body[:MAX_EXPLANATION_LENGTH].decode(errors="replace").strip()
        document = text if kind == "text/plain" and not text.startswith(("<", "{", "[")) else ""
    if isinstance(document, str):
        return printable(document, MAX_EXPLANATION_LENGTH), {}
    if not isinstance(document, dict):
        return "", {}
    texts = [document.get(member) for member in ("message", "detail", "title", "error")]
    fields = {name: reason for member in _FIELDS for name, reason in _read_faults(document.get(member))}
    text = next((text for text in texts if isinstance(text, str)), "")
    text = text or "; ".join(f"{name}: {reason}" for name, reason in fields.items())
    return printable(text, MAX_EXPLANATION_LENGTH), fields


def _read_faults(raw: object) -> Iterator[tuple[str, str]]:
    if isinstance(raw, dict):
        yield from (
            (printable(name), printable(reason)) for name, reason in raw.items() if isinstance(reason, str)
        )
    for fault in raw[:MAX_FAULTS] if isinstance(raw, list) else ():
        if isinstance(fault, dict):
            path = fault.get("loc") or fault.get("location")
            reason = fault.get("msg") or fault.get("message")
            if isinstance(path, list) and path and isinstance(reason, str):
                yield printable(str(path[-1])), printable(reason)


def ok(outputs: Mapping[str, Any], signature: Signature, notes: Sequence[Note] = ()) -> Outcome:
    """Return a successful outcome with notes on differences from the signature. Vendors may add outputs."""
    declared = {output.name: output for output in signature.outputs}
    all_notes = [*notes]
    parsed: dict[str, Any] = {}
    for name, value in outputs.items():
        if name not in declared:
            all_notes.append(
                Note("UNKNOWN_OUTPUT", f"The output “{printable(name)}” is not in the signature.")
            )
            continue
        kind = declared[name].type
        expected = _TYPES.get(kind)
        if expected is not None and value is not None and type(value) not in expected:
            reason = f"The output “{printable(name)}” is {describe_value(value)}, not of type {kind}."
            all_notes.append(Note("VALUE_TYPE", reason))
        if kind == "json" and isinstance(value, str):
            # A text often contains JSON.
            with suppress(ProtocolViolationError):
                parsed[name] = strict_json.loads(value.encode(errors="surrogatepass"))
    all_notes += [
        Note("MISSING_OUTPUT", f"The output “{printable(name)}” is missing, but the signature declares it.")
        for name, output in declared.items()
        if output.required and name not in outputs
    ]
    return Outcome("ok", outputs=outputs, parsed=parsed, notes=all_notes)
