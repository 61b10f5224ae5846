"""The result of an MCP `tools/list`, valid in the revisions 2025-11-25 and 2026-07-28.

The older one asks for objects as outputs; a vendor's schema for anything else is carried with a warning.
"""

from typing import Any

from designer.effective import Effective
from designer.exports import schema
from designer.exports.base import Format, Limits
from designer.sealed import Sealed

LIMITS = Limits(
    source="https://modelcontextprotocol.io/specification/2026-07-28/server/tools",
    date="2026-11-21",
    carries=frozenset({"title", "outputs", "annotations", "img", "defaults", "rules", "schemas"}),
    advises_objects=True,
)


def write(release: Sealed) -> object:
    # A client may keep nothing: which release is live is ours to say at any moment.
    return {
        "resultType": "complete",
        "tools": [_tool(tool.signature) for tool in release.tools],
        "ttlMs": 0,
        "cacheScope": "private",
    }


def _tool(tool: Effective) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name, "inputSchema": schema.as_the_vendor_does(tool)}
    if tool.title:
        written["title"] = tool.title
    if tool.description:
        written["description"] = tool.description
    if tool.outputs or tool.outputs_rest is not None:
        written["outputSchema"] = schema.of_outputs(tool)
    if annotations := _annotations(tool):
        written["annotations"] = annotations
    if schema.is_web_address(tool.img):
        written["icons"] = [{"src": tool.img}]
    return written


def _annotations(tool: Effective) -> dict[str, bool]:
    said = tool.annotations
    hints = {
        "readOnlyHint": said.read_only,
        "destructiveHint": said.destructive,
        "idempotentHint": said.idempotent,
        "openWorldHint": said.open_world,
    }
    return {hint: value for hint, value in hints.items() if value is not None}


FORMAT = Format(name="mcp", label="Model Context Protocol", limits=LIMITS, write=write)
