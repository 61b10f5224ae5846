"""Null in place of an absent property, which is how a strict caller leaves one out."""

from collections.abc import Iterator, Sequence
from typing import Any

from core.schema import AnySchema, Document, Schema
from core.schema.objects import parts_of


def without_absent(document: Document, value: Any) -> Any:
    """Return `value` without the members at any depth that are null and not required."""
    return _remove_absent(document, [document.root], value)


def with_absent(document: Document, value: Any) -> Any:
    """Return `value` as a strict caller writes it: with null for each property that it lacks."""
    return _add_absent(document, document.root, value)


def _remove_absent(document: Document, schemas: Sequence[AnySchema], value: Any) -> Any:
    if not isinstance(value, dict | list):
        return value
    parts = [part for schema in schemas for part in _applicable_parts(document, schema, value)]
    if isinstance(value, list):
        items = [part["items"] for part in parts if "items" in part]
        return [_remove_absent(document, items, item) for item in value]
    required = {name for part in parts for name in part.get("required", ())}
    properties = [part.get("properties", {}) for part in parts]
    return {
        name: _remove_absent(document, [members[name] for members in properties if name in members], member)
        for name, member in value.items()
        if member is not None or name in required or not any(name in members for members in properties)
    }


def _applicable_parts(document: Document, schema: AnySchema, value: Any) -> Iterator[Schema]:
    """Return the schemas that a value has to fit, and those of alternatives that it may be meant for."""
    waiting, visited = [schema], set()
    while waiting:
        for part in parts_of(document, waiting.pop()):
            if id(part) in visited:
                continue
            visited.add(id(part))
            yield part
            for keyword in ("anyOf", "oneOf"):
                # An alternative that only lists required names is about their combination.
                choices = [
                    choice
                    for choice in part.get(keyword, ())
                    if document.level(choice).schema.keys() != {"required"}
                ]
                waiting += [choice for choice in choices if _is_meant(document, choice, value)] or choices


def _is_meant(document: Document, schema: AnySchema, value: Any) -> bool:
    """Return whether the names and constants of an object fit. A strict caller writes every property, so that
    these distinguish most alternatives."""
    if not isinstance(value, dict):
        return False
    properties = document.level(schema).schema.get("properties", {})
    return value.keys() <= properties.keys() and all(
        member == document.level(properties[name]).schema.get("const", member)
        for name, member in value.items()
    )


def _add_absent(document: Document, schema: AnySchema, value: Any) -> Any:
    level = document.level(schema).schema
    if choices := level.get("anyOf"):
        choice = next((other for other in choices if _is_meant(document, other, value)), None)
        return value if choice is None else _add_absent(document, choice, value)
    if isinstance(value, list):
        return [_add_absent(document, level.get("items", True), item) for item in value]
    if not isinstance(value, dict):
        return value
    properties = level.get("properties", {})
    completed = {
        name: _add_absent(document, properties.get(name, True), member) for name, member in value.items()
    }
    return completed | {name: None for name in properties if name not in value}
