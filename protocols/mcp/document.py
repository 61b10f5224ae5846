"""One tool of MCP: its document and the normal form, both ways.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.value_descriptions import describe_value
from protocols import members
from protocols import parameters as json_schema
from protocols.base import UnreadableItemError
from protocols.mcp import context
from protocols.mcp import headers as mcp_headers
from protocols.mcp.icons import best_icon
from protocols.signature import Annotations, Signature

MAX_TOOL_ID_LENGTH = 255
NAME_LIMIT = 128  # what the protocol recommends; a vendor that goes further is taken and noted

_TOOL_ID = re.compile(rf"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{MAX_TOOL_ID_LENGTH}}}")
_GOOD_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_LIMIT}}}")
HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}


def read_tool_id(document: Mapping[str, Any]) -> str:
    name = document.get("name")
    if isinstance(name, str) and name.strip() and _TOOL_ID.fullmatch(name):
        if context.list_of_id(name):
            reason = f"The name “{printable(name, 60)}” begins as the ids of prompts and resources do here."
            raise UnreadableItemError("RESERVED_NAME", reason)
        return name
    expected = f"text of 1 to {MAX_TOOL_ID_LENGTH} characters without control characters"
    raise members.wrong("name", name, expected, code="BAD_TOOL_ID")


def read_input_schema(document: Mapping[str, Any]) -> dict[str, Any]:
    schema = document.get("inputSchema")
    if isinstance(schema, dict) and schema.get("type") == "object":
        return schema
    description = describe_value(schema)
    if isinstance(schema, dict):
        description = f"a schema of type {describe_value(schema.get('type'))}"
    reason = f"“inputSchema” is {description}; it must be a JSON Schema of type “object”."
    raise UnreadableItemError("BAD_SCHEMA", reason)


def read(document: dict[str, Any]) -> Signature:
    """Return the normal form of a tool. Raises UnreadableItemError."""
    schema = read_input_schema(document)
    if problem := mcp_headers.problem(schema):
        raise UnreadableItemError("BAD_PARAM_HEADER", problem)
    input_shape = json_schema.read(schema, "inputSchema", whole_name="input")
    output_shape = json_schema.Shape((), None)
    if document.get("outputSchema") is not None:
        output_shape = json_schema.read(document["outputSchema"], "outputSchema", whole_name="output")
    annotations = document.get("annotations") or {}
    if not isinstance(annotations, dict):
        raise members.wrong("annotations", annotations, "an object")
    signature = Signature(
        name=read_tool_id(document),
        title=members.text(document, "title") or members.text(annotations, "title", "annotations."),
        description=members.text(document, "description"),
        img=best_icon(document.get("icons")),
        inputs=input_shape.parameters,
        outputs=output_shape.parameters,
        annotations=Annotations(
            **{field: annotations[hint] for hint, field in HINTS.items() if _is_hint(annotations, hint)}
        ),
        schema_rest=input_shape.rest,
        outputs_rest=output_shape.rest,
    )
    return replace(signature, rest=_rest(document, signature) or None)


def _is_hint(annotations: Mapping[str, Any], name: str) -> bool:
    return name in HINTS and isinstance(annotations.get(name), bool)


def _rest(document: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    # The members that `write` would not write by itself.
    rest: dict[str, Any] = {}
    if "annotations" in document:
        annotations = document["annotations"]
        other_annotations = annotations and {
            name: value for name, value in annotations.items() if not _is_hint(annotations, name)
        }
        if other_annotations or not annotations:
            rest["annotations"] = other_annotations
    written = write(replace(signature, rest=rest))
    return rest | {
        member: value
        for member, value in document.items()
        if member != "annotations"
        and (member not in written or canonical(written[member]) != canonical(value))
    }


def write(signature: Signature) -> dict[str, Any]:
    rest = signature.rest or {}
    other_annotations = rest.get("annotations")
    written: dict[str, Any] = {"name": signature.name}
    # A tool without a title of its own is shown under that of its annotations.
    if signature.title and signature.title != (other_annotations or {}).get("title"):
        written["title"] = signature.title
    if signature.description:
        written["description"] = signature.description
    written["inputSchema"] = json_schema.write(signature.inputs, signature.schema_rest)
    if signature.outputs or signature.outputs_rest is not None:
        written["outputSchema"] = json_schema.write(signature.outputs, signature.outputs_rest)
    written |= rest
    if hints := write_hints(signature.annotations):
        written["annotations"] = (other_annotations or {}) | hints
    return written


def write_hints(annotations: Annotations) -> dict[str, bool]:
    """Return the stated effects of a tool; an unstated one is left out."""
    stated = {hint: getattr(annotations, name) for hint, name in HINTS.items()}
    return {hint: value for hint, value in stated.items() if value is not None}


def list_oddities(document: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    shown = printable(name, 60)
    if len(name) > NAME_LIMIT:
        yield "LONG_NAME", f"The name of {shown} is longer than {NAME_LIMIT} characters."
    elif not _GOOD_NAME.fullmatch(name):
        yield "ODD_NAME", f"“{shown}” has characters that a tool's name should not have."
    execution = document.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        yield "NEEDS_TASK", f"{shown} runs as a task only, which cannot be started here."
