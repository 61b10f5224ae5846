"""The form of an OpenAPI document that is equal for documents without a difference for models and calls."""

from datetime import datetime
from operator import itemgetter
from typing import Any

from core.canonical_json import digest
from core.schema import audience
from protocols.openapi import schema as openapi_schema
from protocols.openapi.document import LEFT_OUT, NAME
from protocols.openapi.schema import COMPONENT, DEFINITION

# Members whose own members are names that the vendor chose.
_MAPS = frozenset(
    {
        *("paths", "content", "headers", "responses", "encoding", "variables"),
        *("securitySchemes", "scopes", "security"),
    }
)
# Members of an operation's document, outside of schemas, that no model sees and no call needs.
_FOR_PEOPLE = ("example", "examples", "externalDocs", "callbacks", "links")


def audience_form(document: dict[str, Any], read_at: datetime | None) -> Any:
    """Return a form that is equal for two documents without a difference for models and calls.

    Schemas are moved out of their places into one schema with the components that they refer to.
    """
    components = document.get("components", {})
    schemas: list[Any] = []
    frame = {**document, "components": {m: v for m, v in components.items() if m != "schemas"}}
    hollow = _content_of(frame, schemas) | {"openapi": ".".join(document["openapi"].split(".")[:2])}
    root = {"$defs": components.get("schemas", {}), "allOf": schemas}
    as_definitions = openapi_schema.move_references(root, COMPONENT, DEFINITION)
    return [hollow, audience.canonical_schema(as_definitions, read_at, digest, needed={LEFT_OUT})]


def _content_of(value: Any, schemas: list[Any], under: str = "") -> Any:
    """Return a part of a document without extensions and examples.

    Each schema is moved to `schemas`, where its number refers to it. `under`: the member that holds the part.
    """
    if isinstance(value, list):
        if under == "parameters":
            value = sorted(value, key=itemgetter("in", "name"))
        # A call goes to the first server; the others are an offer to people.
        entries = value[:1] if under == "servers" else value
        return [_content_of(member_value, schemas, under) for member_value in entries]
    if not isinstance(value, dict):
        return value
    has_names = under in _MAPS
    content: dict[str, Any] = {}
    for name, member_value in sorted(value.items()):
        if has_names:
            content[name] = _content_of(member_value, schemas)
        elif name in ("schema", "itemSchema"):
            content[name] = len(schemas)
            schemas.append(member_value)
        elif name == NAME or not (audience.is_extension(name) or name in _FOR_PEOPLE):
            is_server_text = under == "servers" and name == "description"
            if name == "tags" and isinstance(member_value, list):
                content[name] = audience.in_one_order(member_value)
            elif not is_server_text:
                content[name] = _content_of(member_value, schemas, name)
    return content
