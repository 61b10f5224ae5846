"""Requests for a prompt or a resource at a vendor's MCP server, and the replies as outcomes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.outbound.errors import ProtocolError, ProtocolViolationError, printable
from protocols.base import Session
from protocols.call_outcome import Outcome
from protocols.calls import outcomes
from protocols.mcp import asks, uri_templates
from protocols.mcp import headers as mcp_headers
from protocols.mcp.context import URI, vendor_id
from protocols.mcp.eras import Era
from protocols.mcp.rpc import CannotAskError, RpcRequest, RpcResponse
from protocols.mcp.transport import Transport
from protocols.mcp.wire import INVALID_PARAMS, METHOD_NOT_FOUND, NAME_HEADER, RESOURCE_NOT_FOUND, RpcError
from protocols.signature import Signature


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A request for a prompt, or for the content of a resource, of the vendor's server.

    kinds: the requests of the vendor that the caller answers. era: the one that an administrator has chosen.
    """

    session: Session
    tool_id: str
    signature: Signature
    kinds: Collection[str]
    era: Era

    def get(self, arguments: Mapping[str, Any]) -> Outcome:
        """Get the prompt with these arguments, or read the resource."""
        return self.send({"arguments": dict(arguments), "used": 1}, {})

    def resume(self, state: Mapping[str, Any], answers: Mapping[str, Any]) -> Outcome:
        """Repeat the request that the vendor stopped to ask, with the answers."""
        return self.send(state, asks.next_params(state, answers))

    def send(self, state: Mapping[str, Any], more: Mapping[str, Any]) -> Outcome:
        own_id, arguments = vendor_id(self.tool_id), state["arguments"]
        if self.signature.kind == "resource_template":
            uri = arguments.get(URI)
            if not isinstance(uri, str) or not uri_templates.fits(own_id, uri):
                message = "The address does not fit the template of this resource."
                return outcomes.failed("invalid_arguments", "ARGUMENTS", message)
            own_id = uri
        try:
            with Transport(self.session, state["used"], self.kinds, self.era) as transport:
                return self._send_request(transport, own_id, arguments, more)
        except RpcError as error:
            vendor = outcomes.vendor_error(error.number, error.vendor_message)
            reason = printable(error.vendor_message or "It gave no reason.")
            if error.number in (RESOURCE_NOT_FOUND, METHOD_NOT_FOUND):
                message = f"The vendor does not have it: {reason}"
                return outcomes.failed("refused", "NOT_FOUND", message, vendor=vendor)
            if error.number == INVALID_PARAMS:
                message = f"The vendor refused the request: {reason}"
                return outcomes.failed("invalid_arguments", error.code, message, vendor=vendor)
            return outcomes.failed(
                "tool_error", error.code, f"The vendor could not answer: {reason}", vendor=vendor
            )
        except CannotAskError as error:
            outcome = outcomes.convert_error(error)
            return replace(outcome, error={**(outcome.error or {}), "kinds": " ".join(sorted(error.kinds))})
        except ProtocolError as error:
            return outcomes.convert_error(error)

    def _send_request(
        self, transport: Transport, own_id: str, arguments: Mapping[str, Any], more: Mapping[str, Any]
    ) -> Outcome:
        method, params = "resources/read", dict[str, Any](uri=own_id)
        if self.signature.kind == "prompt":
            method, params = "prompts/get", {"name": own_id, "arguments": dict(arguments)}
        # Since 2026-07-28 a header names the prompt or the resource.
        headers = {NAME_HEADER: mcp_headers.encode_value(own_id)}
        for _ in range(asks.MAX_SILENT_TURNS):
            # The request may be sent twice: getting a prompt or a resource changes nothing.
            answer = transport.ask(RpcRequest(method, {**params, **more}, headers=headers))
            if not asks.is_incomplete(answer.result):
                return _read_outcome(answer, self.signature.kind)
            requests = asks.read_asks(answer.result, transport.host, self.kinds)
            request_state = answer.result.get("requestState")
            if requests or not isinstance(request_state, str):
                break
            # The vendor has no question and requests that the request is sent once more.
            more = {"requestState": request_state}
        stopped = asks.stopped_state(requests, request_state)
        message = "The vendor needs an answer before it continues."
        return Outcome(
            "needs_input",
            error={"code": "INPUT_REQUIRED", "message": message},
            asks=tuple(requests),
            resume={"arguments": arguments, "used": transport.used, **stopped},
        )


def _read_outcome(answer: RpcResponse, kind: str) -> Outcome:
    """Return the outcome of a complete answer. Raises ProtocolViolationError."""
    stored_answer = answer.document.answer_in(answer.result)
    result: dict[str, Any] = stored_answer.value
    member = "messages" if kind == "prompt" else "contents"
    entries, description = result.get(member), result.get("description")
    is_valid = isinstance(entries, list)
    for entry in entries if isinstance(entries, list) else ():
        members = entry if isinstance(entry, dict) else {}
        if kind == "prompt":
            content = members.get("content")
            is_text = isinstance(content, dict) and isinstance(content.get("type"), str)
            is_valid &= is_text and members.get("role") in ("user", "assistant")
        else:
            is_content = isinstance(members.get("text"), str) or isinstance(members.get("blob"), str)
            is_valid &= is_content and isinstance(members.get("uri"), str)
    if not is_valid:
        shape = "messages with a role" if kind == "prompt" else "texts or blobs"
        raise ProtocolViolationError("SHAPE", f"The reply has no array “{member}” of {shape}.")
    outputs: dict[str, Any] = {member: entries}
    if kind == "prompt" and isinstance(description, str):
        outputs["description"] = description
    return Outcome("ok", outputs=outputs, notes=outcomes.notes_on(stored_answer))
