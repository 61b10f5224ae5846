"""Vendors' prompts and resources of a release, as it was published; their texts come from the vendor.

A request goes to the MCP server of the vendor that offers the prompt or the resource, and nowhere else. An
address is read if it is pinned, or fits a pinned template. The contents are passed on as data.
"""

from collections.abc import Mapping
from typing import Any

from designer.exports.document import ReleasedTool
from execution.calls.runtime import CallerSide
from protocols.mcp import uri_templates
from protocols.mcp.context import MEDIA_TYPE, URI, vendor_id
from protocols.mcp.server import questions
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RpcError
from protocols.mcp.wire import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from protocols.server import Request
from protocols.signature import ContextKind
from serving.calls import Answer, UnknownToolError, Wish
from serving.serve.base import Operations, explain_failure
from serving.serve.mcp import tools


def prompts(operations: Operations) -> list[dict[str, Any]]:
    return [
        _entry(item) | {"arguments": _arguments(item)} if item.signature.inputs else _entry(item)
        for item in _items(operations, "prompt")
    ]


def resources(operations: Operations) -> list[dict[str, Any]]:
    return [
        {"uri": vendor_id(item.tool_id), **_entry(item), **_media_type(item)}
        for item in _items(operations, "resource")
    ]


def templates(operations: Operations) -> list[dict[str, Any]]:
    return [
        {"uriTemplate": vendor_id(item.tool_id), **_entry(item), **_media_type(item)}
        for item in _items(operations, "resource_template")
    ]


def get_prompt(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the messages of a prompt; None where the release has no prompt of this name."""
    name, arguments = params.get("name"), params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "“arguments” is no object.")
    item = next((one for one in _items(operations, "prompt") if one.signature.name == name), None)
    if item is None:
        return None
    return _ask_vendor(request, operations, client, params, item, arguments or {})


def read_resource(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the contents of a resource; None where the release has none at this address."""
    uri = params.get("uri")
    item = find_resource(operations, uri)
    if item is None:
        return None
    arguments = {URI: uri} if item.signature.kind == "resource_template" else {}
    return _ask_vendor(request, operations, client, params, item, arguments)


def find_resource(operations: Operations, uri: object) -> ReleasedTool | None:
    """Return the pinned resource with this address, or the pinned template that it fits."""
    for item in _items(operations, "resource"):
        if vendor_id(item.tool_id) == uri:
            return item
    for item in _items(operations, "resource_template"):
        if isinstance(uri, str) and uri_templates.fits(vendor_id(item.tool_id), uri):
            return item
    return None


def _items(operations: Operations, kind: ContextKind) -> list[ReleasedTool]:
    return [item for item in operations.visible_document().context if item.signature.kind == kind]


def _entry(item: ReleasedTool) -> dict[str, Any]:
    signature = item.signature
    title = signature.title or signature.wire_name
    return {
        "name": signature.name,
        **({"title": title} if title != signature.name else {}),
        **({"description": signature.description} if signature.description else {}),
    }


def _arguments(item: ReleasedTool) -> list[dict[str, Any]]:
    return [
        {
            "name": tool_input.shown_name,
            **({"title": tool_input.parameter.title} if tool_input.parameter.title else {}),
            **({"description": tool_input.parameter.description} if tool_input.parameter.description else {}),
            "required": tool_input.is_required,
        }
        for tool_input in item.signature.inputs
    ]


def _media_type(item: ReleasedTool) -> dict[str, Any]:
    stated = (item.signature.outputs_rest or {}).get(MEDIA_TYPE)
    return {"mimeType": stated} if stated else {}


def _ask_vendor(
    request: Request,
    operations: Operations,
    client: Client,
    params: Mapping[str, Any],
    item: ReleasedTool,
    arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the result, or what the vendor asks the user of the client. Raises RpcError, DomainError."""
    try:
        answer = _run(request, operations, client, params, item, arguments)
    except UnknownToolError as error:
        raise RpcError(INVALID_PARAMS, error.message) from error
    if answer.outcome == "ok" and not answer.result.cut:
        return dict(answer.result.outputs)
    if required := tools.questions_of(answer, client):
        return required
    raise _error(answer, client, params)


def _run(
    request: Request,
    operations: Operations,
    client: Client,
    params: Mapping[str, Any],
    item: ReleasedTool,
    arguments: Mapping[str, Any],
) -> Answer:
    user = tools.user_of_agent(request, params)
    side = CallerSide(has_left=request.has_left if client.is_modern else None, questions=client.kinds)
    if stopped := questions.continued_call(params):
        call, answers = stopped
        operations.refuse_other_user(call, user)
        name = item.signature.name
        return operations.resume(call, name, answers, format_=tools.FORMAT, side=side, mark=client.mark)
    return operations.run(
        Wish(
            tool=item.signature.name,
            arguments=arguments,
            format_=tools.FORMAT,
            is_confirmed=True,
            on_behalf_of=user,
            mark=client.mark,
            is_of_context=True,
            side=side,
        )
    )


def _error(answer: Answer, client: Client, params: Mapping[str, Any]) -> RpcError:
    code, message = explain_failure(answer)
    fields = (answer.result.error or {}).get("fields")
    data = {"code": code, **({"fields": fields} if fields else {})}
    if code == "NOT_FOUND" and "uri" in params:
        number = INVALID_PARAMS if client.is_modern else RESOURCE_NOT_FOUND
        return RpcError(number, message, {"uri": params["uri"], **data})
    is_callers = answer.outcome == "invalid_arguments" or code == "NOT_FOUND"
    return RpcError(INVALID_PARAMS if is_callers else INTERNAL_ERROR, message, data)
