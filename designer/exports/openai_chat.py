"""The `tools` array of an OpenAI chat completion."""

from functools import partial
from typing import Any

from designer.exports import dialects, root_rules, schema
from designer.exports.base import Format, Limits
from designer.exports.dialects import Dialect
from designer.exports.document import ReleaseDocument
from designer.exports.parts import Places
from designer.signatures.effective import Effective

LIMITS = Limits(
    source="openai-python 3.52.0, types/shared_params/function_definition.py; "
    "https://platform.openai.com/docs/guides/structured-outputs",
    date="2026-11-21",
    carries=frozenset({"defaults", "rules", "schemas"}),
    dialect=Dialect(refused_at_top=root_rules.REFUSED),
    advised_description=1024,
    advised_tools=128,
)
STRICT_ENUM_VALUES = 1000
# An enum of more values than the first may have names of so many characters together.
STRICT_LONG_ENUM = (250, 15_000)


def write(release: ReleaseDocument) -> object:
    return [{"type": "function", "function": function(tool.signature)} for tool in release.tools]


def function(tool: Effective) -> dict[str, Any]:
    """A tool as both of OpenAI's interfaces have it."""
    # The strict subset asks for the list of required keys even when it is empty.
    parameters = {"required": []} | dialects.inputs(tool, LIMITS.dialect).schema
    written: dict[str, Any] = {"name": tool.name, "parameters": parameters, "strict": is_strict(tool)}
    if tool.description:
        written["description"] = tool.description
    return written


def is_strict(tool: Effective) -> bool:
    """Whether the schema is within the strict subset without a change."""
    # Widening an optional input to "required or null" would qualify more tools, but then the model
    # sends nulls that the vendor never asked for. So a tool with an optional input is not strict.
    enums = [[value.name for value in shown.parameter.allowed_values] for shown in tool.inputs]
    many, longest = STRICT_LONG_ENUM
    return (
        not schema.is_open(tool)
        and all(
            shown.is_required
            and shown.parameter.type != "json"
            and shown.parameter.schema is None
            and not shown.parameter.unsupported_type
            and shown.parameter.max_length is None
            and "default" not in schema.of_input(shown)
            for shown in tool.inputs
        )
        and sum(map(len, enums)) <= STRICT_ENUM_VALUES
        and all(len(enum) <= many or sum(map(len, enum)) <= longest for enum in enums)
    )


FORMAT = Format(
    name="openai-chat",
    label="OpenAI chat completions",
    limits=LIMITS,
    write=write,
    wire=partial(dialects.wire, dialect=LIMITS.dialect),
    places=Places(
        tools=(),
        name=("function", "name"),
        description=("function", "description"),
        inputs=("function", "parameters"),
    ),
)
