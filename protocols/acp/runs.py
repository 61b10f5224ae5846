"""A run of an ACP agent: started and waited for, or looked after by its id; streamed where waiting is not
offered, interrupted, resumed, and cancelled when it takes too long.

An interrupt is no failure: the agent asks for something, and the run goes on once it is answered.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from core import strict_json
from core.canonical_json import canonical
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    UnavailableError,
    printable,
)
from core.outbound.reply import Reply
from core.strict_json import Answer
from protocols import events
from protocols.acp import document as acp_document
from protocols.acp import wire
from protocols.base import Ask, Outcome, Session, is_withheld
from protocols.calls import outcomes
from protocols.events import Event
from protocols.signature import Signature

# 401 is the endpoint's own credential and 408, 425 and 429 are passing: the session judges those. A
# server that does not offer a call answers 404, 405 or 501.
_ANSWERS = (200, 204, *(s for s in range(400, 500) if s not in (401, 408, 425, 429)), 501)
_NOT_OFFERED = (404, 405, 501)
MAX_ID_LENGTH = 255
RUNS_PER_PAGE, MAX_PAGES_OF_RUNS = 100, 10
_TOO_SLOW = ("DEADLINE", "IDLE")
_QUESTIONS = ("message", "question", "prompt", "description", "text")
# The protocol spells it in the second way in one place.
_TYPED = (wire.INTERRUPT_TYPE, "interruput_type")


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs are kept at the vendor: on a thread, which outlives them, or each by itself."""

    thread: str = ""

    def path(self, *below: str) -> str:
        return wire.runs_path(self.thread, *below)

    def body(self, request: Mapping[str, Any], mark: str, *, is_kept: bool) -> dict[str, Any]:
        body = {**request, "metadata": wire.mark(mark)}
        return body if self.thread else {**body, "on_completion": "keep" if is_kept else "delete"}


def run(session: Session, signature: Signature, request: Mapping[str, Any], at: Place) -> Outcome:
    """Waits for the result. The run carries a mark by which it can be found if the wait was too long."""
    mark = session.mark or str(uuid4())
    body = at.body(request, mark, is_kept=False)
    try:
        reply = session.post(at.path(wire.WAIT), json=body, accept=_ANSWERS)
        if reply.status in _NOT_OFFERED and acp_document.streams(signature):
            return _streamed(session, signature, body, at)
        if reply.status in (404, 410):
            return _refused_start(session, reply, body)
        return _outcome(session, signature, reply, at, mark)
    except UnavailableError as error:
        return _given_up(session, error, at, mark=mark) if error.code in _TOO_SLOW else outcomes.after(error)
    except ProtocolError as error:
        return outcomes.after(error)


def start(session: Session, signature: Signature, request: Mapping[str, Any], at: Place) -> Outcome | str:
    """The id of the run, which the vendor keeps until `look` has seen its end."""
    body = at.body(request, session.mark, is_kept=True)
    if (
        session.is_followed
        and acp_document.streams(signature)
        and (followed := _followed(session, signature, body, at))
    ):
        return followed
    reply = session.post(at.path(), json=body, accept=_ANSWERS)
    if reply.status != 200:
        return _refused_start(session, reply, body) if reply.status in (404, 410) else _refused(reply)
    started = strict_json.require_answer(reply).value
    run_id = started.get("run_id") if isinstance(started, dict) else None
    if not isinstance(run_id, str) or not 0 < len(run_id) <= MAX_ID_LENGTH:
        raise ProtocolViolationError("SHAPE", "The vendor does not say which run it has started.")
    return run_id


def stop(session: Session, run_id: str, at: Place) -> None:
    session.post(at.path(run_id, wire.CANCEL), json={}, accept=(200, 202, 204), is_closing=True)


def look(session: Session, signature: Signature, run_id: str, at: Place) -> Outcome | None:
    reply = session.get(at.path(run_id), accept=_ANSWERS)
    if reply.status in (404, 410):
        message = "The vendor does not know the run any more. It is not known what came of it."
        return outcomes.failed("unavailable", "RUN_GONE", message)
    if reply.status != 200:
        return _refused(reply)
    run = strict_json.require_answer(reply).value
    status = run.get("status") if isinstance(run, dict) else None
    if status not in wire.ENDED_STATUSES:
        return None
    ended = session.get(at.path(run_id, wire.WAIT), accept=_ANSWERS)
    outcome = _outcome(session, signature, ended, at, "", run_id, status)
    _forget(session, outcome, run_id, at)
    return outcome


def _forget(session: Session, outcome: Outcome, run_id: str, at: Place) -> None:
    # The runs of a thread are its history.
    if outcome.resume is None and not at.thread:
        with suppress(ProtocolError):
            session.delete(at.path(run_id))


def find(session: Session, mark: str, at: Place) -> str | None:
    """The run that carries this mark."""
    if at.thread:
        return _found_on_thread(session, mark, at)
    body = {"metadata": wire.mark(mark), "limit": 10, "offset": 0}
    reply = session.post(wire.runs_path("", wire.SEARCH), json=body, is_repeatable=True)
    return _marked(strict_json.require_answer(reply).value, mark)


def _found_on_thread(session: Session, mark: str, at: Place) -> str | None:
    # Runs on a thread are listed and not searched, in no order that is promised. Some servers cap their
    # replies, and some heed no offset: a reply that repeats the one before is the last one.
    before: object = None
    offset = 0
    for _ in range(MAX_PAGES_OF_RUNS):
        params = {"limit": str(RUNS_PER_PAGE), "offset": str(offset)}
        found = strict_json.require_answer(session.get(at.path(), params=params)).value
        if run_id := _marked(found, mark):
            return run_id
        if not isinstance(found, list) or not found or found == before:
            return None
        before = found
        offset += len(found)
    return None


def _marked(found: object, mark: str) -> str | None:
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and isinstance(each.get("run_id"), str) and mark in _text(each):
            return str(each["run_id"])
    return None


def resume(
    session: Session, signature: Signature, state: Mapping[str, Any], answers: Mapping[str, Any], at: Place
) -> Outcome:
    name, run_id = state["interrupt"], state["run_id"]
    if state.get("answered"):
        return _awaited(session, signature, state, at)
    if name not in answers:
        message = "The agent waits for an answer."
        return outcomes.failed("invalid_arguments", "ARGUMENTS", message, fields={name: "is required"})
    answer = answers[name]
    if is_withheld(answer):
        with suppress(ProtocolError):
            stop(session, run_id, at)
        return outcomes.failed("refused", "DECLINED", "The question was declined, and the run was ended.")
    if state.get("typed") and isinstance(answer, dict):
        answer = {wire.INTERRUPT_TYPE: name, **answer}
    try:
        reply = session.post(at.path(run_id), json=answer, accept=_ANSWERS)
    except UnavailableError as error:
        if error.code in _TOO_SLOW:
            return _given_up(session, error, at, run_id=run_id)
        return outcomes.after(error)
    except ProtocolError as error:
        return outcomes.after(error)
    return _refused(reply) if reply.status >= 400 else _awaited(session, signature, state, at)


def _awaited(session: Session, signature: Signature, state: Mapping[str, Any], at: Place) -> Outcome:
    # The vendor has the answer. Whatever fails from here on, it is waited for again and not answered again.
    run_id = state["run_id"]
    try:
        reply = session.get(at.path(run_id, wire.WAIT), accept=_ANSWERS)
        return _outcome(session, signature, reply, at, "", run_id)
    except UnavailableError as error:
        if error.code in _TOO_SLOW:
            return _given_up(session, error, at, run_id=run_id)
        failure = {"code": error.code, "message": f"{error.message} The answer was given; the run goes on."}
        later = {**state, "answered": True}
        return Outcome(
            "unavailable", error=failure, retry_after=error.retry_after, can_retry=True, resume=later
        )
    except ProtocolError as error:
        return outcomes.after(error)


def _outcome(
    session: Session,
    signature: Signature,
    reply: Reply,
    at: Place,
    mark: str,
    run_id: str = "",
    known_status: object = None,
) -> Outcome:
    if reply.status == 204:
        return _still_running(session, at, mark, run_id)
    if reply.status != 200:
        return _refused(reply)
    answer = strict_json.require_answer(reply)
    document = answer.value
    if not isinstance(document, dict):
        raise ProtocolViolationError("SHAPE", "It is no object with a run and its output.")
    run, output = document.get("run"), document.get("output")
    run = run if isinstance(run, dict) else {}
    status = _status_in(run, document, output) or known_status
    if not isinstance(output, dict) and status not in wire.FAILED_STATUSES:
        raise ProtocolViolationError("SHAPE", f"The run is “{printable(str(status), 40)}” and has no output.")
    output = output if isinstance(output, dict) else {}
    run_id = run_id or _run_id(run)
    if status == "pending" and _kind(output) == "result":
        return _still_running(session, at, mark, run_id)
    return _with_notes(_of_output(signature, output, run_id, status), answer)


def _status_in(*parts: object) -> object:
    """Return the worst status that a part of the reply states, None where none does.

    The protocol has it in the run; some agents state it beside the output, or in it as updates do.
    """
    listed = [part.get("status") for part in parts if isinstance(part, dict)]
    stated = [status.lower() if isinstance(status, str) else status for status in listed if status]
    return next((status for status in stated if status != "success"), stated[0] if stated else None)


def _still_running(session: Session, at: Place, mark: str, run_id: str) -> Outcome:
    error = UnavailableError("STILL_RUNNING", "The vendor stopped waiting before the agent was done.")
    return _given_up(session, error, at, mark=mark, run_id=run_id)


def _with_notes(outcome: Outcome, answer: Answer) -> Outcome:
    return replace(outcome, notes=[*outcomes.notes_on(answer), *outcome.notes])


def _of_output(
    signature: Signature, output: Mapping[str, Any], run_id: object, status: object = None
) -> Outcome:
    """Return the outcome of a run that has ended. A status that contradicts the output counts for the worse;
    a run without a status is judged by its output."""
    kind = _kind(output)
    outputs = _outputs(output, signature) if kind == "result" else {}
    if kind == "error":
        return _failed_run(output, status)
    if status in wire.FAILED_STATUSES:
        return replace(_failed_run({}, status), outputs=outputs)
    if kind == "interrupt" or (kind == "result" and status == "interrupted"):
        return _interrupted(signature, output.get("interrupt"), output.get("run_id") or run_id)
    if kind != "result":
        message = "Its output is neither a result, nor an interrupt, nor an error."
        raise ProtocolViolationError("SHAPE", message)
    if status not in (None, "", "success"):
        return replace(_failed_run({}, status), outputs=outputs)
    return outcomes.ok(outputs, signature)


def _failed_run(output: Mapping[str, Any], status: object) -> Outcome:
    explanation = printable(_text(output.get("description")), outcomes.MAX_EXPLANATION_LENGTH)
    errcode = output.get("errcode")
    numbered = f" ({errcode})" if isinstance(errcode, int) else ""
    if status not in (None, "", "success", "error") or not output:
        numbered += f" (its run has the status “{printable(_text(status), 40)}”)"
    return outcomes.failed(
        "tool_error",
        "RUN_TIMEOUT" if status == "timeout" else "RUN_FAILED",
        f"The agent failed{numbered}{f': {explanation}' if explanation else '.'}",
        vendor=outcomes.vendors(errcode, explanation),
    )


def _kind(output: Mapping[str, Any]) -> str:
    kind = {"values": "result"}.get(str(output.get("type")), output.get("type"))
    if isinstance(kind, str):
        return kind
    marks = {"interrupt": "interrupt", "errcode": "error", "values": "result", "messages": "result"}
    return next((kind for member, kind in marks.items() if output.get(member) is not None), "")


def _outputs(output: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    values, messages = output.get("values"), output.get("messages")
    whole = next((each.name for each in signature.outputs if each.is_whole), "output")
    if signature.outputs_rest is not None and isinstance(values, dict):
        found = dict(values)
    else:
        found = {} if values is None else {whole: values}
    return found if messages is None else {"messages": messages} | found


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value).decode() if value is not None else ""


def _interrupted(signature: Signature, interrupt: object, run_id: object) -> Outcome:
    name, payload, is_typed = _asked(interrupt, acp_document.interrupts(signature))
    schema = acp_document.interrupts(signature).get(name, {}).get("resume_payload")
    texts = [payload.get(member) for member in _QUESTIONS] if isinstance(payload, dict) else [payload]
    said = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    question = said or _text(payload) or "The agent asks for input."
    shown = printable(question, outcomes.MAX_EXPLANATION_LENGTH)
    ask = Ask(name, shown, schema if isinstance(schema, dict) else {})
    if not isinstance(run_id, str) or not 0 < len(run_id) <= MAX_ID_LENGTH:
        message = "The agent asks for input, and does not say which run to continue."
        return replace(outcomes.failed("needs_input", "INTERRUPT", message), asks=[ask])
    error = {"code": "INTERRUPT", "message": "The agent asks for input before it goes on."}
    state = {"run_id": run_id, "interrupt": name, "typed": is_typed}
    return Outcome("needs_input", error=error, asks=[ask], resume=state, outputs={"interrupt": payload})


def _asked(interrupt: object, declared: Mapping[str, Any]) -> tuple[str, object, bool]:
    """The kind, what the agent says, and whether the kind stands inside, where the protocol wants it."""
    # The reference server sends an object whose one member is named by the kind.
    only = next(iter(declared), "interrupt")
    if not isinstance(interrupt, dict):
        return only, interrupt, False
    named = next((interrupt[member] for member in _TYPED if isinstance(interrupt.get(member), str)), None)
    if named is not None:
        return named, {m: value for m, value in interrupt.items() if m not in _TYPED}, True
    if len(interrupt) == 1:
        name, payload = next(iter(interrupt.items()))
        if name in declared or (not declared and isinstance(payload, dict)):
            return name, payload, False
    return only, interrupt, False


def _refused_start(session: Session, reply: Reply, body: Mapping[str, Any]) -> Outcome:
    path = wire.path(wire.AGENTS, str(body["agent_id"]), wire.DESCRIPTOR)
    return _refused(reply, partial(session.get, path))


def _refused(reply: Reply, look_up: Callable[[], object] | None = None) -> Outcome:
    if reply.status == 409:
        said, _ = outcomes.explanation(reply)
        message = f"The run is not one that can go on now{f': {said}' if said else '.'}"
        return outcomes.failed("refused", "CONFLICT", message)
    return outcomes.complaint(reply, look_up=look_up)


def _given_up(
    session: Session, error: UnavailableError, at: Place, *, mark: str = "", run_id: str = ""
) -> Outcome:
    # The wait is over and the agent may still be at work, so it is told to stop.
    stopped = "The run was cancelled."
    try:
        if not (known := run_id or find(session, mark, at)):
            raise ProtocolViolationError("SHAPE", "The run is not among the vendor's runs.")
        stop(session, known, at)
    except ProtocolError:
        stopped = "The run could not be cancelled and may still be going on."
    failure = {"code": error.code, "message": f"{error.message} {stopped}"}
    return Outcome("unavailable", error=failure, retry_after=error.retry_after)


class _PassingOn:
    """Looks at each update as it comes: tells the last one, and passes the others on."""

    def __init__(self, session: Session, signature: Signature) -> None:
        self.run_id = ""
        self._session, self._signature = session, signature

    def __call__(self, event: Event) -> bool:
        if _is_last(event):
            return True
        document = strict_json.loads_answer(event.data.encode()).value
        if isinstance(document, dict) and strict_json.unstorable(document) is None:
            self.run_id = self.run_id or _run_id(document)
            if document.get("type") == "custom":
                self._session.pass_on({"custom": document.get("update")})
            elif _kind(document) == "result":
                self._session.pass_on({"outputs": _outputs(document, self._signature)})
        return False


def _followed(
    session: Session, signature: Signature, body: Mapping[str, Any], at: Place
) -> Outcome | str | None:
    # What the stream ended with; where it broke off, the id of the run. None: the vendor offers no stream.
    following, headers = _PassingOn(session, signature), {"Accept": events.KIND}
    try:
        reply = session.post(
            at.path(wire.STREAM),
            json=body,
            headers=headers,
            accept=_ANSWERS,
            is_enough=events.until(following),
        )
    except UnavailableError:
        if not following.run_id:
            raise
        return following.run_id
    if reply.status != 200:
        return None if reply.status in _NOT_OFFERED else _refused(reply)
    answer = _last_update(reply)
    last: dict[str, Any] = answer.value
    run_id = _run_id(last) or following.run_id
    if not last or (_kind(last) == "result" and last.get("status") == "pending"):
        if not run_id:
            raise ProtocolViolationError("SHAPE", "The stream ended without a result.")
        return run_id
    outcome = _with_notes(_of_output(signature, last, run_id, last.get("status")), answer)
    if run_id:
        _forget(session, outcome, run_id, at)
    return outcome


def _run_id(update: Mapping[str, Any]) -> str:
    named = update.get("run_id")
    return named if isinstance(named, str) and len(named) <= MAX_ID_LENGTH else ""


def _streamed(session: Session, signature: Signature, body: Mapping[str, Any], at: Place) -> Outcome:
    reply = session.post(
        at.path(wire.STREAM),
        json=body,
        headers={"Accept": events.KIND},
        accept=_ANSWERS,
        is_enough=events.until(_is_last),
    )
    if reply.status != 200:
        return _refused_start(session, reply, body)
    answer = _last_update(reply)
    last: dict[str, Any] = answer.value
    if not last:
        raise ProtocolViolationError("SHAPE", "The stream ended without a result.")
    if _kind(last) == "result" and last.get("status") == "pending":
        return _still_running(session, at, wire.mark_of(body), _run_id(last))
    return _with_notes(_of_output(signature, last, last.get("run_id"), last.get("status")), answer)


def _last_update(reply: Reply) -> Answer:
    # Each update replaces the one before, so that the last one is the result; empty where there is none.
    updates = [_update(event) for event in events.parse(reply.body)]
    return next((update for update in reversed(updates) if _kind(update.value)), Answer({}))


def _update(event: Event) -> Answer:
    # Nothing for an agent's own kind of update, which is no result.
    answer = strict_json.loads_answer(event.data.encode())
    is_own = not isinstance(answer.value, dict) or answer.value.get("type") == "custom"
    return Answer({}) if is_own else answer


def _is_last(event: Event) -> bool:
    update = _update(event).value
    is_over = _kind(update) in ("interrupt", "error")
    return is_over or (_kind(update) == "result" and update.get("status", "pending") != "pending")
