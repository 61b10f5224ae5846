"""A tool listing as a strict A2T (N-ACT) server would answer it.

Parameter names are the vendor's, because A2T allows any text there and a call goes out with them;
an input that a designer named goes by that name. `id` is the vendor's.
The tool name is the model's, because names must differ within one listing. What the drafts leave
open is settled in docs/decisions/0006-exports.md.
"""

import re
import uuid
from collections import Counter
from typing import Any

from msgspec import structs

from designer.exports import schema, transfers
from designer.exports.base import Format, Limits, lists_values
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.parts import Places
from designer.exports.wire import Wire, by_vendors_name
from designer.signatures.effective import Effective
from protocols.signature import Parameter

LIMITS = Limits(
    source="https://datatracker.ietf.org/doc/html/draft-rosenberg-aiproto-a2t-00 section 6.1",
    date="2026-11-21",
    carries=frozenset({"outputs", "img", "tags"}),
    tool_description=1999,
    input_types=frozenset({"string", "int", "boolean", "enum"}),
    output_types=frozenset({"string", "int", "boolean", "enum", "json"}),
    enum_value=re.compile(r"(?=.{1,255}\Z)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*"),
    enum_description=2000,
    whole_bounds=True,
    needs_output=True,
)
# The output of a tool that declares none.
RESULT = "result"
NO_OUTPUTS = {
    "id": RESULT,
    "name": RESULT,
    "type": "json",
    "description": "What the tool answers. Its vendor declares no outputs.",
}
_NO_OUTPUTS_OF_TRANSFER = NO_OUTPUTS | {"description": "Nothing: another agent takes over."}
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def write(release: ReleaseDocument) -> object:
    # UUIDs are compared without regard to case (RFC 9562, section 4).
    seen = Counter(tool.tool_id.lower() for tool in release.tools)
    return {
        "items": [_signature(tool, is_shared=seen[tool.tool_id.lower()] > 1) for tool in release.tools],
        # All on one page: a list that may change between two pages would not be one release.
        "paging": {"pageLimit": len(release.tools)},
    }


def _signature(tool: ReleasedTool, *, is_shared: bool) -> dict[str, Any]:
    signature = tool.signature
    # The vendor's number; where the vendor has none, ours.
    label = tool.version.label
    is_numbered = label.isascii() and label.isdigit() and int(label) > 0
    version = int(label) if is_numbered else tool.version.ordinal
    is_transfer = signature.kind == transfers.KIND
    none = _NO_OUTPUTS_OF_TRANSFER if is_transfer else NO_OUTPUTS
    written: dict[str, Any] = {
        "toolId": identity(tool, is_shared=is_shared),
        "name": signature.name,
        "description": signature.description,
        "version": version,
        "currentVersion": version,
        "input_parameters": [
            _parameter(shown.parameter, is_input=True)
            | {"name": shown.shown_name, "required": shown.is_required}
            for shown in signature.inputs
        ],
        "output_parameters": [_parameter(output.parameter) for output in signature.outputs] or [none],
    }
    if schema.is_web_address(signature.img):
        written["img"] = signature.img
    if signature.tags:
        written["tags"] = list(signature.tags)
    if is_transfer:
        written["tags"] = [transfers.KIND]
    return written


def identity(tool: ReleasedTool, *, is_shared: bool = False) -> str:
    """The vendor's own id where it is a UUID of this tool alone, else a UUIDv5 of its address."""
    if _UUID.fullmatch(tool.tool_id) and not is_shared:
        return tool.tool_id
    # Of the address, so that the id is the same in every release.
    address = f"{tool.endpoint.rstrip('/')}/tools/{tool.tool_id}"
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{address}#{tool.id}" if is_shared else address))


def wire(tool: Effective) -> Wire:
    """Parameters go by the vendor's names; what a tool without outputs answers goes below the one it gets."""
    names = by_vendors_name(tool)
    return names if tool.outputs else structs.replace(names, whole_output=RESULT)


def _parameter(parameter: Parameter, *, is_input: bool = False) -> dict[str, Any]:
    # An enum that lists nothing is any text; only an output may be one.
    is_any_text = is_input and parameter.type == "enum" and not parameter.allowed_values
    if is_any_text or not lists_values(parameter, LIMITS):
        return _told_in_words(parameter)
    written: dict[str, Any] = {
        "id": parameter.id,
        "name": parameter.name,
        "type": parameter.type,
        "description": parameter.description,
    }
    if parameter.allowed_values:
        written["allowed-values"] = [
            {"name": value.name, "description": value.description} for value in parameter.allowed_values
        ]
    return written | _limits(parameter)


def _limits(parameter: Parameter) -> dict[str, int]:
    # Only what the vendor sent: a maximum by default stays a default.
    if parameter.type == "string" and parameter.max_length is not None:
        return {"max-length": parameter.max_length}
    if parameter.type != "int":
        return {}
    bounds = {"min": parameter.min, "max": None if parameter.max_defaulted else parameter.max}
    return {member: int(bound) for member, bound in bounds.items() if bound is not None}


def _told_in_words(parameter: Parameter) -> dict[str, Any]:
    # Renaming a value would break the call, so the type is text and the description lists the values.
    values = [
        f"- {v.name}: {v.description}" if v.description else f"- {v.name}" for v in parameter.allowed_values
    ]
    lines = [parameter.description, "Allowed values:", *values] if values else [parameter.description]
    return {
        "id": parameter.id,
        "name": parameter.name,
        "type": "string" if parameter.type == "enum" else parameter.type,
        "description": "\n".join(line for line in lines if line),
        **_limits(parameter),
    }


FORMAT = Format(
    name="a2t",
    label="A2T / N-ACT",
    limits=LIMITS,
    write=write,
    wire=wire,
    places=Places(tools=("items",), inputs=("input_parameters",), outputs=("output_parameters",)),
)
