"""Run a tool over MCP: build the request, and turn the answer into an outcome."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from msgspec import UNSET

from core import strict_json
from core.canonical_json import canonical
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, printable
from core.outbound.rest import OPEN_SECONDS
from core.schema import error_messages, validation
from protocols import parameters as json_schema
from protocols.base import Session
from protocols.call_outcome import QUESTIONS, Ask, Outcome
from protocols.calls import outcomes
from protocols.calls.arguments import arguments_to_send
from protocols.list_pages import Note
from protocols.mcp import asks, eras, wire
from protocols.mcp import headers as mcp_headers
from protocols.mcp.eras import HANDSHAKE_ERA, Era
from protocols.mcp.rpc import ASKS_BACK, CANNOT_ASK, NOT_SENT, CannotAskError, RpcRequest, RpcResponse
from protocols.mcp.transport import Transport
from protocols.mcp.wire import (
    ELICITATION,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    URL_NEEDED,
    RpcError,
    VendorQuestion,
)
from protocols.signature import Parameter, Signature

MAX_ODD = 5
# The name of a question on a stream, which has at most one question at a time and gives it no name.
QUESTION_NAME = "question"
# The output for a value that is not an object, if the tool declares no output for the whole value.
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
_OF_THE_CALLER = "The calling program did not declare that it can ask its user such a question."

ListedSchema = Callable[[Transport, str], dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class CalledTool:
    """A tool of a vendor, and the way in which it is called.

    listed_schema: reads the tool's present input schema from the vendor's list.
    questions: the kinds of questions that the caller can answer. era: the administrator's choice; "" detects
    the era.
    """

    session: Session
    tool_id: str
    signature: Signature
    listed_schema: ListedSchema
    questions: Collection[str] = QUESTIONS
    era: Era = ""


def invoke(tool: CalledTool, arguments: Mapping[str, Any]) -> Outcome:
    """Send a call."""
    sent_arguments = arguments_to_send(tool.signature, arguments)
    if whole_parameter := _whole_parameter(tool.signature.inputs):
        sent_arguments = sent_arguments.get(whole_parameter.name, {})
    return _Call(tool, sent_arguments).begin()


def resume(tool: CalledTool, state: Mapping[str, Any], answers: Mapping[str, Any]) -> Outcome:
    """Continue a call with the answers by question: the values of the form, None to decline, or CLOSED."""
    # A call continues in the era in which it began.
    tool = replace(tool, era=state.get("era", tool.era))
    call = _Call(tool, state.get("arguments"))
    if "reply" in state:
        return call.resume_on_stream(state, answers)
    return call.run(
        asks.next_params(state, answers), used=state["used"], session_name=state.get("session", "")
    )


def give_up(session: Session, state: Mapping[str, Any]) -> None:
    with Transport(session, state["used"]) as transport:
        if "reply" in state:
            transport.give_up(_question_of(state), "The call has ended.")
        elif "session" in state:
            # The session ends with the conversation.
            transport.continue_session(state["session"])


def _question_of(state: Mapping[str, Any]) -> VendorQuestion:
    # The question that a call stopped for before 2026-07-28.
    method = state.get("method", ELICITATION)
    return VendorQuestion(state["question"], method, {}, state["reply"], tuple(state["answered"]))


class _Call:
    """One call of a tool, in one or two eras."""

    def __init__(self, tool: CalledTool, arguments: Any) -> None:
        self.session = tool.session
        self.tool_id = tool.tool_id
        self.signature = tool.signature
        self.arguments = arguments
        self.listed_schema = tool.listed_schema
        self.questions = tool.questions
        self.era = tool.era
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

    def run(self, more: Mapping[str, Any], *, used: int, session_name: str = "") -> Outcome:
        """Send the call. session_name: the stored session of the vendor in which the call stopped, ""
        without.
        """

        def exchange(transport: Transport) -> Outcome:
            if session_name:
                transport.continue_session(session_name)
            params = more
            for _ in range(asks.MAX_SILENT_TURNS):
                answer = self._send_call(transport, params)
                if answer.question:
                    return self._stop_for(transport, answer.question)
                if not asks.is_incomplete(answer.result):
                    return self._read_outcome(transport, answer)
                requests = asks.read_asks(answer.result, transport.host, self.questions)
                state = answer.result.get("requestState")
                if requests or not isinstance(state, str):
                    return self._waiting_outcome(transport, requests, state)
                # The vendor has no question and requests that the call is sent once more.
                params = {"requestState": state}
            return self._waiting_outcome(transport, [], params["requestState"])

        return self._run_in_transport(used, exchange)

    def resume_on_stream(self, state: Mapping[str, Any], answers: Mapping[str, Any]) -> Outcome:
        """Continue a call of before 2026-07-28 with the answer to the question on its stream."""
        question = _question_of(state)
        response = asks.response_to(state["asked"][QUESTION_NAME], answers.get(QUESTION_NAME))

        def exchange(transport: Transport) -> Outcome:
            answer = transport.answer(question, response)
            if answer.question:
                return self._stop_for(transport, answer.question)
            return self._read_outcome(transport, answer)

        outcome = self._run_in_transport(state["used"], exchange)
        if outcome.outcome == "unavailable" and (outcome.error or {}).get("code") not in NOT_SENT:
            # A question can be answered once.
            return replace(outcome, can_retry=False)
        return outcome

    def _run_in_transport(self, used: int, exchange: Callable[[Transport], Outcome]) -> Outcome:
        """Perform the exchange in a conversation with the server, and convert its errors to outcomes.

        used: the number of the last request in earlier conversations about this call.
        """
        transport = Transport(self.session, used, self.questions, self.era)
        try:
            with transport:
                try:
                    return exchange(transport)
                except RpcError as error:
                    if error.number != URL_NEEDED:
                        raise
                    # Revisions with this error have no answers: the same call is sent once more. Some vendors
                    # store with the session that the user has visited the address.
                    waiting = self._waiting_outcome(transport, asks.read_visits(error.data), None)
                    session_name = transport.keep_session()
                    state = self._resume_state(transport, []) | (
                        {"session": session_name} if session_name else {}
                    )
                    return replace(waiting, resume=state)
        except RpcError as error:
            return self._outcome_of_error(transport, error)
        except CannotAskError as error:
            return _with_needed_kinds(outcomes.convert_error(error), error.kinds)
        except ProtocolError as error:
            return outcomes.convert_error(error)
        finally:
            self.has_opened = transport.has_opened

    def _read_outcome(self, transport: Transport, answer: RpcResponse) -> Outcome:
        signature = self.signature
        result_part = answer.document.answer_in(answer.result)
        result: dict[str, Any] = result_part.value
        notes = outcomes.notes_on(result_part)
        blocks = result.get("content")
        if not isinstance(blocks, list):
            if "structuredContent" not in result:
                raise ProtocolViolationError(
                    "SHAPE", "The reply has neither “content” nor “structuredContent”."
                )
            blocks = []
        texts = [
            block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"
        ]
        text = "\n".join(block for block in texts if isinstance(block, str))
        structured = result.get("structuredContent", UNSET)
        if structured is None and not transport.is_modern and not signature.outputs:
            structured = UNSET  # Before 2026-07-28 it is an object, and servers write null for none.
        is_repeated = structured is not UNSET and is_copy(text, structured)
        text_output = {"text": text} if text and not is_repeated else {}
        is_undeclared = not signature.outputs and signature.outputs_rest is None
        # An empty object has no member that could be an output.
        is_named = isinstance(structured, dict) and bool(structured)
        is_whole = is_undeclared and structured is not UNSET and not is_named
        structured_outputs = {UNNAMED: structured} if is_whole else _structured_outputs(structured, signature)
        outputs = {"content": blocks, **text_output} | structured_outputs
        outcome = Outcome("ok", outputs=outputs, whole_output=UNNAMED if is_whole else "", notes=notes)
        if result.get("isError") is True:
            silent = "The tool failed and gave no reason."
            if structured not in (UNSET, None):
                silent = "The tool failed. Its outputs describe the failure."
            reason = printable(text, outcomes.MAX_EXPLANATION_LENGTH) or silent
            if transport.is_modern and eras.names_server_request(reason):
                self.could_not_ask = "result"
            return replace(outcome, outcome="tool_error", error={"code": "TOOL_ERROR", "message": reason})
        return replace(outcome, notes=(*notes, *_odd_outputs(result, signature)))

    def _stop_for(self, transport: Transport, question: VendorQuestion) -> Outcome:
        try:
            request = {"method": question.method, "params": question.params}
            ask = asks.read_ask(QUESTION_NAME, request, transport.host, self.questions)
        except ProtocolError:
            transport.give_up(question, "The question cannot be asked.")
            raise
        minutes = OPEN_SECONDS // 60
        soon = Note("ANSWER_SOON", f"The vendor waits for the answer for {minutes} minutes at most.")
        # The vendor has the arguments already.
        state = {
            name: value for name, value in self._resume_state(transport, [ask]).items() if name != "arguments"
        }
        stopped = {
            "reply": question.reply,
            "question": question.number,
            "method": question.method,
            "answered": list(question.answered),
        }
        return replace(self._waiting_outcome(transport, [ask], None), resume=state | stopped, notes=(soon,))

    def _send_call(self, transport: Transport, more: Mapping[str, Any]) -> RpcResponse:
        schema = json_schema.write_schema(self.signature.inputs, self.signature.schema_rest)
        try:
            return transport.ask(self._build_request(schema, more))
        except RpcError as error:
            if error.number not in (HEADER_MISMATCH, INVALID_PARAMS):
                raise
            # INVALID_PARAMS means wrong arguments or an unknown tool: reading the list raises for an unknown
            # tool. HEADER_MISMATCH means that the tool needs headers that the stored schema does not have.
            try:
                listed_schema = self.listed_schema(transport, self.tool_id)
            except RefusedError as refusal:
                if refusal.code != "NOT_FOUND" or set(self.questions) >= set(QUESTIONS):
                    raise
                # Some servers list a tool with questions only for clients that can be asked.
                raise RefusedError(CANNOT_ASK, f"{refusal.message} {_OF_THE_CALLER}") from refusal
            if error.number == INVALID_PARAMS:
                raise
        return transport.ask(self._build_request(listed_schema, more))

    def _build_request(self, schema: Mapping[str, Any], more: Mapping[str, Any]) -> RpcRequest:
        headers = mcp_headers.mirrored_headers(schema, self.arguments)
        params = {"name": self.tool_id, "arguments": self.arguments, **more}
        if self.session.is_followed:
            params["_meta"] = {"progressToken": self.session.mark}
        return RpcRequest("tools/call", params, name=self.tool_id, headers=headers)

    def _waiting_outcome(self, transport: Transport, requests: Sequence[Ask], state: object) -> Outcome:
        return Outcome(
            "needs_input",
            error={"code": "INPUT_REQUIRED", "message": "The tool needs an answer before it continues."},
            asks=tuple(requests),
            resume=self._resume_state(transport, requests, state),
        )

    def _resume_state(
        self, transport: Transport, requests: Sequence[Ask], state: object = None
    ) -> dict[str, Any]:
        return {
            "arguments": self.arguments,
            "used": transport.used,
            **({"era": self.era} if self.era else {}),
            **asks.stopped_state(requests, state),
        }

    def _outcome_of_error(self, transport: Transport, error: RpcError) -> Outcome:
        vendor_message = error.vendor_message or "It gave no reason."
        if transport.is_modern and eras.names_server_request(error.vendor_message):
            self.could_not_ask = "error"
        vendor = outcomes.vendor_error(error.number, error.vendor_message)
        if error.number == INVALID_PARAMS:
            message = f"The vendor refused the call: {vendor_message}"
            return outcomes.failed("invalid_arguments", error.code, message, vendor=vendor)
        if error.number == METHOD_NOT_FOUND:
            message = f"The vendor cannot run this tool: {vendor_message}"
            return outcomes.failed("refused", "NOT_FOUND", message, vendor=vendor)
        if error.number == MISSING_CAPABILITY:
            capabilities = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
            needed = wire.kinds_of(capabilities) if isinstance(capabilities, dict) else ()
            missing = set(needed) - set(self.questions)
            reason, code = f"The tool needs what cannot be done for it here: {vendor_message}", ASKS_BACK
            if missing & set(QUESTIONS):
                code, reason = CANNOT_ASK, f"The tool asks its user: {vendor_message} {_OF_THE_CALLER}"
            return _with_needed_kinds(outcomes.failed("refused", code, reason, vendor=vendor), missing)
        message = f"The vendor could not run the tool: {vendor_message}"
        return outcomes.failed("tool_error", error.code, message, vendor=vendor)


def _with_needed_kinds(outcome: Outcome, kinds: Collection[str]) -> Outcome:
    """Add the kinds of requests that the caller would have to answer, separated by spaces."""
    if not kinds or outcome.error is None:
        return outcome
    return replace(outcome, error={**outcome.error, "kinds": " ".join(sorted(kinds))})


def is_copy(text: str, value: object) -> bool:
    """Return whether a text repeats the structured result, for clients that read texts only."""
    try:
        return canonical(strict_json.loads(text.encode())) == canonical(value)
    except ProtocolViolationError:
        return False


def _structured_outputs(value: Any, signature: Signature) -> dict[str, Any]:
    """Return the structured result by output names. Names of the vendor's object override `UNNAMED`."""
    if value is UNSET:
        return {}
    if whole_output := _whole_parameter(signature.outputs):
        return {whole_output.name: value}
    return value if isinstance(value, dict) else {UNNAMED: value}


def _whole_parameter(outputs: Sequence[Parameter]) -> Parameter | None:
    return outputs[0] if len(outputs) == 1 and outputs[0].is_whole else None


def _odd_outputs(result: Mapping[str, Any], signature: Signature) -> Iterator[Note]:
    # A result that differs from the signature is accepted, with notes.
    if not signature.outputs and signature.outputs_rest is None:
        return
    if "structuredContent" not in result:
        if any(output.required for output in signature.outputs):
            yield Note("MISSING_OUTPUT", "The tool declares a structured output and sent none.")
        return
    ready = validation.checked(json_schema.write_schema(signature.outputs, signature.outputs_rest))
    for fault in validation.faults(ready, result["structuredContent"])[:MAX_ODD]:
        where = error_messages.place(fault.path)
        yield Note("BAD_OUTPUT", f"The output{f' “{where}”' if where else ''} {fault.why}.")
