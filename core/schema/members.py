"""The members of the values that a schema describes, at all depths."""

from collections.abc import Iterator
from typing import Any

from core.schema import subschemas
from core.schema.inlining import inlined

MAX_DEPTH = 6


def members_of(name: str, schema: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the value `name` and its members by their names, each once, with their schemas.

    An item of a list has the names of the list.
    """
    without_references = inlined(schema)[0] if isinstance(schema, dict) else schema
    yield from _members_below(name, without_references, MAX_DEPTH)


def _members_below(name: str, schema: Any, depth: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield (name,), schema
    inner_schemas: dict[str, Any] = {}
    for member, inner_schema in _properties_of(schema) if depth else ():
        inner_schemas.setdefault(member, inner_schema)
    for member, inner_schema in inner_schemas.items():
        for steps, found_schema in _members_below(member, inner_schema, depth - 1):
            yield (name, *steps), found_schema


def is_write_only(schema: Any) -> bool:
    return any(part.get("writeOnly") is True for part in _parts_of(schema))


def formats_of(schema: Any) -> set[str]:
    return {part["format"] for part in _parts_of(schema) if isinstance(part.get("format"), str)}


def _parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and those that apply to the same value."""
    if isinstance(schema, dict):
        yield schema
        for inner_schema in subschemas.in_place(schema):
            yield from _parts_of(inner_schema)


def _properties_of(schema: Any) -> Iterator[tuple[str, Any]]:
    for part in _parts_of(schema):
        properties = part.get("properties")
        yield from properties.items() if isinstance(properties, dict) else ()
        yield from _properties_of(part.get("items"))
