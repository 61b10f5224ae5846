"""The `tools` array of an OpenAI chat completion."""

from functools import partial
from typing import Any

from designer.exports import contracts, inputs, schema
from designer.exports.base import Format, Limits
from designer.exports.contracts import Contract
from designer.exports.document import ReleaseDocument
from designer.exports.parts import Places
from designer.signatures.effective import Effective

CONTRACT = contracts.load("openai-chat")
LIMITS = Limits(
    source="openai-python 3.52.0, types/shared_params/function_definition.py; "
    "https://platform.openai.com/docs/guides/structured-outputs",
    date="2026-11-21",
    carries=frozenset({"defaults", "rules", "schemas"}),
    contract=CONTRACT,
    advised_description=CONTRACT.most("description_length"),
    advised_tools=CONTRACT.most("tool_count"),
)
# A function may be strict only within these sizes.
_SUBSET = contracts.load("openai-strict").subset


def write(release: ReleaseDocument) -> object:
    return [{"type": "function", "function": function(tool.signature, CONTRACT)} for tool in release.tools]


def function(tool: Effective, contract: Contract) -> dict[str, Any]:
    """A tool as both of OpenAI's interfaces have it."""
    # The strict subset asks for the list of required keys even when it is empty.
    parameters = {"required": []} | inputs.write(tool, contract).schema
    written: dict[str, Any] = {"name": tool.name, "parameters": parameters, "strict": is_strict(tool)}
    if tool.description:
        written["description"] = tool.description
    return written


def is_strict(tool: Effective) -> bool:
    """Whether the schema is within the strict subset without a change."""
    # Widening an optional input to "required or null" would qualify more tools, but then the model
    # sends nulls that the vendor never asked for. So a tool with an optional input is not strict.
    enums = [[value.name for value in shown.parameter.allowed_values] for shown in tool.inputs]
    return (
        _SUBSET is not None
        and not schema.is_open(tool)
        and all(
            shown.is_required
            and shown.parameter.type != "json"
            and shown.parameter.schema is None
            and not shown.parameter.unsupported_type
            and shown.parameter.max_length is None
            and "default" not in schema.of_input(shown)
            for shown in tool.inputs
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
    places=Places(
        tools=(),
        name=("function", "name"),
        description=("function", "description"),
        inputs=("function", "parameters"),
    ),
)
