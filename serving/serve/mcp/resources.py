"""Resources of a release: those of vendors, and its procedures once more, for clients whose user chooses what
goes into the context."""

from collections.abc import Mapping
from typing import Any

from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RpcError
from protocols.mcp.wire import INVALID_PARAMS, RESOURCE_NOT_FOUND
from protocols.server import Request
from serving.serve.base import Operations
from serving.serve.mcp import context

MARKDOWN = "text/markdown"


def listed(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    _refuse_cursor(params)
    agent = operations.shown().agent.name
    return {
        "resources": [
            {
                "uri": uri,
                "name": each.slug,
                "title": each.title,
                "description": f"How {agent} works with these tools: {each.title}",
                "mimeType": MARKDOWN,
            }
            for uri, each in _by_uri(operations).items()
        ]
        + context.resources(operations)
    }


def templates(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    _refuse_cursor(params)
    return {"resourceTemplates": context.templates(operations)}


def found(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    uri = params.get("uri")
    procedure = _by_uri(operations).get(uri) if isinstance(uri, str) else None
    if procedure is None:
        if answer := context.read_resource(request, operations, client, params):
            return answer
        number = INVALID_PARAMS if client.is_modern or not isinstance(uri, str) else RESOURCE_NOT_FOUND
        message = "There is no such resource. “resources/list” names those there are."
        raise RpcError(number, message, {"uri": uri})
    return {"contents": [{"uri": uri, "mimeType": MARKDOWN, "text": procedure.text}]}


def _by_uri(operations: Operations) -> dict[str, Any]:
    shown = operations.shown()
    return {f"procedure://{shown.agent.slug}/{each.slug}": each for each in shown.procedures}


def _refuse_cursor(params: Mapping[str, Any]) -> None:
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "All of them are on the first page. Ask without a cursor.")
