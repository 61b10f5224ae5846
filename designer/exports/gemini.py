"""One tool of Gemini's `tools`: the declarations of all functions, with their inputs in JSON Schema.

`parameters` knows a part of OpenAPI alone; `parametersJsonSchema` in its place takes the schema as it is.
"""

from functools import partial
from typing import Any

from designer.exports import contracts, inputs, schema
from designer.exports.base import Format, FormatLimits
from designer.exports.document import ReleaseDocument
from designer.exports.parts import ToolPaths
from designer.signatures.effective import Effective

CONTRACT = contracts.load("gemini")
LIMITS = FormatLimits(
    source="google-genai 3.4.0, types.py: Tool and FunctionDeclaration; "
    "https://ai.google.dev/gemini-api/docs/function-calling",
    date="2026-11-22",
    carries=frozenset({"outputs", "defaults", "rules", "schemas"}),
    outputs_are_objects=True,
    contract=CONTRACT,
    advised_tools=CONTRACT.limit_of("tool_count"),
)


def write(release: ReleaseDocument) -> object:
    return {"functionDeclarations": [write_tool(tool.signature) for tool in release.tools]}


def write_tool(tool: Effective) -> dict[str, Any]:
    declaration: dict[str, Any] = {"name": tool.name}
    if tool.description:
        declaration["description"] = tool.description
    parameters = inputs.write(tool, CONTRACT).schema
    # A function that takes nothing has no parameters, as an object without properties may be refused.
    if schema.takes_members(parameters):
        declaration["parametersJsonSchema"] = parameters
    if tool.outputs or tool.outputs_rest is not None:
        declaration["responseJsonSchema"] = inputs.write_outputs(tool, CONTRACT).schema
    return declaration


FORMAT = Format(
    name="gemini",
    label="Gemini",
    limits=LIMITS,
    write=write,
    wire=partial(inputs.wire_both_ways, contract=CONTRACT),
    places=ToolPaths(
        tools=("functionDeclarations",), inputs=("parametersJsonSchema",), outputs=("responseJsonSchema",)
    ),
)
