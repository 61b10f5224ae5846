"""Schemas of OpenAPI as JSON Schema 2020-12, and back again.

OpenAPI 3.0 has a dialect of its own (`nullable`, `exclusiveMinimum: true`); 3.1 differs in where its
references lead. `as_openapi` undoes `as_json_schema` for every schema that says nothing odd. Who must
give back all of them compares, and keeps the vendor's own text where the two differ.

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
    """`is_dialect` for OpenAPI 3.0."""
    translated = move_references(schema, COMPONENT, DEFINITION)
    return subschemas.mapped(translated, _out_of_dialect) if is_dialect else translated


def as_openapi(schema: Any, *, is_dialect: bool) -> Any:
    translated = move_references(schema, DEFINITION, COMPONENT)
    return subschemas.mapped(translated, _into_dialect) if is_dialect else translated


def references(schema: Any) -> Iterator[str]:
    return subschemas.references(schema, REFERENCES)


def named_in(reference: str, prefix: str) -> str | None:
    """The component or definition that a reference leads to or into; None when it leads elsewhere."""
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


def _out_of_dialect(schema: Schema) -> Schema:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) and kind else [kind]
    if kind is not None and not all(isinstance(each, str) and each in types.WORDS for each in kinds):
        del schema["type"]
    elif schema.get("nullable") is True and isinstance(kind, str):
        schema["type"] = [kind, "null"]
    dialects.modernize_bounds(schema)
    if "required" in schema and not isinstance(schema["required"], list):
        del schema["required"]
    return schema


def _into_dialect(schema: Schema) -> Schema:
    kind = schema.get("type")
    if schema.get("nullable") is True and isinstance(kind, list) and len(kind) == 2:
        schema["type"] = kind[0]
    for limit, exclusive in _LIMITS:
        if isinstance(schema.get(exclusive), int | float):
            schema[limit] = schema[exclusive]
            schema[exclusive] = True
    return schema
