"""The `tools` array of an Anthropic message."""

from functools import partial
from typing import Any

from designer.exports import contracts, inputs
from designer.exports.base import Format, FormatLimits
from designer.exports.document import ReleaseDocument
from designer.exports.parts import ToolPaths
from designer.signatures.effective import Effective

LIMITS = FormatLimits(
    source="anthropic-sdk-python 2.11.0, types/tool_param.py; "
    "https://docs.anthropic.com/en/docs/agents-and-tools/tool-use",
    date="2026-11-21",
    carries=frozenset({"defaults", "rules", "schemas"}),
    contract=contracts.load("anthropic"),
)


def write(release: ReleaseDocument) -> object:
    return [write_tool(tool.signature) for tool in release.tools]


def write_tool(tool: Effective) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": tool.name,
        "input_schema": inputs.write(tool, LIMITS.contract).schema,
    }
    if tool.description:
        document["description"] = tool.description
    return document


FORMAT = Format(
    name="anthropic",
    label="Anthropic messages",
    limits=LIMITS,
    write=write,
    wire=partial(inputs.wire, contract=LIMITS.contract),
    places=ToolPaths(tools=(), inputs=("input_schema",)),
)
