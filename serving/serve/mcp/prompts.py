"""Prompts of a release: its procedures, by their slugs, and the prompts of vendors that are pinned."""

from collections.abc import Mapping
from typing import Any

from designer.exports.document import ReleaseDocument, ReleasedProcedure
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RpcError
from protocols.mcp.wire import INVALID_PARAMS
from protocols.server import Request
from serving.serve.base import Operations
from serving.serve.mcp import context
from serving.serve.mcp.procedure_arguments import arguments_of, faults_in, with_values


def list_prompts(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    if params.get("cursor") is not None:
        raise RpcError(
            INVALID_PARAMS, "All prompts are on the first page. Send the request without a cursor."
        )
    document = operations.visible_document()
    procedures = [_prompt(procedure, document) for procedure in document.procedures]
    return {"prompts": procedures + context.prompts(operations)}


def _prompt(procedure: ReleasedProcedure, document: ReleaseDocument) -> dict[str, Any]:
    prompt: dict[str, Any] = {
        "name": procedure.slug,
        "title": procedure.title,
        "description": f"How {document.agent.name} works with these tools: {procedure.title}",
    }
    if arguments := arguments_of(procedure, document):
        prompt["arguments"] = [
            {"name": argument.name, "description": argument.description, "required": False}
            for argument in arguments.values()
        ]
    return prompt


def get_prompt(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    name, document = params.get("name"), operations.visible_document()
    procedure = next((row for row in document.procedures if row.slug == name), None)
    if procedure is None:
        if answer := context.get_prompt(request, operations, client, params):
            return answer
        raise RpcError(
            INVALID_PARAMS, "There is no such prompt. “prompts/list” has the names of all prompts."
        )
    values = params.get("arguments") or {}
    if not isinstance(values, dict):
        raise RpcError(INVALID_PARAMS, "“arguments” is no object.")
    if faults := faults_in(values, arguments_of(procedure, document)):
        raise RpcError(INVALID_PARAMS, "Some arguments do not fit.", {"fields": faults})
    text = {"type": "text", "text": with_values(procedure.text, values.items())}
    return {"description": procedure.title, "messages": [{"role": "user", "content": text}]}
