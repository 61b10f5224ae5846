"""Null in place of an absent property, which is how a strict caller leaves one out."""

from collections.abc import Sequence
from typing import Any

from core.schema import AnySchema, Schema, SchemaDocument, spelling
from core.schema.objects import applicable_parts


def without_absent(document: SchemaDocument, value: Any) -> Any:
    """Return `value` without the members at any depth that are null and not required."""
    return _remove_absent(document, [document.root], value)


def with_absent(document: SchemaDocument, value: Any) -> Any:
    """Return `value` as a strict caller writes it: with null for each property that it lacks."""
    return _add_absent(document, document.root, value)


def _remove_absent(document: SchemaDocument, schemas: Sequence[AnySchema], value: Any) -> Any:
    if not isinstance(value, dict | list):
        return value

    def alternatives_of(part: Schema) -> list[AnySchema]:
        """Return the alternatives that the value may be meant for; all if it fits none."""
        chosen: list[AnySchema] = []
        for keyword in ("anyOf", "oneOf"):
            # An alternative that only lists required names is about their combination.
            alternatives = [
                alternative
                for alternative in part.get(keyword, ())
                if document.level(alternative).schema.keys() != {"required"}
            ]
            fitting = [alternative for alternative in alternatives if _is_meant(document, alternative, value)]
            chosen += fitting or alternatives
        return chosen

    parts = list(applicable_parts(document, schemas, alternatives_of))
    if isinstance(value, list):
        items = [part["items"] for part in parts if "items" in part]
        return [_remove_absent(document, items, item) for item in value]
    required = {name for part in parts for name in spelling.required_of(part)}
    properties = [spelling.properties_of(part) for part in parts]
    return {
        name: _remove_absent(document, [members[name] for members in properties if name in members], member)
        for name, member in value.items()
        if member is not None or name in required or not any(name in members for members in properties)
    }


def _is_meant(document: SchemaDocument, schema: AnySchema, value: Any) -> bool:
    """Return whether the names and constants of an object fit. A strict caller writes every property, so that
    these distinguish most alternatives."""
    if not isinstance(value, dict):
        return False
    properties = document.level(schema).properties
    return value.keys() <= properties.keys() and all(
        member == document.level(properties[name]).schema.get("const", member)
        for name, member in value.items()
    )


def _add_absent(document: SchemaDocument, schema: AnySchema, value: Any) -> Any:
    level = document.level(schema)
    if choices := level.schema.get("anyOf"):
        choice = next((other for other in choices if _is_meant(document, other, value)), None)
        return value if choice is None else _add_absent(document, choice, value)
    if isinstance(value, list):
        return [_add_absent(document, level.schema.get("items", True), item) for item in value]
    if not isinstance(value, dict):
        return value
    properties = level.properties
    completed = {
        name: _add_absent(document, properties.get(name, True), member) for name, member in value.items()
    }
    return completed | {name: None for name in properties if name not in value}
