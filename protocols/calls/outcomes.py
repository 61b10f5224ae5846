"""Outcomes of calls that come about in the same way under every protocol."""

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
from core.strict_json import Answer
from core.value_descriptions import describe_value
from protocols.base import Note, Outcome, OutcomeKind
from protocols.calls.arguments import problems
from protocols.signature import Signature

MAX_EXPLANATION_LENGTH = 500
MAX_CODE_LENGTH = 100
MAX_FAULTS = 50

# Where vendors say what is wrong with each input.
_CODES = ("code", "errcode", "error_code", "type")
_FIELDS = ("fields", "parameter_errors", "detail", "validation")

# The request had left when these happened.
CUT_OFF = ("DEADLINE", "IDLE", "RESET", "NO_REPLY", "BODY_TRUNCATED")
# So did these, to somewhere behind the one who answers. Of 503 HTTP says that it was not handled.
_PERHAPS_RUN = (*CUT_OFF, *(f"HTTP_{status}" for status in (408, *range(500, 600)) if status != 503))
_NO_ACCESS = ("AUTH", "INSUFFICIENT_SCOPE", "NEEDS_SIGN_IN", "TOKEN_NOT_TAKEN")
_REPLACED = Note(
    "CHARACTERS_REPLACED",
    "The answer had characters that cannot be stored (NUL, half of a surrogate pair, or bytes that are no "
    "UTF-8). Each was replaced by U+FFFD.",
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
    beside = {name: each for name, each in (("fields", fields), ("vendor", vendor)) if each}
    return Outcome(outcome, error={"code": code, "message": message, **beside})


def vendors(code: object, said: str) -> dict[str, str] | None:
    """The vendor's own code, kept apart from ours; None where it has none."""
    is_code = isinstance(code, str | int) and not isinstance(code, bool) and code != ""
    return {"code": printable(str(code), MAX_CODE_LENGTH), "description": said} if is_code else None


def notes_on(answer: Answer) -> tuple[Note, ...]:
    """What was odd about the text of a reply to a call."""
    return (_REPLACED,) if answer.is_repaired else ()


def refusal(signature: Signature, arguments: Mapping[str, Any]) -> Outcome | None:
    """What stops a call with these arguments before anything is sent."""
    if fields := problems(signature, arguments):
        return failed("invalid_arguments", "ARGUMENTS", "Some inputs do not fit.", fields=fields)
    return None


def after(error: ProtocolError) -> Outcome:
    """A call during which the conversation with the vendor failed."""
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
    # A vendor that says when to come back says that the same call may be sent then.
    asked = retry_after(reply.headers.get("retry-after", ""))
    return outcome if asked is None else replace(outcome, retry_after=min(asked, DAY), can_retry=True)


def complaint(
    reply: Reply, *, look_up: Callable[[], object] | None = None, keeps_body: bool = False
) -> Outcome:
    """A reply from 400 up to which the protocol gives no meaning of its own. Its explanation is passed on.

    A 404 is as likely about what the tool was asked for as about the tool. `look_up` asks for the tool
    itself, where a protocol can, and raises RefusedError `NOT_FOUND` if the vendor has none such.
    """
    why, fields = explanation(reply)
    said, vendor = f": {why}" if why else ".", vendors(_own_code(reply), why)
    match reply.status:
        case 400 | 422:
            message = f"The vendor refused the inputs ({reply.status}){said}"
            outcome = failed(
                "invalid_arguments", f"HTTP_{reply.status}", message, fields=fields, vendor=vendor
            )
        case 403:
            message = f"Our credential may not run this tool (403){said}"
            outcome = failed("refused", "FORBIDDEN", message, vendor=vendor)
        case _:
            message = f"The tool answered {reply.status}{said}"
            outcome = failed("tool_error", f"HTTP_{reply.status}", message, vendor=vendor)
    if reply.status in (404, 410) and look_up and _is_gone(look_up):
        answered = outcome.error["message"] if outcome.error else ""
        message = f"The vendor has no such tool or version any more. {answered}"
        outcome = failed("refused", "NOT_FOUND", message, vendor=vendor)
    if keeps_body:
        body = _body(reply)
        outcome = replace(outcome, outputs=body.value, notes=notes_on(body))
    return with_wait(outcome, reply)


def _is_gone(look_up: Callable[[], object]) -> bool:
    try:
        look_up()
    except ProtocolError as error:
        return isinstance(error, RefusedError) and error.code == "NOT_FOUND"
    return False


def _body(reply: Reply) -> Answer:
    # What the tool answered in place of its outputs: JSON, or text.
    with suppress(ProtocolViolationError):
        answer = strict_json.require_answer(reply)
        return replace(answer, value={"body": answer.value})
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_text = kind.startswith("text/") or kind.endswith(("/xml", "+xml"))
    if not (is_text and reply.body.strip()):
        return Answer({})
    return strict_json.repaired({"body": reply.body.decode(errors="replace")})


def _own_code(reply: Reply) -> object:
    # Problem details (RFC 9457) name their kind by an address.
    document: object = None
    with suppress(ProtocolViolationError):
        document = strict_json.require_answer(reply).value
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        document = document["error"]
    named = [document.get(member) for member in _CODES] if isinstance(document, dict) else []
    return next(
        (code for code in named if isinstance(code, str | int) and code not in ("", "about:blank")), None
    )


def explanation(reply: Reply) -> tuple[str, dict[str, str]]:
    """What the vendor says about its refusal, and what it says about each input."""
    # Servers spell it as a text, as an object with a text, as a list of faults (FastAPI, Prism) or as
    # problem details (RFC 9457).
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
    fields = {name: why for member in _FIELDS for name, why in _faults(document.get(member))}
    text = next((text for text in texts if isinstance(text, str)), "")
    text = text or "; ".join(f"{name}: {why}" for name, why in fields.items())
    return printable(text, MAX_EXPLANATION_LENGTH), fields


def _faults(raw: object) -> Iterator[tuple[str, str]]:
    if isinstance(raw, dict):
        yield from ((printable(name), printable(why)) for name, why in raw.items() if isinstance(why, str))
    for fault in raw[:MAX_FAULTS] if isinstance(raw, list) else ():
        if isinstance(fault, dict):
            place = fault.get("loc") or fault.get("location")
            why = fault.get("msg") or fault.get("message")
            if isinstance(place, list) and place and isinstance(why, str):
                yield printable(str(place[-1])), printable(why)


def ok(outputs: Mapping[str, Any], signature: Signature, notes: Sequence[Note] = ()) -> Outcome:
    """The outputs as they came, with notes on what differs from the signature: vendors may add outputs."""
    declared = {output.name: output for output in signature.outputs}
    found = [*notes]
    parsed: dict[str, Any] = {}
    for name, value in outputs.items():
        if name not in declared:
            found.append(Note("UNKNOWN_OUTPUT", f"The output “{printable(name)}” is not in the signature."))
            continue
        kind = declared[name].type
        expected = _TYPES.get(kind)
        if expected is not None and value is not None and type(value) not in expected:
            reason = f"The output “{printable(name)}” is {describe_value(value)}, not of type {kind}."
            found.append(Note("VALUE_TYPE", reason))
        if kind == "json" and isinstance(value, str):
            # A text often holds JSON.
            with suppress(ProtocolViolationError):
                parsed[name] = strict_json.loads(value.encode(errors="surrogatepass"))
    found += [
        Note("MISSING_OUTPUT", f"The output “{printable(name)}” is missing, and the signature promises it.")
        for name, output in declared.items()
        if output.required and name not in outputs
    ]
    return Outcome("ok", outputs=outputs, parsed=parsed, notes=found)
