"""`completion/complete`: the values of an enum that begin with what a user has typed.

A tool is named with a reference of the type `ref/tool`, which is Pegboard's own: MCP completes arguments of
prompts and resource templates alone. Arguments of vendors' prompts and templates have no values here: each
keystroke would be a request to the vendor.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from collections.abc import Mapping, Sequence
from typing import Any

from protocols.mcp import uri_templates
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RefusedRequestError
from protocols.mcp.server.release import McpRelease
from protocols.mcp.wire import INVALID_PARAMS
from protocols.server import ServerRequest

MAX_VALUES = 100  # as the specification has it


def complete(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return completions of an argument. Raises RpcError for an unknown prompt, tool or argument."""
    ref, argument = params.get("ref"), params.get("argument")
    if not isinstance(ref, dict) or not isinstance(argument, dict):
        raise RefusedRequestError(INVALID_PARAMS, "“ref” and “argument” have to be objects.")
    name, typed_text = argument.get("name"), argument.get("value", "")
    if not isinstance(name, str) or not isinstance(typed_text, str):
        raise RefusedRequestError(INVALID_PARAMS, "“argument” needs a “name” and a “value”, which are texts.")
    values_by_name = _values_by_argument(release, ref)
    if name not in values_by_name:
        raise RefusedRequestError(INVALID_PARAMS, "There is no such argument.")
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


def _values_by_argument(release: McpRelease, ref: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return the values to choose from, by argument. Raises RpcError for an unknown reference."""
    values: Mapping[str, Sequence[str]] | None = None
    kind = ref.get("type")
    name = ref.get("uri" if kind == "ref/resource" else "name")
    if not isinstance(name, str):
        values = None
    elif kind == "ref/tool":
        values = release.input_values(name)
    elif kind == "ref/prompt":
        prompts = [item for item in release.context_items() if item.kind == "prompt"]
        by_name: dict[str, Mapping[str, Sequence[str]]] = {
            item.name: {argument.name: () for argument in item.arguments} for item in prompts
        }
        for procedure in release.procedures():
            by_name[procedure.slug] = {row.name: row.values for row in procedure.arguments.values()}
        values = by_name.get(name)
    elif kind == "ref/resource":
        templates = [item.vendor_id for item in release.context_items() if item.kind == "resource_template"]
        values = dict.fromkeys(uri_templates.variables(name), ()) if name in templates else None
    if values is None:
        raise RefusedRequestError(
            INVALID_PARAMS, "“ref” names no prompt, resource template or tool of this release."
        )
    return values
