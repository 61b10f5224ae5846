"""What a model gives that answers for a tool itself, by the names of each format."""

from typing import Any

from msgspec import structs

from designer import exports
from designer.exports import inlining, json_schema, schema
from designer.exports.wire import outputs_of_the_caller
from designer.signatures.effective import Effective


def schema_of(tool: Effective, format_: str = "") -> dict[str, Any]:
    """By the names that outputs come back by in this format; without one, in `json-schema`."""
    spoken = exports.get(format_) if format_ else json_schema.FORMAT
    names = spoken.wire(tool)
    called = {theirs: name for name, theirs in names.outputs.items()}
    named = tuple(
        structs.replace(each, alias=called.get(each.parameter.name, each.alias)) for each in tool.outputs
    )
    written = schema.of_outputs(structs.replace(tool, outputs=named))
    # A vendor may leave out what it declares. A model that answers in its place may not.
    needed = [each.alias for each in named if each.parameter.required]
    if tool.outputs_rest is None and needed and written.get("type") == "object":
        written = written | {"required": needed}
    if names.whole_output:
        written = {
            **schema.below(names.whole_output, written),
            # There is no way to leave out all there is.
            "required": [names.whole_output],
        }
    return inlining.inlined(written)[0] if spoken.limits.contract.refuses_references else written


def by_signature(tool: Effective, given: dict[str, Any], format_: str = "") -> dict[str, Any]:
    """What fits that schema, by the names of the signature."""
    spoken = exports.get(format_) if format_ else json_schema.FORMAT
    return outputs_of_the_caller(tool, spoken.wire(tool), given)
