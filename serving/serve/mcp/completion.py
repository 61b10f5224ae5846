"""`completion/complete`: the values of an enum that begin with what a user has typed.

A tool is named with a reference of the type `ref/tool`, which is Pegboard's own: MCP completes arguments of
prompts and resource templates alone. Arguments of vendors' prompts and templates have no values here: each
keystroke would be a request to the vendor.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from collections.abc import Mapping, Sequence
from typing import Any

from designer.exports.document import ReleaseDocument
from protocols.mcp import uri_templates
from protocols.mcp.context import vendor_id
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RpcError
from protocols.mcp.wire import INVALID_PARAMS
from protocols.server import Request
from serving.serve.base import Operations
from serving.serve.mcp.procedure_arguments import arguments_of, values_of

MAX_VALUES = 100  # as the specification has it


def complete(
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
    """Return the values to choose from, by argument. Raises RpcError for an unknown reference."""
    document, values = operations.visible_document(), None
    match ref.get("type"):
        case "ref/prompt":
            values = _values_of_prompt(document, ref.get("name"))
        case "ref/resource":
            values = _values_of_template(document, ref.get("uri"))
        case "ref/tool":
            values = _values_of_tool(document, ref.get("name"))
    if values is None:
        message = "“ref” names no prompt, resource template or tool of this release."
        raise RpcError(INVALID_PARAMS, message)
    return values


def _values_of_prompt(document: ReleaseDocument, name: object) -> Mapping[str, Sequence[str]] | None:
    for procedure in document.procedures:
        if procedure.slug == name:
            arguments = arguments_of(procedure, document)
            return {argument.name: argument.values for argument in arguments.values()}
    for item in document.context:
        if item.signature.kind == "prompt" and item.signature.name == name:
            return {argument.shown_name: () for argument in item.signature.inputs}
    return None


def _values_of_template(document: ReleaseDocument, template: object) -> Mapping[str, Sequence[str]] | None:
    for item in document.context:
        if item.signature.kind == "resource_template" and vendor_id(item.tool_id) == template:
            return dict.fromkeys(uri_templates.variables(template), ())
    return None


def _values_of_tool(document: ReleaseDocument, name: object) -> Mapping[str, Sequence[str]] | None:
    for tool in document.tools:
        if tool.signature.name == name:
            return {tool_input.alias: values_of(tool_input) for tool_input in tool.signature.inputs}
    return None
