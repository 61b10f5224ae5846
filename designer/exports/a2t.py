"""A tool listing as a strict A2T (N-ACT) server would return it.

Parameters have the vendor's names, because A2T allows any text there and calls use the same names. An input
that a designer named has that name. `id` is the vendor's. The tool has the name for models, because names
must differ within one listing. docs/decisions/0006-exports.md settles what the drafts leave open.
"""

import re
import uuid
from collections import Counter
from typing import Any

from msgspec import structs

from core.schema import spelling
from designer.exports import contracts, root_rules, schema, transfers
from designer.exports.base import Format, FormatLimits, lists_values
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.parts import ToolPaths
from designer.exports.wire import Wire, by_vendors_name
from designer.signatures.effective import Effective, EffectiveInput
from protocols import parameters
from protocols.a2t import document
from protocols.a2t.wire import INPUTS, OUTPUTS, page
from protocols.list_pages import UUID
from protocols.signature import Parameter

CONTRACT = contracts.load("a2t")


def with_listed_members(tool: Effective) -> Effective:
    """Return the tool with an input for each member that its schema lists in a reference or an `allOf`, or
    requires without listing it. Return the tool itself if there is none."""
    other_keywords = tool.schema_rest or {}
    input_schema = schema.of_inputs(tool)
    if not other_keywords.keys() & {"$ref", "allOf"} and not spelling.undeclared_required(input_schema):
        return tool
    flat = root_rules.flatten(input_schema)
    required, declared = spelling.required_of(flat), {visible.alias for visible in tool.inputs}
    more = {name: member for name, member in spelling.properties_of(flat).items() if name not in declared}
    more |= {name: {} for name in required if name not in declared and name not in more}
    added = parameters.read_schema(
        {"type": "object", "properties": more, "required": required}, "input", whole_name="input"
    )
    inputs = [
        structs.replace(visible, parameter=structs.replace(visible.parameter, required=True))
        if visible.alias in required
        else visible
        for visible in tool.inputs
    ]
    inputs += [EffectiveInput(alias=parameter.name, parameter=parameter) for parameter in added.parameters]
    remaining_keywords = {
        keyword: value for keyword, value in flat.items() if keyword not in parameters.DERIVED
    }
    return structs.replace(tool, inputs=tuple(inputs), schema_rest=remaining_keywords)


LIMITS = FormatLimits(
    source="https://datatracker.ietf.org/doc/html/draft-rosenberg-aiproto-a2t-00 section 6.1",
    date="2026-11-21",
    carries=frozenset({"outputs", "img", "tags"}),
    tool_description=CONTRACT.limit_of("description_length"),
    contract=CONTRACT,
    as_listed=with_listed_members,
    input_types=frozenset({"string", "int", "boolean", "enum"}),
    output_types=frozenset({"string", "int", "boolean", "enum", "json"}),
    enum_value=re.compile(r"(?=.{1,255}\Z)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*"),
    enum_description=2000,
    whole_bounds=True,
    needs_output=True,
)
_NO_OUTPUT_OF_TRANSFER = structs.replace(document.NO_OUTPUT, description="Nothing: another agent takes over.")


def write(release: ReleaseDocument) -> object:
    # UUIDs are compared without regard to case (RFC 9562, section 4).
    id_counts = Counter(tool.tool_id.lower() for tool in release.tools)
    tools = [write_tool(tool, is_shared=id_counts[tool.tool_id.lower()] > 1) for tool in release.tools]
    # All on one page: a list that may change between two pages would not be one release.
    return page(tools, len(tools))


def write_tool(tool: ReleasedTool, *, is_shared: bool) -> dict[str, Any]:
    signature, label = with_listed_members(tool.signature), tool.version.label
    # The vendor's version number; if it has none, the catalog's.
    is_numbered = label.isascii() and label.isdigit() and int(label) > 0
    is_transfer = signature.kind == transfers.KIND
    inputs = _write_inputs(signature)
    outputs = [_write_parameter(output.parameter, output.parameter.name) for output in signature.outputs]
    if not outputs:
        outputs = [_NO_OUTPUT_OF_TRANSFER if is_transfer else document.NO_OUTPUT]
    return document.compose(
        identity(tool, is_shared=is_shared),
        label if is_numbered else str(tool.version.ordinal),
        name=signature.name,
        description=signature.description,
        inputs=[document.write_parameter(parameter, is_input=True, is_strict=True) for parameter in inputs],
        outputs=[
            document.write_parameter(parameter, is_input=False, is_strict=True) for parameter in outputs
        ],
        img=signature.img if schema.is_web_address(signature.img) else "",
        tags=(transfers.KIND,) if is_transfer else signature.tags,
    )


def identity(tool: ReleasedTool, *, is_shared: bool = False) -> str:
    """Return the vendor's id if it is a UUID of this tool alone, else a UUIDv5 of its address."""
    if UUID.fullmatch(tool.tool_id) and not is_shared:
        return tool.tool_id
    # Derived from the address, so that the id is the same in every release.
    address = f"{tool.endpoint.rstrip('/')}/tools/{tool.tool_id}"
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{address}#{tool.id}" if is_shared else address))


def wire(tool: Effective) -> Wire:
    """Return the mapping of the vendor's names. A tool without outputs has one output in the listing,
    which contains its result."""
    names = by_vendors_name(tool)
    return names if tool.outputs else structs.replace(names, whole_output=document.RESULT)


def accepted(tool: Effective) -> dict[str, Any]:
    """Return the JSON Schema of `input_parameters`."""
    listed_parameters = _write_inputs(with_listed_members(tool))
    return {
        "type": "object",
        "properties": {parameter.name: schema.of_parameter(parameter) for parameter in listed_parameters},
        "required": [parameter.name for parameter in listed_parameters if parameter.required],
    } | ({"additionalProperties": False} if tool.schema_rest is None else {})


def _write_inputs(tool: Effective) -> list[Parameter]:
    return [
        _write_parameter(visible.parameter, visible.shown_name, required=visible.is_required, is_input=True)
        for visible in tool.inputs
    ]


def _write_parameter(
    parameter: Parameter, name: str, *, required: bool = False, is_input: bool = False
) -> Parameter:
    """Return the parameter with only what the drafts have a member for."""
    kind, values, description = parameter.type, parameter.allowed_values, parameter.description
    # An enum that lists nothing is any text; only an output may be one.
    is_any_text = is_input and kind == "enum" and not values
    if is_any_text or not lists_values(parameter, LIMITS):
        # Renaming a value would break the call, so the type is text and the description lists the values.
        kind = "string" if kind == "enum" else kind
        lines = [f"- {v.name}: {v.description}" if v.description else f"- {v.name}" for v in values]
        lines = [description, *(["Allowed values:"] if values else []), *lines]
        description, values = "\n".join(filter(None, lines)), ()
    is_int = parameter.type == "int"
    return Parameter(
        id=parameter.id,
        name=name,
        type=kind,
        required=required,
        description=description,
        allowed_values=values,
        min=_whole_number(parameter.min) if is_int else None,
        # Only a maximum that the vendor sent: one by default stays a default.
        max=_whole_number(parameter.max) if is_int and not parameter.max_defaulted else None,
        max_length=parameter.max_length if parameter.type == "string" else None,
    )


def _whole_number(bound: float | None) -> int | None:
    return None if bound is None else int(bound)


FORMAT = Format(
    name="a2t",
    label="A2T / N-ACT",
    limits=LIMITS,
    write=write,
    wire=wire,
    accepts=accepted,
    places=ToolPaths(tools=("items",), inputs=(INPUTS,), outputs=(OUTPUTS,)),
)
