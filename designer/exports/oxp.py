"""The list of tools as an OXP server would return it, `{"items": [...]}` in both revisions of the
protocol. docs/decisions/0006-exports.md settles what the drafts leave open."""

import hashlib
import re
from collections import Counter
from functools import partial
from typing import Any

from designer.exports import contracts, inputs
from designer.exports.base import Format, FormatLimits
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.parts import ToolPaths
from protocols.oxp import document

CONTRACT = contracts.load("oxp")
LIMITS = FormatLimits(
    source="https://github.com/OpenExecProtocol/Specification, OXP 1.0 draft, ToolDefinition",
    date="2026-11-22",
    carries=frozenset({"outputs", "defaults", "rules", "schemas"}),
    outputs_are_objects=True,
    contract=CONTRACT,
)
_ID = re.compile(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_MAJOR = re.compile(r"[0-9]{1,18}")


def write(release: ReleaseDocument) -> object:
    claims = Counter(wanted_id(tool).lower() for tool in release.tools)
    return {
        "items": [write_tool(tool, is_shared=claims[wanted_id(tool).lower()] > 1) for tool in release.tools]
    }


def write_tool(tool: ReleasedTool, *, is_shared: bool) -> dict[str, Any]:
    signature, version, identity = tool.signature, tool.version.label, wanted_id(tool)
    if not _VERSION.fullmatch(version):
        # A single number, the vendor's or else ours, becomes the first of three.
        version = f"{version if _MAJOR.fullmatch(version) else tool.version.ordinal}.0.0"
    if is_shared:
        identity += "_" + hashlib.sha256(f"{tool.endpoint}\0{tool.tool_id}".encode()).hexdigest()[:8]
    # A tool that declares no outputs may return any value.
    outputs: dict[str, Any] = {}
    if signature.outputs or signature.outputs_rest is not None:
        outputs = inputs.write_outputs(signature, CONTRACT).schema
    return document.compose(
        identity,
        version,
        name=signature.name,
        description=signature.description,
        input_schema=inputs.write(signature, CONTRACT).schema,
        output_schema=outputs,
        # Calls request the scopes, which need the name of the provider.
        requirements=document.write_requirements(signature.requirements),
    )


def wanted_id(tool: ReleasedTool) -> str:
    """Return toolkit and tool, without a version."""
    # Ids of another protocol may contain any character, so the name for models replaces them.
    if tool.protocol == "oxp" and _ID.fullmatch(tool.tool_id):
        return tool.tool_id
    return ".".join(re.sub("[^A-Za-z0-9_]", "_", name) for name in (tool.vendor, tool.signature.name))


FORMAT = Format(
    name="oxp",
    label="Open Execution Protocol",
    limits=LIMITS,
    write=write,
    wire=partial(inputs.wire_both_ways, contract=CONTRACT),
    places=ToolPaths(tools=("items",), inputs=("input_schema",), outputs=("output_schema",)),
)
