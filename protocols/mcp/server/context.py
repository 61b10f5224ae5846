"""Prompts and resources of a release: its procedures, and the prompts and resources of vendors.

Procedures are also resources, because some clients let the user choose the resources that enter the context.
The texts of vendors come from the MCP server of the vendor that offers them, and from nowhere else. An
address is read if it is pinned, or fits a pinned template. The contents are passed on as data.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from protocols.mcp import uri_templates
from protocols.mcp.context import URI
from protocols.mcp.server import questions, tools
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RefusedRequestError
from protocols.mcp.server.release import ContextItem, McpRelease, ServedProcedure
from protocols.mcp.wire import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from protocols.server import ServerRequest, ToolCallRequest, UnknownToolError
from protocols.signature import ContextKind

MARKDOWN = "text/markdown"
MAX_VALUE_LENGTH = 2000


def list_prompts(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    _refuse_cursor(params, "prompts")
    prompts = []
    for procedure in release.procedures():
        arguments = [
            {"name": argument.name, "description": argument.description, "required": False}
            for argument in procedure.arguments.values()
        ]
        entry = _entry_of_procedure(procedure, release)
        prompts.append({**entry, **({"arguments": arguments} if arguments else {})})
    for item in _items_of_kind(release, "prompt"):
        arguments = [
            {
                "name": argument.name,
                **({"title": argument.title} if argument.title else {}),
                **({"description": argument.description} if argument.description else {}),
                "required": argument.is_required,
            }
            for argument in item.arguments
        ]
        prompts.append({**_entry_of_item(item), **({"arguments": arguments} if arguments else {})})
    return {"prompts": prompts}


def _entry_of_procedure(procedure: ServedProcedure, release: McpRelease) -> dict[str, Any]:
    return {
        "name": procedure.slug,
        "title": procedure.title,
        "description": f"How {release.name} works with these tools: {procedure.title}",
    }


def _entry_of_item(item: ContextItem) -> dict[str, Any]:
    return {
        "name": item.name,
        **({"title": item.title} if item.title != item.name else {}),
        **({"description": item.description} if item.description else {}),
        **({"mimeType": item.media_type} if item.media_type else {}),
    }


def get_prompt(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    name, values = params.get("name"), params.get("arguments")
    procedure = next((row for row in release.procedures() if row.slug == name), None)
    # A procedure accepts any empty value in place of an object.
    if values is not None and not isinstance(values, dict) and (values or procedure is None):
        raise RefusedRequestError(INVALID_PARAMS, "“arguments” is no object.")
    if procedure is None:
        item = next((item for item in _items_of_kind(release, "prompt") if item.name == name), None)
        if item is None:
            message = "There is no such prompt. “prompts/list” has the names of all prompts."
            raise RefusedRequestError(INVALID_PARAMS, message)
        return _ask_vendor(request, release, client, params, item, values or {})
    faults = {}
    for argument, value in (values or {}).items():
        if argument not in procedure.arguments:
            faults[argument[:100]] = "is no argument of this prompt"
        elif not isinstance(value, str) or len(value) > MAX_VALUE_LENGTH:
            faults[argument] = f"must be a text of at most {MAX_VALUE_LENGTH} characters"
    if faults:
        raise RefusedRequestError(INVALID_PARAMS, "Some arguments do not fit.", {"fields": faults})
    text = procedure.text
    lines = [f"- `{name}`: {msgspec.json.encode(value).decode()}" for name, value in (values or {}).items()]
    if lines:
        text = "\n".join([text, "", "The user gave these values:", "", *lines])
    content = {"type": "text", "text": text}
    return {"description": procedure.title, "messages": [{"role": "user", "content": content}]}


def list_resources(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    _refuse_cursor(params, "entries")
    procedures = [
        {"uri": uri, **_entry_of_procedure(procedure, release), "mimeType": MARKDOWN}
        for uri, procedure in _procedures_by_uri(release).items()
    ]
    items = [{"uri": item.vendor_id, **_entry_of_item(item)} for item in _items_of_kind(release, "resource")]
    return {"resources": procedures + items}


def list_templates(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    _refuse_cursor(params, "entries")
    items = _items_of_kind(release, "resource_template")
    return {"resourceTemplates": [{"uriTemplate": item.vendor_id, **_entry_of_item(item)} for item in items]}


def read_resource(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    uri = params.get("uri")
    if isinstance(uri, str):
        if procedure := _procedures_by_uri(release).get(uri):
            return {"contents": [{"uri": uri, "mimeType": MARKDOWN, "text": procedure.text}]}
        if item := find_resource(release.context_items(), uri):
            arguments = {URI: uri} if item.kind == "resource_template" else {}
            return _ask_vendor(request, release, client, params, item, arguments)
    number = INVALID_PARAMS if client.is_modern or not isinstance(uri, str) else RESOURCE_NOT_FOUND
    message = "There is no such resource. “resources/list” has the addresses of all resources."
    raise RefusedRequestError(number, message, {"uri": uri})


def find_resource(items: Iterable[ContextItem], uri: str) -> ContextItem | None:
    """Return the pinned resource with this address, or the pinned template that it fits."""
    template = None
    for item in items:
        if item.kind == "resource" and item.vendor_id == uri:
            return item
        if item.kind == "resource_template" and not template and uri_templates.fits(item.vendor_id, uri):
            template = item
    return template


def _procedures_by_uri(release: McpRelease) -> dict[str, ServedProcedure]:
    return {f"procedure://{release.slug}/{procedure.slug}": procedure for procedure in release.procedures()}


def _items_of_kind(release: McpRelease, kind: ContextKind) -> list[ContextItem]:
    return [item for item in release.context_items() if item.kind == kind]


def _refuse_cursor(params: Mapping[str, Any], entries: str) -> None:
    if params.get("cursor") is not None:
        message = f"All {entries} are on the first page. Send the request without a cursor."
        raise RefusedRequestError(INVALID_PARAMS, message)


def _ask_vendor(
    request: ServerRequest,
    release: McpRelease,
    client: Client,
    params: Mapping[str, Any],
    item: ContextItem,
    arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the result, or what the vendor asks the user of the client. Raises RpcError, DomainError."""
    user, continued = tools.user_of_agent(request, params), questions.continued_call(params)
    call = ToolCallRequest(
        tool_name=item.name,
        arguments=continued[1] if continued else arguments,
        is_confirmed=True,
        user=user,
        mark=client.mark,
        has_left=request.has_left if client.is_modern else None,
        questions=client.kinds,
        is_context=True,
    )
    try:
        result = release.resume(continued[0], call) if continued else release.run(call)
    except UnknownToolError as error:
        raise RefusedRequestError(INVALID_PARAMS, error.message) from error
    if result.is_success:
        return dict(result.outputs)
    if required := questions.questions_of(result, client):
        return required
    number = INTERNAL_ERROR
    data = {"code": result.code, **({"fields": result.fields} if result.fields else {})}
    if result.code == "NOT_FOUND" and "uri" in params:
        number = INVALID_PARAMS if client.is_modern else RESOURCE_NOT_FOUND
        data = {"uri": params["uri"], **data}
    elif result.outcome == "invalid_arguments" or result.code == "NOT_FOUND":
        number = INVALID_PARAMS
    raise RefusedRequestError(number, result.message, data)
