"""Running a tool over MCP: what is sent, and what an answer means."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from msgspec import UNSET

from core import strict_json
from core.canonical_json import canonical
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, printable
from core.outbound.rest import OPEN_SECONDS
from core.schema import error_messages, validation
from protocols import parameters as json_schema
from protocols.base import QUESTIONS, Ask, Note, Outcome, Session
from protocols.calls import outcomes
from protocols.calls.arguments import given
from protocols.mcp import asks, eras, wire
from protocols.mcp import headers as mcp_headers
from protocols.mcp.eras import HANDSHAKE_ERA, Era
from protocols.mcp.rpc import ASKS_BACK, CANNOT_ASK, NOT_SENT, Answer, CannotAskError, Request
from protocols.mcp.transport import Transport
from protocols.mcp.wire import (
    ELICITATION,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    URL_NEEDED,
    Question,
    RpcError,
)
from protocols.signature import Parameter, Signature

MAX_ODD = 5
# What is asked on a stream comes one at a time and has no name there.
QUESTION_NAME = "question"
# Where a tool declares no output that stands for all: the output that holds what is no object.
UNNAMED = "output"
_SENT_AGAIN = Note(
    "OTHER_ERA",
    "The vendor cannot ask in the revision 2026-07-28 of MCP, and said so. The call was sent again in an"
    " older revision, as calls of this tool are from now on.",
)
_NEXT_TIME = Note(
    "OTHER_ERA_NEXT",
    "The vendor cannot ask in the revision 2026-07-28 of MCP. The next call of this tool is sent in an older "
    "revision, in which it can.",
)
_OF_THE_CALLER = "The program that calls did not say that it can put such a question to its user."

ListedSchema = Callable[[Transport, str], dict[str, Any]]


def invoke(
    session: Session,
    tool_id: str,
    signature: Signature,
    arguments: Mapping[str, Any],
    listed_schema: ListedSchema,
    questions: Collection[str] = QUESTIONS,
    era: Era = "",
) -> Outcome:
    """`era` is the one that an administrator has chosen; "" finds out."""
    sent = given(signature, arguments)
    if whole := _whole(signature.inputs):
        sent = sent.get(whole.name, {})
    return _Call(session, tool_id, signature, sent, listed_schema, questions, era).begin()


def resume(
    session: Session,
    tool_id: str,
    signature: Signature,
    state: Mapping[str, Any],
    answers: Mapping[str, Any],
    listed_schema: ListedSchema,
    questions: Collection[str] = QUESTIONS,
    era: Era = "",
) -> Outcome:
    """`answers` hold what each ask's form was filled in with; None declines, and CLOSED decides nothing."""
    # It goes on in the era in which it was begun.
    era = state.get("era", era)
    call = _Call(session, tool_id, signature, state.get("arguments"), listed_schema, questions, era)
    if "reply" in state:
        return call.go_on(state, answers)
    return call.run(asks.next_params(state, answers), used=state["used"], kept=state.get("session", ""))


def give_up(session: Session, state: Mapping[str, Any]) -> None:
    with Transport(session, state["used"]) as transport:
        if "reply" in state:
            transport.give_up(_question(state), "The call has ended.")
        elif "session" in state:
            # With the conversation it ends.
            transport.go_on_in(state["session"])


def _question(state: Mapping[str, Any]) -> Question:
    # What a call stopped for before 2026-07-28.
    method = state.get("method", ELICITATION)
    return Question(state["question"], method, {}, state["reply"], tuple(state["answered"]))


class _Call:
    def __init__(
        self,
        session: Session,
        tool_id: str,
        signature: Signature,
        arguments: Any,
        listed_schema: ListedSchema,
        questions: Collection[str],
        era: Era,
    ) -> None:
        self.session = session
        self.tool_id = tool_id
        self.signature = signature
        self.arguments = arguments
        self.listed_schema = listed_schema
        self.questions = questions
        self.era = era
        # The vendor has stated that it cannot ask, in an error or in a result.
        self.could_not_ask: Literal["", "error", "result"] = ""
        self.has_opened = False

    def begin(self) -> Outcome:
        """Send the call in the era in which its tool can ask, if that is known or turns out."""
        if self.era or not self.questions:
            return self.run({}, used=1)
        memory = self.session.memory
        if self.tool_id in eras.tools_asking_in_handshake(memory):
            outcome = self._run_in_handshake()
            if self.has_opened or outcome.outcome == "unavailable":
                return outcome
            eras.forget_asking(memory, self.tool_id)
        outcome = self.run({}, used=1)
        if not self.could_not_ask:
            return outcome
        hints = self.signature.annotations
        if self.could_not_ask == "result" and not (hints.read_only or hints.idempotent):
            # The tool has run to its end, and may have changed something.
            eras.remember_asking(memory, self.tool_id)
            return replace(outcome, notes=(*outcome.notes, _NEXT_TIME))
        again = self._run_in_handshake()
        if not self.has_opened:
            return outcome
        eras.remember_asking(memory, self.tool_id)
        return replace(again, notes=(*again.notes, _SENT_AGAIN))

    def _run_in_handshake(self) -> Outcome:
        self.era = HANDSHAKE_ERA
        try:
            return self.run({}, used=1)
        finally:
            self.era = ""

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
        response = asks.response_to(state["asked"][QUESTION_NAME], answers.get(QUESTION_NAME))

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
        transport = Transport(self.session, used, self.questions, self.era)
        try:
            return self._conversation(transport, speak)
        finally:
            self.has_opened = transport.has_opened

    def _conversation(self, transport: Transport, speak: Callable[[Transport], Outcome]) -> Outcome:
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
        except CannotAskError as error:
            return _needing(outcomes.after(error), error.kinds)
        except ProtocolError as error:
            return outcomes.after(error)

    def _run(self, transport: Transport, more: Mapping[str, Any]) -> Outcome:
        for _ in range(asks.MAX_SILENT_TURNS):
            answer = self._sent(transport, more)
            if answer.question:
                return self._asked(transport, answer.question)
            result = answer.result
            if not asks.is_incomplete(result):
                return self._told(transport, answer)
            requests = asks.read_asks(result, transport.host, self.questions)
            state = result.get("requestState")
            if requests or not isinstance(state, str):
                return self._waiting(transport, requests, state)
            # Nothing is asked: the vendor only wants to be called once more.
            more = {"requestState": state}
        return self._waiting(transport, [], more["requestState"])

    def _told(self, transport: Transport, answer: Answer) -> Outcome:
        outcome = _outcome(answer, self.signature, is_modern=transport.is_modern)
        why = (outcome.error or {}).get("message", "")
        if outcome.outcome == "tool_error" and transport.is_modern and eras.names_server_request(why):
            self.could_not_ask = "result"
        return outcome

    def _asked(self, transport: Transport, question: Question) -> Outcome:
        try:
            request = {"method": question.method, "params": question.params}
            ask = asks.read_ask(QUESTION_NAME, request, transport.host, self.questions)
        except ProtocolError:
            transport.give_up(question, "The question cannot be asked.")
            raise
        minutes = OPEN_SECONDS // 60
        soon = Note("ANSWER_SOON", f"The vendor waits for the answer for {minutes} minutes at most.")
        # The vendor has the arguments.
        state = {name: value for name, value in self._state(transport, [ask]).items() if name != "arguments"}
        stopped = {
            "reply": question.reply,
            "question": question.number,
            "method": question.method,
            "answered": list(question.answered),
        }
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

    def _waiting(self, transport: Transport, requests: Sequence[Ask], state: object) -> Outcome:
        return Outcome(
            "needs_input",
            error={"code": "INPUT_REQUIRED", "message": "The tool needs an answer before it goes on."},
            asks=tuple(requests),
            resume=self._state(transport, requests, state),
        )

    def _to_visit(self, transport: Transport, error: RpcError) -> Outcome:
        # The revisions that have this error know no answers: the same call is sent once more. Some vendors
        # remember by the session who was at the address.
        waiting = self._waiting(transport, asks.read_visits(error.data), None)
        kept = transport.keep_session()
        state = self._state(transport, []) | ({"session": kept} if kept else {})
        return replace(waiting, resume=state)

    def _state(self, transport: Transport, requests: Sequence[Ask], state: object = None) -> dict[str, Any]:
        return {
            "arguments": self.arguments,
            "used": transport.used,
            **({"era": self.era} if self.era else {}),
            **asks.stopped_state(requests, state),
        }

    def _complaint(self, transport: Transport, error: RpcError) -> Outcome:
        said = error.said or "It did not say why."
        if transport.is_modern and eras.names_server_request(error.said):
            self.could_not_ask = "error"
        vendor = outcomes.vendor_error(error.number, error.said)
        if error.number == INVALID_PARAMS:
            message = f"The vendor refused the call: {said}"
            return outcomes.failed("invalid_arguments", error.code, message, vendor=vendor)
        if error.number == METHOD_NOT_FOUND:
            message = f"The vendor cannot run this tool: {said}"
            return outcomes.failed("refused", "NOT_FOUND", message, vendor=vendor)
        if error.number == MISSING_CAPABILITY:
            missing = _kinds_needed(error.data) - set(self.questions)
            reason, code = f"The tool needs what cannot be done for it here: {said}", ASKS_BACK
            if missing & set(QUESTIONS):
                code, reason = CANNOT_ASK, f"The tool asks its user: {said} {_OF_THE_CALLER}"
            return _needing(outcomes.failed("refused", code, reason, vendor=vendor), missing)
        message = f"The vendor could not run the tool: {said}"
        return outcomes.failed("tool_error", error.code, message, vendor=vendor)


def _needing(outcome: Outcome, kinds: Collection[str]) -> Outcome:
    """Add which kinds of requests the caller would have to answer, as words of one text."""
    if not kinds or outcome.error is None:
        return outcome
    return replace(outcome, error={**outcome.error, "kinds": " ".join(sorted(kinds))})


def _kinds_needed(data: object) -> set[str]:
    capabilities = data.get("requiredCapabilities") if isinstance(data, dict) else None
    return set(wire.kinds_of(capabilities)) if isinstance(capabilities, dict) else set()


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
