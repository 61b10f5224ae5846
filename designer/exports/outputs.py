"""The outputs of a tool that a model answers itself, by the names of each format."""

from typing import Any

from msgspec import structs

from core.schema import inlining
from designer import exports
from designer.exports import json_schema, schema
from designer.exports.wire import outputs_of_the_caller
from designer.signatures.effective import Effective


def schema_of(tool: Effective, format_: str = "") -> dict[str, Any]:
    """Return the schema of the outputs by the names of a format, `json-schema` by default."""
    target = exports.get(format_) if format_ else json_schema.FORMAT
    names = target.wire(tool)
    aliases = {vendor_name: name for name, vendor_name in names.outputs.items()}
    renamed = tuple(
        structs.replace(output, alias=aliases.get(output.parameter.name, output.alias))
        for output in tool.outputs
    )
    output_schema = schema.of_outputs(structs.replace(tool, outputs=renamed))
    # A vendor may leave out what it declares. A model that answers in its place may not.
    required = [output.alias for output in renamed if output.parameter.required]
    if tool.outputs_rest is None and required and output_schema.get("type") == "object":
        output_schema = output_schema | {"required": required}
    if names.whole_output:
        output_schema = {
            **schema.below(names.whole_output, output_schema),
            # The output that contains all others cannot be absent.
            "required": [names.whole_output],
        }
    return inlining.inlined(output_schema)[0] if target.limits.contract.refuses_references else output_schema


def by_signature(tool: Effective, given: dict[str, Any], format_: str = "") -> dict[str, Any]:
    """Return outputs that fit this schema, by the names of the signature."""
    target = exports.get(format_) if format_ else json_schema.FORMAT
    return outputs_of_the_caller(tool, target.wire(tool), given)
