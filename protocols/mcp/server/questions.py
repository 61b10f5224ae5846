"""Questions of a tool for the user of a client, and their answers.

Since 2026-07-28 the questions are a result, and the client sends the same call again with the answers. The
state in between is the call's row, which `requestState` names.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from protocols.call_outcome import CLOSED, QUESTIONS, Ask
from protocols.mcp import wire
from protocols.mcp.rpc import CANNOT_ASK
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RefusedRequestError
from protocols.mcp.wire import CALL, FORM_KIND, INVALID_PARAMS, MISSING_CAPABILITY, URL_KIND
from protocols.server import ToolCallResult

CONFIRM = "confirm"
CHOICES_SINCE = "2025-11-25"
_STATE = re.compile(r"call-([0-9]{1,18})")
# A tuple and not a set: a vendor's `type` may be a list, which is not hashable.
_SIMPLE = ("string", "number", "integer", "boolean")


class _RequestedSchema(msgspec.Struct):
    """The members that the schema of a form must have in MCP."""

    type: Literal["object"]
    properties: dict[str, Any]
    required: list[str] = []


def confirmation(message: str) -> dict[str, Any]:
    yes = {"type": "boolean", "title": "Run it", "default": False}
    form = {"type": "object", "properties": {CONFIRM: yes}, "required": [CONFIRM]}
    return _input_required({CONFIRM: _form_request(message, form)})


def is_confirmed(params: Mapping[str, Any]) -> bool:
    """Return whether the parameters of a call contain the user's agreement to it."""
    responses = params.get("inputResponses")
    content = _accepted_content(responses.get(CONFIRM)) if isinstance(responses, dict) else None
    return content is not None and content.get(CONFIRM) is True


def has_answer_to_confirmation(params: Mapping[str, Any]) -> bool:
    responses = params.get("inputResponses")
    return isinstance(responses, dict) and CONFIRM in responses


def questions_of(result: ToolCallResult, client: Client) -> dict[str, Any] | None:
    """Return the result that asks the user of the client; None without questions that it can answer.

    Raises RpcError since 2026-07-28 if the client did not declare that it answers such questions. The call
    was sent, and can be resumed over REST.
    """
    missing = set(result.unanswerable_kinds.split())
    if result.code == CANNOT_ASK and not missing:
        missing = set(QUESTIONS)
    _refuse_undeclared(missing, result.message, result.call, client)
    if not (result.call and result.asks and result.can_resume):
        return None
    kinds = {kind for ask in result.asks for kind in _kinds_of(ask)}
    question_text = " ".join(f"{ask.message} {ask.url}".strip() for ask in result.asks)
    message = f"The tool asks its user, and this client did not say that it can. It asks: {question_text}"
    _refuse_undeclared(kinds, message, result.call, client)
    requests = {}
    for ask in result.asks:
        if not _kinds_of(ask) <= set(client.kinds):
            return None
        if ask.request is not None:
            requests[ask.id] = {"method": ask.request["method"], "params": ask.request["params"]}
        elif ask.url:
            params = {"mode": "url", "message": ask.message, "url": ask.url}
            if not client.is_modern:
                # Required by the protocol. No notification with this id is ever sent.
                params["elicitationId"] = f"call-{result.call}-{ask.id}"
            requests[ask.id] = {"method": wire.ELICITATION, "params": params}
        elif _is_form(ask.schema, client):
            form = ask.schema or {"type": "object", "properties": {}}
            requests[ask.id] = _form_request(ask.message, form)
        else:
            return None
    return _input_required(requests, f"call-{result.call}")


def _refuse_undeclared(kinds: set[str], message: str, call: int | None, client: Client) -> None:
    """Raise RpcError if the client did not declare that it answers questions of these kinds.

    call: the call that asks them; None if it was not sent.
    """
    missing = kinds - set(client.kinds)
    if client.is_modern and missing:
        # A member of a capability requires the capability itself.
        needed_kinds = {*missing, *(kind.partition(".")[0] for kind in missing)}
        needed = {"requiredCapabilities": wire.capabilities_of(needed_kinds)}
        raise RefusedRequestError(
            MISSING_CAPABILITY, message, needed | ({} if call is None else {CALL: call})
        )


def _kinds_of(ask: Ask) -> set[str]:
    if ask.request is not None:
        return wire.kinds_needed(ask.request["method"], ask.request["params"])
    return {URL_KIND if ask.url else FORM_KIND}


def answers_ahead(params: Mapping[str, Any], asks: Sequence[Ask]) -> dict[str, Any] | None:
    """Return the answers that a client sent with a call before it was asked; None unless each question has
    one.
    """
    responses = params.get("inputResponses")
    if not isinstance(responses, dict) or not asks:
        return None
    responses_by_id = {ask.id: responses[ask.id] for ask in asks if isinstance(responses.get(ask.id), dict)}
    if len(responses_by_id) < len(asks):
        return None
    return {name: _vendor_answer(response) for name, response in responses_by_id.items()}


def continued_call(params: Mapping[str, Any]) -> tuple[int, dict[str, Any]] | None:
    """Return the primary key of the call that continues, and the answers; None for a new call."""
    state, responses = params.get("requestState"), params.get("inputResponses", {})
    if state is None:
        return None
    match = _STATE.fullmatch(state) if isinstance(state, str) else None
    if match is None or not isinstance(responses, dict):
        raise RefusedRequestError(
            INVALID_PARAMS, "This “requestState” is none of ours. Call the tool again without it."
        )
    return int(match[1]), {name: _vendor_answer(response) for name, response in responses.items()}


def _input_required(requests: Mapping[str, Any], state: str = "") -> dict[str, Any]:
    state_member = {"requestState": state} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **state_member}


def _form_request(message: str, form: Mapping[str, Any]) -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": form}
    return {"method": wire.ELICITATION, "params": params}


def _vendor_answer(response: object) -> Mapping[str, Any] | None:
    if isinstance(response, dict) and "action" not in response:
        # The result of a request to the program itself, which the protocol of the vendor checks.
        return response
    if isinstance(response, dict) and response.get("action") == "cancel":
        return CLOSED
    return _accepted_content(response)


def _accepted_content(response: object) -> dict[str, Any] | None:
    if not isinstance(response, dict) or response.get("action") != "accept":
        return None
    content = response.get("content")
    return content if isinstance(content, dict) else {}


def _is_form(schema: Mapping[str, Any] | None, client: Client) -> bool:
    """Return whether the forms of the client can show the schema. They have no nested objects."""
    if schema is None:
        return True
    try:
        form = msgspec.convert(schema, _RequestedSchema)
    except msgspec.ValidationError:
        return False
    for member in form.properties.values():
        if not isinstance(member, dict):
            return False
        if "type" not in member:
            is_shown = isinstance(member.get("enum"), list)
        elif member["type"] == "array" and client.version >= CHOICES_SINCE:
            items = member.get("items")
            choices = items.get("anyOf") if isinstance(items, dict) else None
            if isinstance(choices, list):
                is_shown = all(
                    isinstance(choice, dict) and isinstance(choice.get("const"), str) for choice in choices
                )
            else:
                is_shown = isinstance(items, dict) and items.get("type") == "string"
        else:
            is_shown = member["type"] in _SIMPLE
        if not is_shown:
            return False
    return True
