"""Resources of a release: pinned resources of vendors, and the procedures, which are also prompts: some
clients let the user choose the resources that enter the context.
"""

from collections.abc import Mapping
from typing import Any

from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RpcError
from protocols.mcp.wire import INVALID_PARAMS, RESOURCE_NOT_FOUND
from protocols.server import Request
from serving.serve.base import Operations
from serving.serve.mcp import context

MARKDOWN = "text/markdown"


def list_resources(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    _refuse_cursor(params)
    agent = operations.visible_document().agent.name
    return {
        "resources": [
            {
                "uri": uri,
                "name": procedure.slug,
                "title": procedure.title,
                "description": f"How {agent} works with these tools: {procedure.title}",
                "mimeType": MARKDOWN,
            }
            for uri, procedure in _by_uri(operations).items()
        ]
        + context.resources(operations)
    }


def list_templates(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    _refuse_cursor(params)
    return {"resourceTemplates": context.templates(operations)}


def read_resource(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    uri = params.get("uri")
    procedure = _by_uri(operations).get(uri) if isinstance(uri, str) else None
    if procedure is None:
        if answer := context.read_resource(request, operations, client, params):
            return answer
        number = INVALID_PARAMS if client.is_modern or not isinstance(uri, str) else RESOURCE_NOT_FOUND
        message = "There is no such resource. “resources/list” has the addresses of all resources."
        raise RpcError(number, message, {"uri": uri})
    return {"contents": [{"uri": uri, "mimeType": MARKDOWN, "text": procedure.text}]}


def _by_uri(operations: Operations) -> dict[str, Any]:
    document = operations.visible_document()
    return {
        f"procedure://{document.agent.slug}/{procedure.slug}": procedure for procedure in document.procedures
    }


def _refuse_cursor(params: Mapping[str, Any]) -> None:
    if params.get("cursor") is not None:
        raise RpcError(
            INVALID_PARAMS, "All entries are on the first page. Send the request without a cursor."
        )
