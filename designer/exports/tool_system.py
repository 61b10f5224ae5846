"""The array of calls that a model fills in, as “The Tool System” composes it: one branch for each tool.

In a published release an activity of the tool's name executes it; `resolve` replaces it by the activity of an
environment. docs/decisions/0006-exports.md settles what the specification leaves open.
"""

from typing import Any

from msgspec import structs

from core.schema import spelling
from designer.exports import contracts, inputs
from designer.exports.base import Format, FormatLimits
from designer.exports.document import ReleaseDocument
from designer.exports.parts import ToolPaths
from designer.exports.wire import Wire
from designer.signatures.effective import Effective

TOOL, ACTIVITY, REASONING, OUTPUT = "_tool", "_activity", "_reasoningForCall", "_output"
CONTRACT = contracts.load("tool-system")
LIMITS = FormatLimits(
    source="https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9",
    date="2026-11-22",
    carries=frozenset({"title", "outputs", "defaults", "rules", "schemas"}),
    outputs_are_objects=True,
    contract=CONTRACT,
)


def write(release: ReleaseDocument) -> object:
    branches = [write_tool(tool.signature) for tool in release.tools]
    return {"calls": {"type": "array", "items": {"anyOf": branches}}}


def write_tool(tool: Effective) -> dict[str, Any]:
    input_schema = inputs.write(tool, CONTRACT).schema
    # A model writes them in this order: the tool, the reason, the arguments.
    properties: dict[str, Any] = {
        TOOL: {"type": "string", "const": tool.name},
        ACTIVITY: {"type": "string", "const": tool.name},
        REASONING: {"type": "string", "description": "Why this call is made."},
        **spelling.properties_of(input_schema),
        OUTPUT: inputs.write_outputs(tool, CONTRACT).schema,
    }
    about = {"type": "object", "title": tool.title, "description": tool.description}
    return {
        **{keyword: text for keyword, text in about.items() if text},
        **{keyword: value for keyword, value in input_schema.items() if keyword not in about},
        "properties": properties,
        "required": [TOOL, *spelling.required_of(input_schema)],
    }


def resolve(branch: dict[str, Any], activity: str) -> None:
    spelling.properties_of(branch)[ACTIVITY]["const"] = activity
    # An activity fills the output in, or else the model.
    if not activity:
        branch["required"] = [*spelling.required_of(branch), OUTPUT]


def wire(tool: Effective) -> Wire:
    names = inputs.wire_both_ways(tool, CONTRACT)
    return structs.replace(names, beside=(TOOL, ACTIVITY, REASONING, OUTPUT))


FORMAT = Format(
    name="tool-system",
    label="The Tool System",
    limits=LIMITS,
    write=write,
    wire=wire,
    resolve=resolve,
    places=ToolPaths(
        tools=("calls", "items", "anyOf"),
        name=("properties", TOOL, "const"),
        inputs=(),
        outputs=("properties", OUTPUT),
    ),
)
