"""Running a tool over MCP: what is sent, and what an answer means."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from core import json_parts, strict_json
from core.canonical_json import canonical
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, printable
from core.outbound.rest import OPEN_SECONDS
from core.schema import error_messages, validation
from core.value_descriptions import describe_value
from protocols import parameters as json_schema
from protocols.base import CLOSED, QUESTIONS, Ask, Note, Outcome, Session, UnreadableItemError
from protocols.calls import outcomes
from protocols.calls.arguments import given
from protocols.mcp import headers as mcp_headers
from protocols.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    QUESTION,
    Question,
    RpcError,
)
from protocols.mcp.rpc import CANNOT_ASK, NOT_SENT, Answer, Request
from protocols.mcp.transport import Transport
from protocols.signature import Parameter, Signature

MAX_ASKS = 20
MAX_SILENT_TURNS = 5  # without a question, before a person has to say that it shall go on
MAX_ODD = 5
MAX_QUESTION_LENGTH = 2000
# What is asked on a stream comes one at a time and has no name there.
QUESTION_NAME = "question"
# Where a tool declares no output that stands for all: the output that holds what is no object.
UNNAMED = "output"
URL_NEEDED = -32042  # of 2025-11-25
_OF_THE_CALLER = "The program that calls did not say that it can put such a question to its user."

ListedSchema = Callable[[Transport, str], dict[str, Any]]


def invoke(
    session: Session,
    tool_id: str,
    signature: Signature,
    arguments: Mapping[str, Any],
    listed_schema: ListedSchema,
    questions: Collection[str] = QUESTIONS,
) -> Outcome:
    sent = given(signature, arguments)
    if whole := _whole(signature.inputs):
        sent = sent.get(whole.name, {})
    return _Call(session, tool_id, signature, sent, listed_schema, questions).run({}, used=1)


def resume(
    session: Session,
    tool_id: str,
    signature: Signature,
    state: Mapping[str, Any],
    answers: Mapping[str, Any],
    listed_schema: ListedSchema,
    questions: Collection[str] = QUESTIONS,
) -> Outcome:
    """`answers` hold what each ask's form was filled in with; None declines, and CLOSED decides nothing."""
    call = _Call(session, tool_id, signature, state.get("arguments"), listed_schema, questions)
    if "reply" in state:
        return call.go_on(state, answers)
    more: dict[str, Any] = {"requestState": state["state"]} if "state" in state else {}
    if kinds := state.get("asked", {}):
        responses: dict[str, Any] = {}
        for name, kind in kinds.items():
            responses[name] = _response(kind, answers.get(name))
        more["inputResponses"] = responses
    return call.run(more, used=state["used"], kept=state.get("session", ""))


def give_up(session: Session, state: Mapping[str, Any]) -> None:
    with Transport(session, state["used"]) as transport:
        if "reply" in state:
            transport.give_up(_question(state), "The call has ended.")
        elif "session" in state:
            # With the conversation it ends.
            transport.go_on_in(state["session"])


def _question(state: Mapping[str, Any]) -> Question:
    # What a call stopped for before 2026-07-28.
    return Question(state["question"], {}, state["reply"], tuple(state["answered"]))


def _response(kind: str, answer: object) -> dict[str, Any]:
    if answer is None:
        return {"action": "decline"}
    if answer == CLOSED:
        return {"action": "cancel"}
    return {"action": "accept"} if kind == "url" else {"action": "accept", "content": answer}


class _Call:
    def __init__(
        self,
        session: Session,
        tool_id: str,
        signature: Signature,
        arguments: Any,
        listed_schema: ListedSchema,
        questions: Collection[str],
    ) -> None:
        self.session = session
        self.tool_id = tool_id
        self.signature = signature
        self.arguments = arguments
        self.listed_schema = listed_schema
        self.questions = questions

    def run(self, more: Mapping[str, Any], *, used: int, kept: str = "") -> Outcome:
        """`kept` names the vendor's session in which the call stopped to ask, where it was left open."""

        def speak(transport: Transport) -> Outcome:
            if kept:
                transport.go_on_in(kept)
            return self._run(transport, more)

        return self._within(used, speak)

    def go_on(self, state: Mapping[str, Any], answers: Mapping[str, Any]) -> Outcome:
        """Before 2026-07-28, with the answer to what was asked on the stream of the call."""
        question = _question(state)
        response = _response(state["asked"][QUESTION_NAME], answers.get(QUESTION_NAME))

        def speak(transport: Transport) -> Outcome:
            answer = transport.answer(question, response)
            if answer.question:
                return self._asked(transport, answer.question)
            return self._told(transport, answer)

        outcome = self._within(state["used"], speak)
        if outcome.outcome == "unavailable" and (outcome.error or {}).get("code") not in NOT_SENT:
            # There is one answer to a question.
            return replace(outcome, can_retry=False)
        return outcome

    def _within(self, used: int, speak: Callable[[Transport], Outcome]) -> Outcome:
        transport = Transport(self.session, used, self.questions)
        try:
            with transport:
                try:
                    return speak(transport)
                except RpcError as error:
                    if error.number != URL_NEEDED:
                        raise
                    return self._to_visit(transport, error)
        except RpcError as error:
            return self._complaint(transport, error)
        except ProtocolError as error:
            return outcomes.after(error)

    def _run(self, transport: Transport, more: Mapping[str, Any]) -> Outcome:
        for _ in range(MAX_SILENT_TURNS):
            answer = self._sent(transport, more)
            if answer.question:
                return self._asked(transport, answer.question)
            result = answer.result
            kind = result.get("resultType", "complete")
            if kind == "complete":
                return self._told(transport, answer)
            if kind != "input_required":
                reason = f"The reply has the result type {describe_value(kind)}, which is unknown."
                raise ProtocolViolationError("SHAPE", reason)
            if part := json_parts.find_broken(result):
                raise ProtocolViolationError(part.code, f"The reply holds {part.reason}.")
            asks = _asks(result)
            state = result.get("requestState")
            if asks or not isinstance(state, str):
                return self._waiting(transport, asks, state)
            # Nothing is asked: the vendor only wants to be called once more.
            more = {"requestState": state}
        return self._waiting(transport, [], more["requestState"])

    def _told(self, transport: Transport, answer: Answer) -> Outcome:
        return _outcome(answer, self.signature, is_modern=transport.is_modern)

    def _asked(self, transport: Transport, question: Question) -> Outcome:
        try:
            ask = _ask(QUESTION_NAME, {"method": QUESTION, "params": question.params})
        except ProtocolError:
            transport.give_up(question, "The question cannot be asked.")
            raise
        minutes = OPEN_SECONDS // 60
        soon = Note("ANSWER_SOON", f"The vendor waits for the answer for {minutes} minutes at most.")
        # The vendor has the arguments.
        state = {name: value for name, value in self._state(transport, [ask]).items() if name != "arguments"}
        stopped = {"reply": question.reply, "question": question.number, "answered": list(question.answered)}
        return replace(self._waiting(transport, [ask], None), resume=state | stopped, notes=(soon,))

    def _sent(self, transport: Transport, more: Mapping[str, Any]) -> Answer:
        schema = json_schema.write(self.signature.inputs, self.signature.schema_rest)
        try:
            return transport.ask(self._request(schema, more))
        except RpcError as error:
            if error.number not in (HEADER_MISMATCH, INVALID_PARAMS):
                raise
            # One number says that the arguments are wrong and that there is no such tool: the list tells
            # which, by raising. The other says that headers were wanted of which we did not know.
            listed = self._listed_schema(transport)
            if error.number == INVALID_PARAMS:
                raise
        return transport.ask(self._request(listed, more))

    def _listed_schema(self, transport: Transport) -> Mapping[str, Any]:
        try:
            return self.listed_schema(transport, self.tool_id)
        except RefusedError as error:
            if error.code != "NOT_FOUND" or set(self.questions) >= set(QUESTIONS):
                raise
            # Some servers list a tool that asks for those alone who can be asked.
            raise RefusedError(CANNOT_ASK, f"{error.message} {_OF_THE_CALLER}") from error

    def _request(self, schema: Mapping[str, Any], more: Mapping[str, Any]) -> Request:
        headers = mcp_headers.mirrored(schema, self.arguments)
        params = {"name": self.tool_id, "arguments": self.arguments, **more}
        if self.session.is_followed:
            params["_meta"] = {"progressToken": self.session.mark}
        return Request("tools/call", params, name=self.tool_id, headers=headers)

    def _waiting(self, transport: Transport, asks: Sequence[Ask], state: object) -> Outcome:
        return Outcome(
            "needs_input",
            error={"code": "INPUT_REQUIRED", "message": "The tool needs an answer before it goes on."},
            asks=tuple(asks),
            resume=self._state(transport, asks, state),
        )

    def _to_visit(self, transport: Transport, error: RpcError) -> Outcome:
        # The revisions that have this error know no answers: the same call is sent once more. Some vendors
        # remember by the session who was at the address.
        waiting = self._waiting(transport, _visits(error.data), None)
        kept = transport.keep_session()
        state = self._state(transport, []) | ({"session": kept} if kept else {})
        return replace(waiting, resume=state)

    def _state(self, transport: Transport, asks: Sequence[Ask], state: object = None) -> dict[str, Any]:
        return {
            "arguments": self.arguments,
            "asked": {ask.id: "url" if ask.url else "form" for ask in asks},
            "used": transport.used,
            **({"state": state} if isinstance(state, str) else {}),
        }

    def _complaint(self, transport: Transport, error: RpcError) -> Outcome:
        said = error.said or "It did not say why."
        vendor = outcomes.vendors(error.number, error.said)
        if error.number == INVALID_PARAMS:
            message = f"The vendor refused the call: {said}"
            return outcomes.failed("invalid_arguments", error.code, message, vendor=vendor)
        if error.number == METHOD_NOT_FOUND:
            message = f"The vendor cannot run this tool: {said}"
            return outcomes.failed("refused", "NOT_FOUND", message, vendor=vendor)
        if error.number == MISSING_CAPABILITY:
            reason = f"The tool needs what cannot be done for it here: {said}"
            code = "ASKS_BACK"
            if _wanted_questions(error.data) - set(self.questions):
                code, reason = CANNOT_ASK, f"The tool asks its user: {said} {_OF_THE_CALLER}"
            return outcomes.failed("refused", code, reason, vendor=vendor)
        message = f"The vendor could not run the tool: {said}"
        return outcomes.failed("tool_error", error.code, message, vendor=vendor)


def _wanted_questions(data: object) -> set[str]:
    # The kinds that an error names, which may be an empty object for forms.
    wanted = data.get("requiredCapabilities") if isinstance(data, dict) else None
    asked = wanted.get("elicitation") if isinstance(wanted, dict) else None
    return set(asked) & set(QUESTIONS) or {"form"} if isinstance(asked, dict) else set()


def _asks(result: Mapping[str, Any]) -> list[Ask]:
    # Raises RefusedError for what only a program with a model of its own could answer.
    asked = result.get("inputRequests") or {}
    if not isinstance(asked, dict) or len(asked) > MAX_ASKS:
        raise ProtocolViolationError(
            "SHAPE", f"“inputRequests” is no object of at most {MAX_ASKS} questions."
        )
    return [_ask(name, each) for name, each in asked.items()]


def _ask(name: str, asked: object) -> Ask:
    method = asked.get("method") if isinstance(asked, dict) else None
    params = asked.get("params") if isinstance(asked, dict) else None
    if method in ("sampling/createMessage", "roots/list"):
        raise RefusedError("ASKS_BACK", f"The tool asks back ({method}), which is not answered here.")
    if method != "elicitation/create" or not isinstance(params, dict):
        raise ProtocolViolationError("SHAPE", f"The tool's question “{printable(name)}” cannot be read.")
    message = params.get("message")
    said = printable(message, MAX_QUESTION_LENGTH) if isinstance(message, str) else ""
    if params.get("mode") == "url":
        return Ask(name, said, url=_web_address(params.get("url")))
    schema = params.get("requestedSchema")
    if not isinstance(schema, dict):
        raise ProtocolViolationError("SHAPE", f"The tool's question “{printable(name)}” has no form.")
    try:
        json_schema.check(schema, "requestedSchema")
    except UnreadableItemError as error:
        raise ProtocolViolationError(error.code, error.reason) from error
    return Ask(name, said, schema=schema)


def _visits(data: object) -> list[Ask]:
    # Addresses that a person has to visit before the call can work.
    listed = data.get("elicitations") if isinstance(data, dict) else None
    visits = (
        [each for each in listed[:MAX_ASKS] if isinstance(each, dict)] if isinstance(listed, list) else []
    )
    return [
        # Without a schema: nothing answers them but a new call.
        Ask(f"visit-{number}", printable(str(each.get("message", "")), MAX_QUESTION_LENGTH), url=url)
        for number, each in enumerate(visits, start=1)
        if (url := _web_address(each.get("url")))
    ]


def _web_address(url: object) -> str:
    if isinstance(url, str) and url.startswith(("https://", "http://")) and len(url) <= MAX_QUESTION_LENGTH:
        return url
    raise ProtocolViolationError("SHAPE", f"The tool sends people to {describe_value(url)}.")


def _outcome(answer: Answer, signature: Signature, *, is_modern: bool) -> Outcome:
    read = answer.document.answer_in(answer.result)
    result: dict[str, Any] = read.value
    notes = outcomes.notes_on(read)
    blocks = result.get("content")
    if not isinstance(blocks, list):
        if "structuredContent" not in result:
            raise ProtocolViolationError("SHAPE", "The reply has neither “content” nor “structuredContent”.")
        blocks = []
    texts = [each.get("text") for each in blocks if isinstance(each, dict) and each.get("type") == "text"]
    text = "\n".join(each for each in texts if isinstance(each, str))
    structured = result.get("structuredContent", UNSET)
    if structured is None and not is_modern and not signature.outputs:
        structured = UNSET  # Before 2026-07-28 it is an object, and servers write null for none.
    is_repeated = structured is not UNSET and is_copy(text, structured)
    said = {"text": text} if text and not is_repeated else {}
    outputs = {"content": blocks, **said} | _structured_outputs(structured, signature)
    is_undeclared = not signature.outputs and signature.outputs_rest is None
    is_whole = is_undeclared and structured is not UNSET and not isinstance(structured, dict)
    outcome = Outcome("ok", outputs=outputs, whole_output=UNNAMED if is_whole else "", notes=notes)
    if result.get("isError") is True:
        silent = "The tool failed and did not say why."
        if structured not in (UNSET, None):
            silent = "The tool failed. Its outputs describe the failure."
        why = printable(text, outcomes.MAX_EXPLANATION_LENGTH) or silent
        return replace(outcome, outcome="tool_error", error={"code": "TOOL_ERROR", "message": why})
    return replace(outcome, notes=(*notes, *_odd_outputs(result, signature)))


def is_copy(text: str, value: object) -> bool:
    """Whether a text repeats a structured result, for readers that know no other."""
    try:
        return canonical(strict_json.loads(text.encode())) == canonical(value)
    except ProtocolViolationError:
        return False


def _structured_outputs(value: Any, signature: Signature) -> dict[str, Any]:
    # The structured result by the names of the outputs; those of the vendor win over our own.
    if value is UNSET:
        return {}
    if whole := _whole(signature.outputs):
        return {whole.name: value}
    return value if isinstance(value, dict) else {UNNAMED: value}


def _whole(outputs: Sequence[Parameter]) -> Parameter | None:
    return outputs[0] if len(outputs) == 1 and outputs[0].is_whole else None


def _odd_outputs(result: Mapping[str, Any], signature: Signature) -> Iterator[Note]:
    # What differs from the signature is told and taken: the answer is what it is.
    if not signature.outputs and signature.outputs_rest is None:
        return
    if "structuredContent" not in result:
        if any(output.required for output in signature.outputs):
            yield Note("MISSING_OUTPUT", "The tool promises a structured output and sent none.")
        return
    ready = validation.checked(json_schema.write(signature.outputs, signature.outputs_rest))
    for fault in validation.faults(ready, result["structuredContent"])[:MAX_ODD]:
        where = error_messages.place(fault.path)
        yield Note("BAD_OUTPUT", f"The output{f' “{where}”' if where else ''} {fault.why}.")
