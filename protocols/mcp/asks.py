"""Requests of a vendor in the middle of a call: read from a result, and answered with the next request.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from core import json_parts
from core.canonical_json import canonical
from core.outbound.errors import ProtocolViolationError, printable
from core.value_descriptions import describe_value
from protocols import parameters as json_schema
from protocols.call_outcome import CLOSED, Ask
from protocols.list_pages import UnreadableItemError
from protocols.mcp import wire
from protocols.mcp.rpc import CannotAskError
from protocols.mcp.wire import ELICITATION, ROOTS, ROOTS_KIND, SAMPLING, SAMPLING_KIND

MAX_ASKS = 20
MAX_SILENT_TURNS = 5  # requests to continue without a question, after which a person has to continue the call
MAX_QUESTION_LENGTH = 2000
# Of a request to the calling program, which may contain pictures.
MAX_REQUEST_BYTES = 128 * 1024
_SAMPLING_MEMBERS = (
    *("messages", "modelPreferences", "systemPrompt", "includeContext", "temperature", "maxTokens"),
    *("stopSequences", "metadata", "tools", "toolChoice"),
)
_REQUESTS = {
    SAMPLING: (SAMPLING_KIND, "The tool asks for a message of the calling program's model."),
    ROOTS: (ROOTS_KIND, "The tool asks which folders are open in the calling program."),
}


def is_incomplete(result: Mapping[str, Any]) -> bool:
    """Return whether the vendor waits for answers before it continues.

    Raises ProtocolViolationError for a result of an unknown type.
    """
    kind = result.get("resultType", "complete")
    if kind not in ("complete", "input_required"):
        reason = f"The reply has the result type {describe_value(kind)}, which is unknown."
        raise ProtocolViolationError("SHAPE", reason)
    if kind == "input_required" and (part := json_parts.find_broken(result)):
        raise ProtocolViolationError(part.code, f"The reply holds {part.reason}.")
    return bool(kind == "input_required")


def next_params(state: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with which a stopped request is sent again."""
    params: dict[str, Any] = {"requestState": state["state"]} if "state" in state else {}
    if kinds := state.get("asked", {}):
        responses = {name: response_to(kind, answers.get(name)) for name, kind in kinds.items()}
        # A refused request to the program itself has no form here: the vendor gets no response to it.
        params["inputResponses"] = {
            name: response for name, response in responses.items() if response is not None
        }
    return params


def stopped_state(asks: Sequence[Ask], request_state: object) -> dict[str, Any]:
    """Return what `next_params` needs of a request that the vendor has stopped."""
    kinds = {
        ask.id: _REQUESTS[ask.request["method"]][0] if ask.request else "url" if ask.url else "form"
        for ask in asks
    }
    return {
        "asked": kinds,
        **({"state": request_state} if isinstance(request_state, str) else {}),
    }


def response_to(kind: str, answer: object) -> dict[str, Any] | None:
    if kind in (SAMPLING_KIND, ROOTS_KIND):
        if not isinstance(answer, dict):
            return None
        is_result = isinstance(answer.get("role"), str) and isinstance(answer.get("content"), dict | list)
        if kind == ROOTS_KIND:
            is_result = isinstance(answer.get("roots"), list)
        return answer if is_result else None
    if answer is None:
        return {"action": "decline"}
    if answer == CLOSED:
        return {"action": "cancel"}
    return {"action": "accept"} if kind == "url" else {"action": "accept", "content": answer}


def read_asks(result: Mapping[str, Any], host: str, kinds: Collection[str]) -> list[Ask]:
    input_requests = result.get("inputRequests") or {}
    if not isinstance(input_requests, dict) or len(input_requests) > MAX_ASKS:
        raise ProtocolViolationError(
            "SHAPE", f"“inputRequests” is no object of at most {MAX_ASKS} questions."
        )
    return [read_ask(name, input_request, host, kinds) for name, input_request in input_requests.items()]


def read_ask(name: str, input_request: object, host: str, kinds: Collection[str]) -> Ask:
    """Return a request of the vendor. Raises CannotAskError if the calling program does not answer it."""
    method = input_request.get("method") if isinstance(input_request, dict) else None
    params = input_request.get("params") if isinstance(input_request, dict) else None
    if isinstance(method, str) and method in _REQUESTS:
        params = params if isinstance(params, dict) else {}
        if missing := wire.kinds_needed(method, params) - set(kinds):
            raise CannotAskError(host, method, missing)
        passed = {member: params[member] for member in _SAMPLING_MEMBERS if member in params}
        if method == ROOTS:
            passed = {}
        elif not isinstance(passed.get("messages"), list) or type(passed.get("maxTokens")) is not int:
            raise ProtocolViolationError("SHAPE", f"The tool's request “{printable(name)}” cannot be read.")
        if len(canonical(passed)) > MAX_REQUEST_BYTES:
            limit = f"{MAX_REQUEST_BYTES // 1024} kB"
            reason = f"The tool's request “{printable(name)}” has more than {limit}."
            raise ProtocolViolationError("SHAPE", reason)
        return Ask(name, _REQUESTS[method][1], request={"method": method, "params": passed})
    if method != ELICITATION or not isinstance(params, dict):
        raise ProtocolViolationError("SHAPE", f"The tool's question “{printable(name)}” cannot be read.")
    message = params.get("message")
    text = printable(message, MAX_QUESTION_LENGTH) if isinstance(message, str) else ""
    if params.get("mode") == "url":
        return Ask(name, text, url=_web_address(params.get("url")))
    schema = params.get("requestedSchema")
    if not isinstance(schema, dict):
        raise ProtocolViolationError("SHAPE", f"The tool's question “{printable(name)}” has no form.")
    try:
        json_schema.check(schema, "requestedSchema")
    except UnreadableItemError as error:
        raise ProtocolViolationError(error.code, error.reason) from error
    return Ask(name, text, schema=schema)


def read_visits(data: object) -> list[Ask]:
    """Return the addresses that a person has to visit before the call can succeed."""
    elicitations = data.get("elicitations") if isinstance(data, dict) else None
    visits = (
        [elicitation for elicitation in elicitations[:MAX_ASKS] if isinstance(elicitation, dict)]
        if isinstance(elicitations, list)
        else []
    )
    return [
        # Without a schema: they are not answered, and the call is sent again.
        Ask(f"visit-{number}", printable(str(elicitation.get("message", "")), MAX_QUESTION_LENGTH), url=url)
        for number, elicitation in enumerate(visits, start=1)
        if (url := _web_address(elicitation.get("url")))
    ]


def _web_address(url: object) -> str:
    if isinstance(url, str) and url.startswith(("https://", "http://")) and len(url) <= MAX_QUESTION_LENGTH:
        return url
    raise ProtocolViolationError("SHAPE", f"The tool sends users to {describe_value(url)}.")
