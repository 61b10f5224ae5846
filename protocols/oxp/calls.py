"""Run an OXP tool: one call in the form that the vendor accepts, and its outcome.

The status distinguishes outcomes: 400 before the tool ran, 422 for its input, 200 for every result of the
tool. Messages for the vendor's developers are never passed on.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolViolationError, printable
from core.outbound.reply import Reply
from core.outbound.retry_after import DAY
from protocols.base import Session
from protocols.call_outcome import Ask, Outcome
from protocols.calls import arguments as judged
from protocols.calls import outcomes
from protocols.list_pages import Note
from protocols.oxp import wire
from protocols.signature import Signature

MAX_DURATION = 2**31  # milliseconds, which are 24 days
MAX_HINT_LENGTH = 4000
MAX_URL_LENGTH = 2048
MAX_CHALLENGES = 20
HIDDEN = "•••"

# The session handles 401 (the credential) and the transient 408, 425 and 429.
_STATUSES = (200, *(status for status in range(400, 500) if status not in (401, 408, 425, 429)))

_SOME_TEXT = {"type": "string", "minLength": 1}


def call(
    session: Session,
    path: str,
    signature: Signature,
    request: Mapping[str, Any],
    context: Mapping[str, Any],
) -> Outcome:
    """Send a call. The code `NOT_RUN` means a refusal that is not about the input. Raises ProtocolError."""
    reply = _send_call(session, path, request, context)
    match reply.status:
        case wire.RAN:
            return _read_result(signature, reply)
        case wire.NOT_RUN:
            missing = None
            with suppress(ProtocolViolationError):
                document = strict_json.require_answer(reply).value
                missing = document.get("missing_requirements") if isinstance(document, dict) else None
            reason = outcomes.explanation(reply)[0]
            if isinstance(missing, dict):
                return _outcome_of_needs(missing, reason)
            message = f"The vendor did not run the tool{_reason_suffix(reason)}"
            return outcomes.with_wait(outcomes.failed("refused", "NOT_RUN", message), reply)
        case wire.BAD_INPUT:
            reason, fields = outcomes.explanation(reply)
            message = f"The vendor refused the inputs{_reason_suffix(reason)}"
            return outcomes.failed("invalid_arguments", f"HTTP_{reply.status}", message, fields=fields)
    return outcomes.complaint(reply)


def input_of(signature: Signature, arguments: Mapping[str, Any]) -> Any:
    values = judged.arguments_to_send(signature, arguments)
    if len(signature.inputs) == 1 and signature.inputs[0].is_whole:
        return values.get(signature.inputs[0].name, {})
    return values


def _send_call(session: Session, path: str, request: Mapping[str, Any], context: Mapping[str, Any]) -> Reply:
    # Uses the form that the vendor has accepted before. A vendor that requires the other form has not run the
    # tool.
    form: wire.Form = session.memory.get("revision", "bare")
    reply = _post_call(session, path, request, context, form)
    other = wire.OTHER_FORM[form]
    if not _requires_member(reply, wire.CALL_MEMBER[other]):
        if reply.status == wire.RAN:
            session.memory["revision"] = form
        return reply
    second = _post_call(session, path, request, context, other)
    if _requires_member(second, wire.CALL_MEMBER[form]):
        return reply
    session.memory["revision"] = other
    return second


def _post_call(
    session: Session, path: str, request: Mapping[str, Any], context: Mapping[str, Any], form: wire.Form
) -> Reply:
    full = {**request, **({"context": context} if context else {})}
    # For the record of the call: the names of users, providers and secrets, without values.
    masked: dict[str, Any] = {"user_id": HIDDEN} if "user_id" in context else {}
    for member, value in (("authorization", "token"), ("secrets", "value")):
        if member in context:
            masked[member] = [{"id": entry["id"], value: HIDDEN} for entry in context[member]]
    logged = {**request, **({"context": masked} if context else {})}
    headers = wire.VERSION_HEADERS if form == "bare" else None
    return session.post(
        path, json=wire.call(full, form), headers=headers, accept=_STATUSES, shown=wire.call(logged, form)
    )


def _requires_member(reply: Reply, member: str) -> bool:
    if reply.status not in (400, 422) or b"missing_requirements" in reply.body:
        return False
    text = reply.body[:MAX_HINT_LENGTH].decode(errors="replace")
    pattern = rf"""["'`“]{member}["'`”]|(?:missing|field|property|member|key):? {member}\b"""
    return bool(
        re.search("missing|required", text, re.IGNORECASE) and re.search(pattern, text, re.IGNORECASE)
    )


def _read_result(signature: Signature, reply: Reply) -> Outcome:
    answer = strict_json.require_answer(reply)
    document: Any = wire.response_in(answer.value)
    if not isinstance(document, dict) or not isinstance(document.get("success"), bool):
        raise ProtocolViolationError("SHAPE", "The reply does not state whether the call succeeded.")
    if not document["success"]:
        error = document.get("error")
        outcome = _tool_error(error if isinstance(error, dict) else {})
    else:
        value = document.get("value")
        whole_output = next((output.name for output in signature.outputs if output.is_whole), "value")
        if signature.outputs_rest is not None and isinstance(value, dict):
            outcome = outcomes.ok(value, signature)
        else:
            has_value = "value" in document and (value is not None or signature.outputs)
            outcome = outcomes.ok({whole_output: value} if has_value else {}, signature)
    notes = [*outcomes.notes_on(answer), *note_other_version(reply), *outcome.notes]
    # In milliseconds. An invalid duration is ignored.
    duration: Any = document.get("duration")
    is_number = isinstance(duration, int | float) and not isinstance(duration, bool)
    is_valid = is_number and 0 <= duration < MAX_DURATION
    return replace(outcome, notes=notes, vendor_duration_ms=round(duration) if is_valid else None)


def note_other_version(reply: Reply) -> list[Note]:
    """Return a note if the reply has another version of the protocol than Pegboard."""
    version = reply.headers.get(wire.VERSION_HEADER.lower(), "").strip()
    if version in ("", wire.VERSION):
        return []
    message = f"The vendor replies with OXP {printable(version, 20)}; Pegboard uses {wire.VERSION}."
    return [Note("OXP_VERSION", message)]


def _tool_error(error: dict[str, Any]) -> Outcome:
    # The tool ran and failed. Messages for the vendor's developers are omitted.
    if isinstance(error.get("missing_requirements"), dict):
        return _outcome_of_needs(error["missing_requirements"], _text_in(error, "message"))
    message = _text_in(error, "message") or "The tool failed without a reason."
    wait = error.get("retry_after_ms")
    is_number = isinstance(wait, int | float) and not isinstance(wait, bool)
    return Outcome(
        "tool_error",
        error={"code": "TOOL_ERROR", "message": message},
        retry_after=min(max(wait / 1000, 0.0), DAY) if wait is not None and is_number else None,
        can_retry=error.get("can_retry") is True,
        hint=_text_in(error, "additional_prompt_content", MAX_HINT_LENGTH),
    )


def _outcome_of_needs(missing: Mapping[str, Any], reason: str) -> Outcome:
    # A person has to act before the call can continue, such as by authorizing the tool.
    challenges = missing.get("authorization")
    entries = challenges if isinstance(challenges, list) else []
    readable = [entry for entry in entries if isinstance(entry, dict)]
    asks, checks = [], {}
    for challenge in readable[:MAX_CHALLENGES]:
        name = _text_in(challenge, "id")
        provider = name or "the provider"
        message = f"Authorize the tool at {provider}, then run it again."
        checks[name] = _url_in(challenge, "check_url")
        url = _url_in(challenge, "url")
        asks.append(Ask(provider, message, url=url, provider=name, check_url=checks[name]))
    if missing.get("user_id") is True:
        asks.append(Ask("user_id", "The tool requires the id of its user.", _SOME_TEXT))
    message = f"The tool has requirements that are not met{_reason_suffix(reason)}"
    failure = {"code": "MISSING_REQUIREMENTS", "message": message}
    resume = {"check_urls": {name: url for name, url in checks.items() if url}}
    return Outcome("needs_authorization", error=failure, asks=asks, resume=resume)


def _url_in(challenge: Mapping[str, Any], member: str) -> str:
    # Shown to a person as a link. Pegboard never requests it.
    value = challenge.get(member)
    is_link = isinstance(value, str) and len(value) <= MAX_URL_LENGTH and value.isprintable()
    return str(value) if is_link and str(value).lower().startswith(("https://", "http://")) else ""


def _text_in(raw: Mapping[str, Any], member: str, max_length: int = outcomes.MAX_EXPLANATION_LENGTH) -> str:
    value = raw.get(member)
    return printable(value, max_length) if isinstance(value, str) else ""


def _reason_suffix(reason: str) -> str:
    return f": {reason}" if reason else "."
