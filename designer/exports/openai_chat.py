"""The `tools` array of an OpenAI chat completion."""

from functools import partial
from typing import Any

from designer.exports import contracts, inputs, schema
from designer.exports.base import Format, FormatLimits
from designer.exports.contracts import Contract
from designer.exports.document import ReleaseDocument
from designer.exports.parts import ToolPaths
from designer.signatures.effective import Effective

CONTRACT = contracts.load("openai-chat")
LIMITS = FormatLimits(
    source="openai-python 3.52.0, types/shared_params/function_definition.py; "
    "https://platform.openai.com/docs/guides/structured-outputs",
    date="2026-11-21",
    carries=frozenset({"defaults", "rules", "schemas"}),
    contract=CONTRACT,
    advised_description=CONTRACT.limit_of("description_length"),
    advised_tools=CONTRACT.limit_of("tool_count"),
)
# A function may be strict only within these sizes.
_SUBSET = contracts.load("openai-strict").subset


def write(release: ReleaseDocument) -> object:
    return [{"type": "function", "function": function(tool.signature, CONTRACT)} for tool in release.tools]


def function(tool: Effective, contract: Contract) -> dict[str, Any]:
    """Return the tool as both of OpenAI's interfaces write it."""
    # The strict subset requires the list of required keys even when it is empty.
    parameters = {"required": []} | inputs.write(tool, contract).schema
    document: dict[str, Any] = {"name": tool.name, "parameters": parameters, "strict": is_strict(tool)}
    if tool.description:
        document["description"] = tool.description
    return document


def is_strict(tool: Effective) -> bool:
    """Return whether the schema is within the strict subset without a change."""
    # Widening an optional input to "required or null" would qualify more tools, but then the model
    # sends nulls that the vendor never asked for. So a tool with an optional input is not strict.
    enums = [[value.name for value in visible.parameter.allowed_values] for visible in tool.inputs]
    return (
        _SUBSET is not None
        and not schema.is_open(tool)
        and all(
            visible.is_required
            and visible.parameter.type != "json"
            and visible.parameter.schema is None
            and not visible.parameter.unsupported_type
            and visible.parameter.max_length is None
            and "default" not in schema.of_input(visible)
            for visible in tool.inputs
        )
        and sum(map(len, enums)) <= _SUBSET.enum_values
        and all(
            len(enum) <= _SUBSET.long_enum_values or sum(map(len, enum)) <= _SUBSET.long_enum_characters
            for enum in enums
        )
    )


FORMAT = Format(
    name="openai-chat",
    label="OpenAI chat completions",
    limits=LIMITS,
    write=write,
    wire=partial(inputs.wire, contract=CONTRACT),
    places=ToolPaths(
        tools=(),
        name=("function", "name"),
        description=("function", "description"),
        inputs=("function", "parameters"),
    ),
)
