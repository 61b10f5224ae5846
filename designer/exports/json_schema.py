"""Pegboard's plain format: each tool with two JSON Schemas, and the mapping to the vendor's names."""

from typing import Any

from msgspec import UNSET, structs

from designer.exports import contracts, inputs, schema, transfers
from designer.exports.base import MEMBERS, Format, FormatLimits
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.parts import ToolPaths
from designer.exports.wire import Wire, by_alias
from designer.signatures.effective import Effective

CONTRACT = contracts.load("json-schema")
LIMITS = FormatLimits(
    source="https://json-schema.org/draft/2020-12 (ours: no limit beyond the dialect's)",
    date="2026-11-21",
    carries=frozenset(MEMBERS),
    contract=CONTRACT,
)


def write(release: ReleaseDocument) -> object:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "agent": release.agent.slug,
        "release": release.number,
        "tools": [write_tool(tool) for tool in release.tools],
    }


def write_tool(tool: ReleasedTool) -> dict[str, Any]:
    signature = tool.signature
    document: dict[str, Any] = {
        "name": signature.name,
        "description": signature.description,
        "inputs": inputs.write(signature, CONTRACT).schema,
        "outputs": inputs.write_outputs(signature, CONTRACT, wraps_all=True).schema,
        "wire": _wire(tool),
    }
    if signature.title:
        document["title"] = signature.title
    if signature.img:
        document["img"] = signature.img
    if signature.tags:
        document["tags"] = list(signature.tags)
    if hints := schema.hints(signature):
        document["annotations"] = hints
    return document


def _wire(tool: ReleasedTool) -> dict[str, Any]:
    signature, names = tool.signature, wire(tool.signature)
    if signature.kind == transfers.KIND:
        return transfers.reverse_mapping(signature, names)
    mapping = {
        "id": tool.id,
        "vendor": tool.vendor,
        "endpoint": tool.endpoint,
        "protocol": tool.protocol,
        "toolId": tool.tool_id,
        "version": tool.version.label,
        "name": signature.wire_name,
        "inputs": names.inputs,
        "outputs": names.outputs,
        # Values that every call sends for inputs that the model does not see, by the vendor's names.
        "presets": {h.parameter.name: h.preset for h in signature.hidden if h.preset is not UNSET},
    }
    if tool.retry:
        mapping["retry"] = structs.asdict(tool.retry)
    if tool.follows_vendor:
        mapping["mode"] = tool.mode
    if tool.configuration:
        mapping["configuration"] = str(tool.configuration)
    if names.whole:
        mapping["whole"] = names.whole
    if names.whole_output:
        mapping["whole_output"] = names.whole_output
    return mapping


def wire(signature: Effective) -> Wire:
    below = schema.of_outputs_as_an_object(signature, wraps_all=True)[1]
    return structs.replace(by_alias(signature), whole_output=below)


FORMAT = Format(
    name="json-schema",
    label="JSON Schema",
    limits=LIMITS,
    write=write,
    wire=wire,
    places=ToolPaths(tools=("tools",), inputs=("inputs",), outputs=("outputs",)),
)
