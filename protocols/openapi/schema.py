"""Schemas of OpenAPI as JSON Schema 2020-12, and back again.

OpenAPI 3.0 has a dialect of its own (`nullable`, `exclusiveMinimum: true`); 3.1 differs in the targets of
references. `as_openapi` reverses `as_json_schema` for every usual schema. A caller that needs the exact
original compares both and stores the vendor's text if they differ.

https://spec.openapis.org/oas/v3.0.4.html#schema-object
https://spec.openapis.org/oas/v3.1.1.html#schema-object
"""

from collections.abc import Iterator
from typing import Any

from core.schema import dialects, pointers, spelling, subschemas, types

COMPONENT = "#/components/schemas/"
DEFINITION = "#/$defs/"

# OpenAPI has no other references between schemas; `$dynamicRef` stays as it is.
REFERENCES = ("$ref",)

_LIMITS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))

Schema = dict[str, Any]


def as_json_schema(schema: Any, *, is_dialect: bool) -> Any:
    """Return the schema as JSON Schema 2020-12. is_dialect: it is a schema of OpenAPI 3.0."""

    def translate(schema: Schema) -> Schema:
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) and kind else [kind]
        if kind is not None and not all(
            isinstance(type_name, str) and type_name in types.WORDS for type_name in kinds
        ):
            del schema["type"]
        elif schema.get("nullable") is True and isinstance(kind, str):
            schema["type"] = [kind, "null"]
        dialects.modernize_bounds(schema)
        if "required" in schema and not isinstance(schema["required"], list):
            del schema["required"]
        return schema

    moved = move_references(schema, COMPONENT, DEFINITION)
    return subschemas.mapped(moved, translate) if is_dialect else moved


def as_openapi(schema: Any, *, is_dialect: bool) -> Any:
    """Return a schema that `as_json_schema` returned in its earlier form."""

    def translate(schema: Schema) -> Schema:
        kind = schema.get("type")
        if schema.get("nullable") is True and isinstance(kind, list) and len(kind) == 2:
            schema["type"] = kind[0]
        for limit, exclusive in _LIMITS:
            if isinstance(schema.get(exclusive), int | float):
                schema[limit] = schema[exclusive]
                schema[exclusive] = True
        return schema

    moved = move_references(schema, DEFINITION, COMPONENT)
    return subschemas.mapped(moved, translate) if is_dialect else moved


def references(schema: Any) -> Iterator[str]:
    return subschemas.references(schema, REFERENCES)


def component_name(reference: str, prefix: str) -> str | None:
    """Return the name of the component or definition that a reference points to or into; None for others."""
    if not reference.startswith(prefix):
        return None
    try:
        return pointers.split("/" + pointers.decode_fragment(reference.removeprefix(prefix)))[0]
    except pointers.PointerError:
        return None


def move_references(schema: Any, before: str, after: str) -> Any:
    """Return a copy whose references that start with `before` start with `after`."""

    def move(reference: str) -> str:
        return after + reference.removeprefix(before) if reference.startswith(before) else reference

    return spelling.with_changed_references(schema, move, REFERENCES)
