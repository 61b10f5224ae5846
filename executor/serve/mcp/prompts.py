"""Procedures of a release as prompts: by their slugs, without arguments."""

from collections.abc import Mapping
from typing import Any

from executor.serve.base import Operations
from executor.serve.mcp.clients import Client
from executor.serve.mcp.messages import INVALID_PARAMS, RpcError
from protocols.server import Request


def listed(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "All prompts are on the first page. Ask without a cursor.")
    procedures = operations.shown().procedures
    agent = operations.shown().agent.name
    return {
        "prompts": [
            {
                "name": each.slug,
                "title": each.title,
                "description": f"How {agent} works with these tools: {each.title}",
            }
            for each in procedures
        ]
    }


def found(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    procedures = {each.slug: each for each in operations.shown().procedures}
    name = params.get("name")
    procedure = procedures.get(name) if isinstance(name, str) else None
    if procedure is None:
        raise RpcError(INVALID_PARAMS, "There is no such prompt. “prompts/list” names those there are.")
    text = {"type": "text", "text": procedure.text}
    return {"description": procedure.title, "messages": [{"role": "user", "content": text}]}
