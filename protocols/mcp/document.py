"""One tool of MCP: its document and the normal form, both ways.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from core.outbound.errors import printable
from core.value_descriptions import describe_value
from protocols import members
from protocols import parameters as json_schema
from protocols.list_pages import UnreadableItemError
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


def read_signature(document: dict[str, Any]) -> Signature:
    """Return the normal form of a tool. Raises UnreadableItemError."""
    schema = read_input_schema(document)
    if problem := mcp_headers.find_problem(schema):
        raise UnreadableItemError("BAD_PARAM_HEADER", problem)
    input_shape = json_schema.read_schema(schema, "inputSchema", whole_name="input")
    output_shape = json_schema.Shape((), None)
    if document.get("outputSchema") is not None:
        output_shape = json_schema.read_schema(document["outputSchema"], "outputSchema", whole_name="output")
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
    document_rest = _document_rest(document, signature)
    members.encode(document_rest)
    return replace(signature, rest=document_rest or None)


def _is_hint(annotations: Mapping[str, Any], name: str) -> bool:
    return name in HINTS and isinstance(annotations.get(name), bool)


def _document_rest(document: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    """Return the members that `write` cannot derive from the signature."""
    document_rest: dict[str, Any] = {}
    if "annotations" in document:
        annotations = document["annotations"]
        other_annotations = annotations and {
            name: value for name, value in annotations.items() if not _is_hint(annotations, name)
        }
        if other_annotations or not annotations:
            document_rest["annotations"] = other_annotations
    base_document = write(replace(signature, rest=document_rest))
    return document_rest | {
        member: value
        for member, value in document.items()
        if member != "annotations"
        and (member not in base_document or members.encode(base_document[member]) != members.encode(value))
    }


def write(signature: Signature) -> dict[str, Any]:
    signature_rest = signature.rest or {}
    other_annotations = signature_rest.get("annotations")
    document: dict[str, Any] = {"name": signature.name}
    # A tool without a title of its own is shown under that of its annotations.
    if signature.title and signature.title != (other_annotations or {}).get("title"):
        document["title"] = signature.title
    if signature.description:
        document["description"] = signature.description
    document["inputSchema"] = json_schema.write_schema(signature.inputs, signature.schema_rest)
    if signature.outputs or signature.outputs_rest is not None:
        document["outputSchema"] = json_schema.write_schema(signature.outputs, signature.outputs_rest)
    document |= signature_rest
    if hints := write_hints(signature.annotations):
        document["annotations"] = (other_annotations or {}) | hints
    return document


def write_hints(annotations: Annotations) -> dict[str, bool]:
    """Return the stated effects of a tool; an unstated one is left out."""
    stated = {hint: getattr(annotations, name) for hint, name in HINTS.items()}
    return {hint: value for hint, value in stated.items() if value is not None}


def list_oddities(document: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    printable_name = printable(name, 60)
    if len(name) > NAME_LIMIT:
        yield "LONG_NAME", f"The name of {printable_name} is longer than {NAME_LIMIT} characters."
    elif not _GOOD_NAME.fullmatch(name):
        yield "ODD_NAME", f"“{printable_name}” has characters that a tool's name should not have."
    execution = document.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        yield "NEEDS_TASK", f"{printable_name} runs as a task only, which cannot be started here."
