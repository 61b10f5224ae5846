"""Schemas of OpenAPI as JSON Schema 2020-12, and back again.

OpenAPI 3.0 has a dialect of its own (`nullable`, `exclusiveMinimum: true`); 3.1 differs in where its
references lead. `as_openapi` undoes `as_json_schema` for every schema that says nothing odd. Who must
give back all of them compares, and keeps the vendor's own text where the two differ.

https://spec.openapis.org/oas/v3.0.4.html#schema-object
https://spec.openapis.org/oas/v3.1.1.html#schema-object
"""

from collections.abc import Callable, Iterator
from typing import Any

from core.schema import pointers

COMPONENT = "#/components/schemas/"
DEFINITION = "#/$defs/"

# Under these, the keys are names and the values schemas.
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
# What stands under these is data, however much it looks like a schema.
DATA = frozenset({"example", "examples", "default", "enum", "const", "discriminator", "xml", "externalDocs"})

_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
_LIMITS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))

Schema = dict[str, Any]


def as_json_schema(schema: Any, *, is_dialect: bool) -> Any:
    """`is_dialect` for OpenAPI 3.0."""
    translated = mapped(schema, _to_definition)
    return mapped(translated, _out_of_dialect) if is_dialect else translated


def as_openapi(schema: Any, *, is_dialect: bool) -> Any:
    translated = mapped(schema, _to_component)
    return mapped(translated, _into_dialect) if is_dialect else translated


def mapped(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """A copy in which every schema went through `change`, the inner ones first."""
    if isinstance(schema, list):
        return [mapped(each, change) for each in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {}
    for member, value in schema.items():
        if member in NAMED and isinstance(value, dict):
            copied[member] = {name: mapped(each, change) for name, each in value.items()}
        elif is_data(member):
            copied[member] = value
        else:
            copied[member] = mapped(value, change)
    return change(copied)


def is_data(member: str) -> bool:
    return member in DATA or member.startswith("x-")


def references(schema: Any) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            for member, value in part.items():
                if member in NAMED and isinstance(value, dict):
                    waiting.extend(value.values())
                elif not is_data(member):
                    waiting.append(value)


def named_in(reference: str, prefix: str) -> str | None:
    """The component or definition that a reference leads to or into; None when it leads elsewhere."""
    if not reference.startswith(prefix):
        return None
    try:
        return pointers.split("/" + pointers.decode_fragment(reference.removeprefix(prefix)))[0]
    except pointers.PointerError:
        return None


def _to_definition(schema: Schema) -> Schema:
    return _led(schema, COMPONENT, DEFINITION)


def _to_component(schema: Schema) -> Schema:
    return _led(schema, DEFINITION, COMPONENT)


def _led(schema: Schema, there: str, here: str) -> Schema:
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(there):
        schema["$ref"] = here + reference.removeprefix(there)
    return schema


def _out_of_dialect(schema: Schema) -> Schema:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) and kind else [kind]
    if kind is not None and not all(isinstance(each, str) and each in _TYPES for each in kinds):
        del schema["type"]
    elif schema.get("nullable") is True and isinstance(kind, str):
        schema["type"] = [kind, "null"]
    for limit, exclusive in _LIMITS:
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and limit in schema:
                schema[exclusive] = schema.pop(limit)
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
