"""`completion/complete`: the values of an enum that begin with what a user has typed.

Prompts are the procedures of the release. A tool is named with a reference of the type `ref/tool`, which is
Pegboard's own: MCP completes arguments of prompts and resource templates alone.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from collections.abc import Mapping, Sequence
from typing import Any

from executor.serve.base import Operations
from executor.serve.mcp.procedure_arguments import arguments_of, values_of
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RpcError
from protocols.mcp.wire import INVALID_PARAMS
from protocols.server import Request

MAX_VALUES = 100  # as the specification has it


def completed(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Raises RpcError for an unknown prompt, tool or argument."""
    ref, argument = params.get("ref"), params.get("argument")
    if not isinstance(ref, dict) or not isinstance(argument, dict):
        raise RpcError(INVALID_PARAMS, "“ref” and “argument” have to be objects.")
    name, typed_text = argument.get("name"), argument.get("value", "")
    if not isinstance(name, str) or not isinstance(typed_text, str):
        raise RpcError(INVALID_PARAMS, "“argument” needs a “name” and a “value”, which are texts.")
    values_by_name = _values_by_argument(operations, ref)
    if name not in values_by_name:
        raise RpcError(INVALID_PARAMS, "There is no such argument.")
    start = typed_text.casefold()
    values = [value for value in values_by_name[name] if value.casefold().startswith(start)]
    first_values = values[:MAX_VALUES]
    return {
        "completion": {
            "values": first_values,
            "total": len(values),
            "hasMore": len(first_values) < len(values),
        }
    }


def _values_by_argument(operations: Operations, ref: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    document, name = operations.shown(), ref.get("name")
    if ref.get("type") == "ref/prompt":
        for procedure in document.procedures:
            if procedure.slug == name:
                arguments = arguments_of(procedure, document)
                return {argument.name: argument.values for argument in arguments.values()}
    elif ref.get("type") == "ref/tool":
        for tool in document.tools:
            if tool.signature.name == name:
                return {given.alias: values_of(given) for given in tool.signature.inputs}
    raise RpcError(INVALID_PARAMS, "“ref” names no prompt and no tool of this release.")
