"""The result of an MCP `tools/list`, valid in the revisions 2025-11-25 and 2026-07-28.

The older one asks for objects as outputs: what is none goes below one member, which `_meta` of the tool says.
Where it is known that a client speaks the newer one, it is shown such an output as it is.
"""

from typing import Any

from msgspec import structs

from designer.exports import contracts, inputs, schema, transfers
from designer.exports.base import Format, Limits
from designer.exports.document import ReleaseDocument
from designer.exports.parts import Places
from designer.exports.wire import Wire, by_alias, output_of_all
from designer.signatures.effective import Effective
from protocols.mcp import document

CONTRACT = contracts.load("mcp")
LIMITS = Limits(
    source="https://modelcontextprotocol.io/specification/2026-07-28/server/tools",
    date="2026-11-21",
    carries=frozenset({"title", "outputs", "annotations", "img", "defaults", "rules", "schemas"}),
    outputs_are_objects=True,
    contract=CONTRACT,
    shows_vendors_schema=True,
)


def write(release: ReleaseDocument) -> object:
    # A client may keep nothing: which release is live is ours to say at any moment.
    return {
        "resultType": "complete",
        "tools": [_tool(tool.signature, wire(tool.signature)) for tool in release.tools],
        "ttlMs": 0,
        "cacheScope": "private",
    }


def with_its_output(tool: Effective) -> dict[str, Any]:
    """The tool for clients of 2026-07-28 alone, with an output that may be anything."""
    names = wire(tool)
    outputs = {} if output_of_all(tool) else names.outputs
    names = structs.replace(names, outputs=outputs, whole_output="")
    return {**_tool(tool, names), "outputSchema": schema.of_outputs(tool)}


def _tool(tool: Effective, names: Wire) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": tool.name,
        "inputSchema": inputs.write_as_the_vendor_does(tool, CONTRACT).schema,
    }
    if tool.title:
        written["title"] = tool.title
    if tool.description:
        written["description"] = tool.description
    if tool.outputs or tool.outputs_rest is not None:
        written["outputSchema"] = inputs.write_outputs(tool, CONTRACT).schema
    if annotations := document.write_hints(tool.annotations):
        written["annotations"] = annotations
    if schema.is_web_address(tool.img):
        written["icons"] = [{"src": tool.img}]
    if way := transfers.way_back(tool, names):
        written["_meta"] = {"pegboard/wire": way}
    return written


def wire(tool: Effective) -> Wire:
    """Inputs and outputs that stand for all, and are objects, are shown as what they are."""
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
    places=Places(tools=("tools",), inputs=("inputSchema",), outputs=("outputSchema",)),
)
