"""The result of an MCP `tools/list`, valid in the revisions 2025-11-25 and 2026-07-28.

The older revision requires objects as outputs. Any other output is exported below one property, which `_meta`
of the tool states. A client that is known to use the newer one receives the output as it is.
"""

from typing import Any

from msgspec import structs

from designer.exports import contracts, inputs, schema, transfers
from designer.exports.base import Format, FormatLimits
from designer.exports.document import ReleaseDocument
from designer.exports.parts import ToolPaths
from designer.exports.wire import Wire, by_alias, output_of_all
from designer.signatures.effective import Effective
from protocols.mcp import document
from protocols.mcp.wire import WIRE

CONTRACT = contracts.load("mcp")
LIMITS = FormatLimits(
    source="https://modelcontextprotocol.io/specification/2026-07-28/server/tools",
    date="2026-11-21",
    carries=frozenset({"title", "outputs", "annotations", "img", "defaults", "rules", "schemas"}),
    outputs_are_objects=True,
    contract=CONTRACT,
    shows_vendors_schema=True,
)


def write(release: ReleaseDocument) -> object:
    # Clients must not cache the list, because the live release can change at any time.
    return {
        "resultType": "complete",
        "tools": [_write_tool(tool.signature, wire(tool.signature)) for tool in release.tools],
        "ttlMs": 0,
        "cacheScope": "private",
    }


def with_its_output(tool: Effective) -> dict[str, Any]:
    """Return the tool for clients of revision 2026-07-28 only, which accept any schema of outputs."""
    names = wire(tool)
    outputs = {} if output_of_all(tool) else names.outputs
    names = structs.replace(names, outputs=outputs, whole_output="")
    return {**_write_tool(tool, names), "outputSchema": schema.of_outputs(tool)}


def _write_tool(tool: Effective, names: Wire) -> dict[str, Any]:
    tool_document: dict[str, Any] = {
        "name": tool.name,
        "inputSchema": inputs.write_as_the_vendor_does(tool, CONTRACT).schema,
    }
    if tool.title:
        tool_document["title"] = tool.title
    if tool.description:
        tool_document["description"] = tool.description
    if tool.outputs or tool.outputs_rest is not None:
        tool_document["outputSchema"] = inputs.write_outputs(tool, CONTRACT).schema
    if annotations := document.write_hints(tool.annotations):
        tool_document["annotations"] = annotations
    if schema.is_web_address(tool.img):
        tool_document["icons"] = [{"src": tool.img}]
    if mapping := transfers.reverse_mapping(tool, names):
        tool_document["_meta"] = {WIRE: mapping}
    return tool_document


def wire(tool: Effective) -> Wire:
    """Return the mapping. Inputs and outputs that contain all others, and are objects, are exported as
    they are."""
    names = by_alias(tool)
    if schema.is_in_place(tool):
        names = structs.replace(names, inputs={}, whole="")
    return inputs.shows_outputs(names, tool)


FORMAT = Format(
    name="mcp",
    label="Model Context Protocol",
    limits=LIMITS,
    write=write,
    wire=wire,
    accepts=schema.as_the_vendor_does,
    places=ToolPaths(tools=("tools",), inputs=("inputSchema",), outputs=("outputSchema",)),
)
