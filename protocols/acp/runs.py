"""Runs of an ACP agent: start, wait, stream, resume after an interrupt, and cancel.

An interrupt is not a failure: the agent asks a question, and the run continues after the answer.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from core import strict_json
from core.canonical_json import canonical
from core.outbound.errors import ProtocolError, ProtocolViolationError, UnavailableError, printable
from core.outbound.reply import Reply
from core.strict_json import AnswerDocument
from protocols import events
from protocols.acp import document as acp_document
from protocols.acp import wire
from protocols.base import Session
from protocols.call_outcome import Ask, Outcome, is_withheld
from protocols.calls import outcomes
from protocols.events import ServerSentEvent
from protocols.signature import Signature

# The session handles 401 (the credential) and the transient 408, 425 and 429. A server that lacks an
# operation returns 404, 405 or 501.
_STATUSES = (200, 204, *(s for s in range(400, 500) if s not in (401, 408, 425, 429)), 501)
_NOT_OFFERED = (404, 405, 501)
MAX_ID_LENGTH = 255
RUNS_PER_PAGE, MAX_PAGES_OF_RUNS = 100, 10
_TOO_SLOW = ("DEADLINE", "IDLE")
_QUESTIONS = ("message", "question", "prompt", "description", "text")
# The protocol contains the second spelling in one place.
_TYPE_MEMBERS = (wire.INTERRUPT_TYPE, "interruput_type")


@dataclass(frozen=True, slots=True)
class RunLocation:
    """The location of runs at the vendor: on a thread, or without one."""

    thread: str = ""

    def path(self, *parts: str) -> str:
        return wire.runs_path(self.thread, *parts)

    def body(self, request: Mapping[str, Any], mark: str, *, is_stored: bool) -> dict[str, Any]:
        body = {**request, "metadata": wire.mark(mark)}
        return body if self.thread else {**body, "on_completion": "keep" if is_stored else "delete"}


def run(session: Session, signature: Signature, request: Mapping[str, Any], location: RunLocation) -> Outcome:
    """Run an agent and wait for the result. A mark in the run allows to find it after a timeout."""
    mark = session.mark or str(uuid4())
    body = location.body(request, mark, is_stored=False)
    sent_run = _SentRun(session, location, mark=mark)
    try:
        reply = session.post(location.path(wire.WAIT), json=body, accept=_STATUSES)
        if reply.status in _NOT_OFFERED and acp_document.streams(signature):
            return _streamed(session, signature, body, location)
        if reply.status in (404, 410):
            return _refused_start(session, reply, body)
        return _outcome(signature, reply, sent_run)
    except UnavailableError as error:
        return _give_up(sent_run, error) if error.code in _TOO_SLOW else outcomes.convert_error(error)
    except ProtocolError as error:
        return outcomes.convert_error(error)


def start(
    session: Session, signature: Signature, request: Mapping[str, Any], location: RunLocation
) -> Outcome | str:
    """Start a run and return its id. The vendor stores the run until `look` has read its end."""
    body = location.body(request, session.mark, is_stored=True)
    if (
        session.is_followed
        and acp_document.streams(signature)
        and (result := _follow_stream(session, signature, body, location))
    ):
        return result
    reply = session.post(location.path(), json=body, accept=_STATUSES)
    if reply.status != 200:
        return _refused_start(session, reply, body) if reply.status in (404, 410) else _refused(reply)
    started = strict_json.require_answer(reply).value
    run_id = started.get("run_id") if isinstance(started, dict) else None
    if not isinstance(run_id, str) or not 0 < len(run_id) <= MAX_ID_LENGTH:
        raise ProtocolViolationError("SHAPE", "The reply has no id of the new run.")
    return run_id


def stop(session: Session, run_id: str, location: RunLocation) -> None:
    session.post(location.path(run_id, wire.CANCEL), json={}, accept=(200, 202, 204), is_closing=True)


def look(session: Session, signature: Signature, run_id: str, location: RunLocation) -> Outcome | None:
    reply = session.get(location.path(run_id), accept=_STATUSES)
    if reply.status in (404, 410):
        message = "The vendor does not have the run any more, so its outcome is unknown."
        return outcomes.failed("unavailable", "RUN_GONE", message)
    if reply.status != 200:
        return _refused(reply)
    run = strict_json.require_answer(reply).value
    status = run.get("status") if isinstance(run, dict) else None
    if status not in wire.ENDED_STATUSES:
        return None
    ended = session.get(location.path(run_id, wire.WAIT), accept=_STATUSES)
    outcome = _outcome(signature, ended, _SentRun(session, location, run_id=run_id), known_status=status)
    _forget(session, outcome, run_id, location)
    return outcome


def _forget(session: Session, outcome: Outcome, run_id: str, location: RunLocation) -> None:
    # Runs of a thread are its history and stay.
    if outcome.resume is None and not location.thread:
        with suppress(ProtocolError):
            session.delete(location.path(run_id))


def find(session: Session, mark: str, location: RunLocation) -> str | None:
    """Return the id of the run with this mark, or None."""
    if location.thread:
        # Runs on a thread can only be listed, in no defined order. Some servers limit their replies, and some
        # ignore the offset: a repeated reply is the last one.
        previous: object = None
        offset = 0
        for _ in range(MAX_PAGES_OF_RUNS):
            params = {"limit": str(RUNS_PER_PAGE), "offset": str(offset)}
            runs = strict_json.require_answer(session.get(location.path(), params=params)).value
            if run_id := _run_with_mark(runs, mark):
                return run_id
            if not isinstance(runs, list) or not runs or runs == previous:
                return None
            previous = runs
            offset += len(runs)
        return None
    body = {"metadata": wire.mark(mark), "limit": 10, "offset": 0}
    reply = session.post(wire.runs_path("", wire.SEARCH), json=body, is_repeatable=True)
    return _run_with_mark(strict_json.require_answer(reply).value, mark)


def _run_with_mark(runs: object, mark: str) -> str | None:
    for run in runs if isinstance(runs, list) else ():
        if isinstance(run, dict) and isinstance(run.get("run_id"), str) and mark in _text(run):
            return str(run["run_id"])
    return None


def resume(
    session: Session,
    signature: Signature,
    state: Mapping[str, Any],
    answers: Mapping[str, Any],
    location: RunLocation,
) -> Outcome:
    name, run_id = state["interrupt"], state["run_id"]
    if state.get("answered"):
        return _wait_for_run(session, signature, state, location)
    if name not in answers:
        message = "The agent waits for an answer."
        return outcomes.failed("invalid_arguments", "ARGUMENTS", message, fields={name: "is required"})
    answer = answers[name]
    if is_withheld(answer):
        with suppress(ProtocolError):
            stop(session, run_id, location)
        return outcomes.failed("refused", "DECLINED", "The question was declined, so the run was cancelled.")
    if state.get("typed") and isinstance(answer, dict):
        answer = {wire.INTERRUPT_TYPE: name, **answer}
    try:
        reply = session.post(location.path(run_id), json=answer, accept=_STATUSES)
    except UnavailableError as error:
        if error.code in _TOO_SLOW:
            return _give_up(_SentRun(session, location, run_id=run_id), error)
        return outcomes.convert_error(error)
    except ProtocolError as error:
        return outcomes.convert_error(error)
    return _refused(reply) if reply.status >= 400 else _wait_for_run(session, signature, state, location)


def _wait_for_run(
    session: Session, signature: Signature, state: Mapping[str, Any], location: RunLocation
) -> Outcome:
    # The vendor has the answer. After a failure Pegboard waits again and does not send the answer again.
    sent_run = _SentRun(session, location, run_id=state["run_id"])
    try:
        reply = session.get(location.path(sent_run.run_id, wire.WAIT), accept=_STATUSES)
        return _outcome(signature, reply, sent_run)
    except UnavailableError as error:
        if error.code in _TOO_SLOW:
            return _give_up(sent_run, error)
        failure = {"code": error.code, "message": f"{error.message} The answer was sent; the run continues."}
        next_state = {**state, "answered": True}
        return Outcome(
            "unavailable", error=failure, retry_after=error.retry_after, can_retry=True, resume=next_state
        )
    except ProtocolError as error:
        return outcomes.convert_error(error)


@dataclass(frozen=True, slots=True)
class _SentRun:
    """A run that the vendor has received: found by its id, or by its mark while the id is unknown ("")."""

    session: Session
    location: RunLocation
    mark: str = ""
    run_id: str = ""


def _outcome(
    signature: Signature, reply: Reply, sent_run: _SentRun, *, known_status: object = None
) -> Outcome:
    """Return the outcome in the vendor's reply. known_status: that of the run, if the reply states none."""
    if reply.status == 204:
        return _still_running(sent_run)
    if reply.status != 200:
        return _refused(reply)
    answer = strict_json.require_answer(reply)
    document = answer.value
    if not isinstance(document, dict):
        raise ProtocolViolationError("SHAPE", "The reply is not an object with a run and its output.")
    run, output = document.get("run"), document.get("output")
    run = run if isinstance(run, dict) else {}
    # By the protocol the status is in the run. Some agents send it beside the output, or in it.
    statuses = [
        part["status"] for part in (run, document, output) if isinstance(part, dict) and part.get("status")
    ]
    statuses = [status.lower() if isinstance(status, str) else status for status in statuses]
    best_status = "success" if statuses else known_status
    status = next((status for status in statuses if status != "success"), best_status)
    if not isinstance(output, dict) and status not in wire.FAILED_STATUSES:
        raise ProtocolViolationError("SHAPE", f"The run is “{printable(str(status), 40)}” and has no output.")
    output = output if isinstance(output, dict) else {}
    run_id = sent_run.run_id or _run_id(run)
    if status == "pending" and _kind(output) == "result":
        return _still_running(replace(sent_run, run_id=run_id))
    return _with_notes(_outcome_of_output(signature, output, run_id, status), answer)


def _still_running(sent_run: _SentRun) -> Outcome:
    error = UnavailableError("STILL_RUNNING", "The vendor stopped waiting before the agent had finished.")
    return _give_up(sent_run, error)


def _with_notes(outcome: Outcome, answer: AnswerDocument) -> Outcome:
    return replace(outcome, notes=[*outcomes.notes_on(answer), *outcome.notes])


def _outcome_of_output(
    signature: Signature, output: Mapping[str, Any], run_id: object, status: object = None
) -> Outcome:
    """Return the outcome of a run that has ended. If status and output contradict each other, the worse
    one counts; without a status the output decides."""
    kind = _kind(output)
    outputs = _outputs(output, signature) if kind == "result" else {}
    if kind == "error":
        return _failed_run(output, status)
    if status in wire.FAILED_STATUSES:
        return replace(_failed_run({}, status), outputs=outputs)
    if kind == "interrupt" or (kind == "result" and status == "interrupted"):
        return _interrupted(signature, output.get("interrupt"), output.get("run_id") or run_id)
    if kind != "result":
        message = "The output is neither a result, nor an interrupt, nor an error."
        raise ProtocolViolationError("SHAPE", message)
    if status not in (None, "", "success"):
        return replace(_failed_run({}, status), outputs=outputs)
    return outcomes.ok(outputs, signature)


def _failed_run(output: Mapping[str, Any], status: object) -> Outcome:
    explanation = printable(_text(output.get("description")), outcomes.MAX_EXPLANATION_LENGTH)
    errcode = output.get("errcode")
    details = f" ({errcode})" if isinstance(errcode, int) else ""
    if status not in (None, "", "success", "error") or not output:
        details += f" (its run has the status “{printable(_text(status), 40)}”)"
    return outcomes.failed(
        "tool_error",
        "RUN_TIMEOUT" if status == "timeout" else "RUN_FAILED",
        f"The agent failed{details}{f': {explanation}' if explanation else '.'}",
        vendor=outcomes.vendor_error(errcode, explanation),
    )


def _kind(output: Mapping[str, Any]) -> str:
    kind = {"values": "result"}.get(str(output.get("type")), output.get("type"))
    if isinstance(kind, str):
        return kind
    kinds = {"interrupt": "interrupt", "errcode": "error", "values": "result", "messages": "result"}
    return next((kind for member, kind in kinds.items() if output.get(member) is not None), "")


def _outputs(output: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    values, messages = output.get("values"), output.get("messages")
    whole_name = next((parameter.name for parameter in signature.outputs if parameter.is_whole), "output")
    if signature.outputs_rest is not None and isinstance(values, dict):
        outputs = dict(values)
    else:
        outputs = {} if values is None else {whole_name: values}
    return outputs if messages is None else {"messages": messages} | outputs


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value).decode() if value is not None else ""


def _interrupted(signature: Signature, interrupt: object, run_id: object) -> Outcome:
    declared = acp_document.interrupts(signature)
    # By the protocol an interrupt has a member for its kind.
    fields = interrupt if isinstance(interrupt, dict) else {}
    stated_kind = next((fields[m] for m in _TYPE_MEMBERS if isinstance(fields.get(m), str)), None)
    name, payload = next(iter(declared), "interrupt"), interrupt
    if stated_kind is not None:
        name, payload = stated_kind, {m: value for m, value in fields.items() if m not in _TYPE_MEMBERS}
    elif len(fields) == 1:
        # The reference server sends an object with one member, whose name is the kind.
        ((member, inner),) = fields.items()
        if member in declared or (not declared and isinstance(inner, dict)):
            name, payload = member, inner
    schema = declared.get(name, {}).get("resume_payload")
    texts = [payload.get(member) for member in _QUESTIONS] if isinstance(payload, dict) else [payload]
    stated_question = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    question = stated_question or _text(payload) or "The agent asks for input."
    message_text = printable(question, outcomes.MAX_EXPLANATION_LENGTH)
    ask = Ask(name, message_text, schema if isinstance(schema, dict) else {})
    if not isinstance(run_id, str) or not 0 < len(run_id) <= MAX_ID_LENGTH:
        message = "The agent asks for input, but the reply does not name the run to continue."
        return replace(outcomes.failed("needs_input", "INTERRUPT", message), asks=[ask])
    error = {"code": "INTERRUPT", "message": "The agent asks for input before it continues."}
    state = {"run_id": run_id, "interrupt": name, "typed": stated_kind is not None}
    return Outcome("needs_input", error=error, asks=[ask], resume=state, outputs={"interrupt": payload})


def _refused_start(session: Session, reply: Reply, body: Mapping[str, Any]) -> Outcome:
    path = wire.path(wire.AGENTS, str(body["agent_id"]), wire.DESCRIPTOR)
    return _refused(reply, partial(session.get, path))


def _refused(reply: Reply, look_up: Callable[[], object] | None = None) -> Outcome:
    if reply.status == 409:
        reason, _ = outcomes.explanation(reply)
        message = f"The run cannot continue now{f': {reason}' if reason else '.'}"
        return outcomes.failed("refused", "CONFLICT", message)
    return outcomes.complaint(reply, look_up=look_up)


def _give_up(sent_run: _SentRun, error: UnavailableError) -> Outcome:
    # The agent may still be running, so the run is cancelled.
    result = "The run was cancelled."
    session, location = sent_run.session, sent_run.location
    try:
        if not (run_id := sent_run.run_id or find(session, sent_run.mark, location)):
            raise ProtocolViolationError("SHAPE", "The run is not among the vendor's runs.")
        stop(session, run_id, location)
    except ProtocolError:
        result = "The run could not be cancelled and may still be running."
    failure = {"code": error.code, "message": f"{error.message} {result}"}
    return Outcome("unavailable", error=failure, retry_after=error.retry_after)


class _UpdateReporter:
    """Reports each update as it arrives, and detects the last one."""

    def __init__(self, session: Session, signature: Signature) -> None:
        self.run_id = ""
        self._session, self._signature = session, signature

    def __call__(self, event: ServerSentEvent) -> bool:
        if _is_last(event):
            return True
        document = strict_json.loads_answer(event.data).value
        if isinstance(document, dict) and strict_json.unstorable(document) is None:
            self.run_id = self.run_id or _run_id(document)
            if document.get("type") == "custom":
                self._session.pass_on({"custom": document.get("update")})
            elif _kind(document) == "result":
                self._session.pass_on({"outputs": _outputs(document, self._signature)})
        return False


def _follow_stream(
    session: Session, signature: Signature, body: Mapping[str, Any], location: RunLocation
) -> Outcome | str | None:
    """Return the outcome at the end of the stream, the id of the run if the stream broke, or None if the
    vendor offers no stream.
    """
    reporter, headers = _UpdateReporter(session, signature), {"Accept": events.KIND}
    try:
        reply = session.post(
            location.path(wire.STREAM),
            json=body,
            headers=headers,
            accept=_STATUSES,
            is_enough=events.until(reporter),
        )
    except UnavailableError:
        if not reporter.run_id:
            raise
        return reporter.run_id
    if reply.status != 200:
        return None if reply.status in _NOT_OFFERED else _refused(reply)
    answer = _last_update(reply)
    last: dict[str, Any] = answer.value
    run_id = _run_id(last) or reporter.run_id
    if not last or (_kind(last) == "result" and last.get("status") == "pending"):
        if not run_id:
            raise ProtocolViolationError("SHAPE", "The stream ended without a result.")
        return run_id
    outcome = _with_notes(_outcome_of_output(signature, last, run_id, last.get("status")), answer)
    if run_id:
        _forget(session, outcome, run_id, location)
    return outcome


def _run_id(update: Mapping[str, Any]) -> str:
    run_id = update.get("run_id")
    return run_id if isinstance(run_id, str) and len(run_id) <= MAX_ID_LENGTH else ""


def _streamed(
    session: Session, signature: Signature, body: Mapping[str, Any], location: RunLocation
) -> Outcome:
    reply = session.post(
        location.path(wire.STREAM),
        json=body,
        headers={"Accept": events.KIND},
        accept=_STATUSES,
        is_enough=events.until(_is_last),
    )
    if reply.status != 200:
        return _refused_start(session, reply, body)
    answer = _last_update(reply)
    last: dict[str, Any] = answer.value
    if not last:
        raise ProtocolViolationError("SHAPE", "The stream ended without a result.")
    if _kind(last) == "result" and last.get("status") == "pending":
        return _still_running(_SentRun(session, location, wire.mark_of(body), _run_id(last)))
    return _with_notes(_outcome_of_output(signature, last, last.get("run_id"), last.get("status")), answer)


def _last_update(reply: Reply) -> AnswerDocument:
    # Each update replaces the previous one, so the last one is the result; empty without one.
    updates = [_update(event) for event in events.parse(reply.body)]
    return next((update for update in reversed(updates) if _kind(update.value)), AnswerDocument({}))


def _update(event: ServerSentEvent) -> AnswerDocument:
    # Empty for a custom update of the agent, which is not a result.
    answer = strict_json.loads_answer(event.data)
    is_custom = not isinstance(answer.value, dict) or answer.value.get("type") == "custom"
    return AnswerDocument({}) if is_custom else answer


def _is_last(event: ServerSentEvent) -> bool:
    update = _update(event).value
    is_over = _kind(update) in ("interrupt", "error")
    return is_over or (_kind(update) == "result" and update.get("status", "pending") != "pending")
