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


def listed(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "All prompts are on the first page. Ask without a cursor.")
    shown = operations.shown()
    procedures = [_listed_prompt(each, shown) for each in shown.procedures]
    return {"prompts": procedures + context.prompts(operations)}


def _listed_prompt(procedure: ReleasedProcedure, shown: ReleaseDocument) -> dict[str, Any]:
    prompt: dict[str, Any] = {
        "name": procedure.slug,
        "title": procedure.title,
        "description": f"How {shown.agent.name} works with these tools: {procedure.title}",
    }
    if arguments := arguments_of(procedure, shown):
        prompt["arguments"] = [
            {"name": each.name, "description": each.description, "required": False}
            for each in arguments.values()
        ]
    return prompt


def found(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    procedures = {each.slug: each for each in operations.shown().procedures}
    name = params.get("name")
    procedure = procedures.get(name) if isinstance(name, str) else None
    if procedure is None:
        if answer := context.get_prompt(request, operations, client, params):
            return answer
        raise RpcError(INVALID_PARAMS, "There is no such prompt. “prompts/list” names those there are.")
    given = params.get("arguments") or {}
    if not isinstance(given, dict):
        raise RpcError(INVALID_PARAMS, "“arguments” is no object.")
    if faults := faults_in(given, arguments_of(procedure, operations.shown())):
        raise RpcError(INVALID_PARAMS, "Some arguments do not fit.", {"fields": faults})
    text = {"type": "text", "text": with_values(procedure.text, given.items())}
    return {"description": procedure.title, "messages": [{"role": "user", "content": text}]}
