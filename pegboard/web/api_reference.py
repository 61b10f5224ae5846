"""The data of the API reference, from the document of `/api/schema/`. Independent of Django views."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.utils.translation import override
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer

from core.schema import spelling
from core.schema.dialects import requires_itself
from core.schema.shown_forms import followed
from pegboard.api.schema import IDEMPOTENCY_KEY

MAX_DEPTH = 4
METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class ReferenceMember:
    """A parameter, or a member of a body. name: with dots for nested members and `[]` for list entries."""

    name: str
    type: str
    is_required: bool
    description: str
    place: str = ""


@dataclass(frozen=True)
class ReferenceReply:
    code: str
    description: str
    members: list[ReferenceMember]


@dataclass(frozen=True)
class ReferenceCall:
    method: str
    path: str
    group: str
    anchor: str
    summary: str
    role: str
    parameters: list[ReferenceMember]
    body: list[ReferenceMember]
    replies: list[ReferenceReply]
    example: dict[str, Any] | None

    @property
    def successes(self) -> list[ReferenceReply]:
        return [reply for reply in self.replies if reply.code < "400"]

    @property
    def errors(self) -> list[ReferenceReply]:
        return [reply for reply in self.replies if reply.code >= "400"]

    def curl(self, base: str) -> str:
        lines = [f"curl {base}{self.path}", '-H "Authorization: Bearer $PEGBOARD_TOKEN"']
        if self.method != "GET":
            lines[0] = f"curl -X {self.method} {base}{self.path}"
        if self.example is not None:
            lines += [
                '-H "Content-Type: application/json"',
                f"-d '{json.dumps(self.example, ensure_ascii=False)}'",
            ]
        return " \\\n  ".join(lines)


@cache
def document() -> bytes:
    # The schema depends on the code alone, so a process generates it once. The first reader may be a page in
    # another language, and labels and help texts of models follow it.
    with override("en"):
        schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
        plain = json.loads(OpenApiJsonRenderer().render(schema))
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()


@cache
def calls() -> tuple[ReferenceCall, ...]:
    schema = json.loads(document())
    shapes = Shapes(schema)
    return tuple(
        _describe_call(method, path, operation, shapes)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
        if method in METHODS
    )


def groups() -> dict[str, list[ReferenceCall]]:
    calls_by_group: dict[str, list[ReferenceCall]] = {}
    for call in calls():
        calls_by_group.setdefault(call.group, []).append(call)
    return calls_by_group


class Shapes:
    """The OpenAPI document, to resolve references."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def follow(self, schema: dict[str, Any]) -> dict[str, Any]:
        return followed(schema, self.document)

    def members(self, schema: dict[str, Any], prefix: str = "", depth: int = 0) -> Iterator[ReferenceMember]:
        schema = self.follow(schema)
        if "items" in schema and depth < MAX_DEPTH:
            yield from self.members(schema["items"], f"{prefix}[]", depth + 1)
        required = spelling.required_of(schema)
        for name, member in spelling.properties_of(schema).items():
            full = f"{prefix}.{name}" if prefix else name
            shape = self.follow(member)
            yield ReferenceMember(full, self.words(shape), name in required, shape.get("description", ""))
            if depth < MAX_DEPTH:
                yield from self.members(member, full, depth + 1)

    def words(self, schema: dict[str, Any]) -> str:
        schema = self.follow(schema)
        if "enum" in schema:
            return "one of " + ", ".join(json.dumps(value) for value in schema["enum"])
        if choices := schema.get("oneOf") or schema.get("anyOf"):
            return " or ".join(dict.fromkeys(self.words(choice) for choice in choices))
        if schema.get("type") == "array":
            return f"list of {self.words(schema.get('items', {}))}"
        kinds = schema.get("type", "any value")
        words = " or ".join([kinds] if isinstance(kinds, str) else kinds)
        return f"{words} ({schema['format']})" if "format" in schema else words

    def example(self, schema: dict[str, Any]) -> Any:
        schema = self.follow(schema)
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type"):
            case "object":
                required, properties = spelling.required_of(schema), spelling.properties_of(schema)
                return {name: self.example(properties[name]) for name in properties if name in required}
            case "array":
                return [self.example(schema.get("items", {}))]
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return True
        return "…"


def _describe_call(method: str, path: str, operation: dict[str, Any], shapes: Shapes) -> ReferenceCall:
    body = _json_schema(operation.get("requestBody", {}))
    replies = []
    for code, reply in sorted(operation["responses"].items()):
        schema = _json_schema(reply)
        members = list(shapes.members(schema)) if schema is not None and code < "400" else []
        replies.append(ReferenceReply(code, reply.get("description", ""), members))
    return ReferenceCall(
        method=method.upper(),
        path=path,
        group=operation["tags"][0],
        anchor=operation["operationId"],
        summary=operation.get("summary") or operation.get("description", ""),
        role=operation.get("x-role", ""),
        parameters=[
            ReferenceMember(
                parameter["name"],
                shapes.words(parameter["schema"]),
                requires_itself(parameter),
                parameter.get("description", ""),
                parameter["in"],
            )
            for parameter in operation.get("parameters", ())
            # The overview explains it once for all writes.
            if parameter.get("description") != IDEMPOTENCY_KEY
        ],
        body=list(shapes.members(body)) if body is not None else [],
        replies=replies,
        example=shapes.example(body) if body is not None else None,
    )


def _json_schema(holder: dict[str, Any]) -> dict[str, Any] | None:
    schema: dict[str, Any] | None = holder.get("content", {}).get("application/json", {}).get("schema")
    return schema
