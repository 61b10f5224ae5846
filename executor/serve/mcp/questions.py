"""What a tool asks before it goes on, put to the user of a client that can ask, and the answers.

Since 2026-07-28 the questions are a result, and the same call with the answers is another request. What has
to be remembered in between is the call's row, which `requestState` names.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.models.calls import Asked
from executor.calls import Answer
from executor.serve.mcp.clients import Client
from executor.serve.mcp.messages import INVALID_PARAMS, MISSING_CAPABILITY, RpcError
from protocols.base import CLOSED, QUESTIONS
from protocols.mcp.rpc import CANNOT_ASK

CONFIRM = "confirm"
CHOICES_SINCE = "2025-11-25"
_STATE = re.compile(r"call-([0-9]{1,18})")
# No set, which cannot be asked for a list: what a vendor writes as a type may be anything.
_SIMPLE = ("string", "number", "integer", "boolean")


def confirmation(message: str) -> dict[str, Any]:
    yes = {"type": "boolean", "title": "Run it", "default": False}
    form = {"type": "object", "properties": {CONFIRM: yes}, "required": [CONFIRM]}
    return _required({CONFIRM: _form(message, form)})


def is_confirmed(responses: Mapping[str, Any]) -> bool:
    content = _answer(responses.get(CONFIRM))
    return content is not None and content.get(CONFIRM) is True


def refuse_unable(answer: Answer, client: Client) -> None:
    """Raises RpcError where the vendor could not ask, as the client did not say that it can: since 2026-07-28
    that is what it is to hear."""
    error = answer.result.error or {}
    missing: dict[str, Any] = {kind: {} for kind in QUESTIONS if kind not in client.questions}
    if client.is_modern and missing and error.get("code") == CANNOT_ASK:
        made = {"pegboard/call": answer.call.pk} if answer.call else {}
        needed = {"requiredCapabilities": {"elicitation": missing}, **made}
        raise RpcError(MISSING_CAPABILITY, str(error.get("message", "")), needed)


def refuse_undeclared(call: int, asks: Sequence[Asked], client: Client) -> None:
    """Raises RpcError where the client did not say that it can ask its user so: since 2026-07-28 that is what
    it is to hear. The call has been made, and can be resumed over REST."""
    kinds = {"url" if ask.url else "form" for ask in asks}
    modes: dict[str, Any] = {kind: {} for kind in sorted(kinds - set(client.questions))}
    if client.is_modern and modes:
        said = " ".join(f"{ask.message} {ask.url}".strip() for ask in asks)
        message = f"The tool asks its user, and this client did not say that it can. It asks: {said}"
        needed = {"requiredCapabilities": {"elicitation": modes}, "pegboard/call": call}
        raise RpcError(MISSING_CAPABILITY, message, needed)


def asked(call: int, asks: Sequence[Asked], client: Client) -> dict[str, Any] | None:
    """None where the client cannot put all of the questions to its user."""
    requests = {}
    for ask in asks:
        if ask.url and client.asks_visits:
            params = {"mode": "url", "message": ask.message, "url": ask.url}
            if not client.is_modern:
                # The page that the user has gone to says no more of it.
                params["elicitationId"] = f"call-{call}-{ask.id}"
            requests[ask.id] = {"method": "elicitation/create", "params": params}
        elif not ask.url and client.asks_forms and _is_form(ask.schema, client):
            form = ask.schema or {"type": "object", "properties": {}}
            requests[ask.id] = _form(ask.message, form)
        else:
            return None
    return _required(requests, f"call-{call}")


def answered(params: Mapping[str, Any]) -> tuple[int, dict[str, Any]] | None:
    """Which call goes on, and the answers as `continue_call` takes them. None for a call that begins."""
    state, responses = params.get("requestState"), params.get("inputResponses", {})
    if state is None:
        return None
    found = _STATE.fullmatch(state) if isinstance(state, str) else None
    if found is None or not isinstance(responses, dict):
        raise RpcError(INVALID_PARAMS, "This “requestState” is none of ours. Call the tool again without it.")
    return int(found[1]), {name: _passed_on(response) for name, response in responses.items()}


def _required(requests: Mapping[str, Any], state: str = "") -> dict[str, Any]:
    named = {"requestState": state} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **named}


def _form(message: str, form: Mapping[str, Any]) -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": form}
    return {"method": "elicitation/create", "params": params}


def _passed_on(response: object) -> Mapping[str, Any] | None:
    if isinstance(response, dict) and response.get("action") == "cancel":
        return CLOSED
    return _answer(response)


def _answer(response: object) -> dict[str, Any] | None:
    if not isinstance(response, dict) or response.get("action") != "accept":
        return None
    content = response.get("content")
    return content if isinstance(content, dict) else {}


def _is_form(schema: Mapping[str, Any] | None, client: Client) -> bool:
    if schema is None:
        return True
    members, required = schema.get("properties"), schema.get("required", [])
    return (
        schema.get("type") == "object"
        and isinstance(members, dict)
        and all(_is_drawn(member, client) for member in members.values())
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
    )


def _is_drawn(member: object, client: Client) -> bool:
    # A client draws members that are no objects themselves, and no more than that.
    if not isinstance(member, dict):
        return False
    if "type" not in member:
        return isinstance(member.get("enum"), list)
    items = member.get("items") if client.version >= CHOICES_SINCE else None
    is_choice = member["type"] == "array" and isinstance(items, dict) and _is_of_texts(items)
    return is_choice or member["type"] in _SIMPLE


def _is_of_texts(items: Mapping[str, Any]) -> bool:
    titled = items.get("anyOf")
    if not isinstance(titled, list):
        return items.get("type") == "string"
    return all(isinstance(each, dict) and isinstance(each.get("const"), str) for each in titled)
