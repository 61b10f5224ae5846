"""Which parts of a value can be picked, as far as its schema names them: pure rules."""

from collections.abc import Iterator, Mapping
from typing import Any

from core.schema import pointers
from protocols.signature import Parameter

# Deeper, or more, is typed by hand: a list to choose from stays one.
MAX_DEPTH = 4
MAX_MEMBERS = 30


def members(parameter: Parameter, rest: Mapping[str, Any] | None = None) -> list[str]:
    """JSON pointers to the parts that its schema names, each list by its first item. `rest` is what the
    schema of the whole object says beside its properties, such as `$defs`."""
    if not isinstance(parameter.schema, dict):
        return []
    found = _below(parameter.schema, {**(rest or {}), **parameter.schema}, "", MAX_DEPTH)
    return [pointer for pointer, _ in zip(found, range(MAX_MEMBERS), strict=False)]


def _below(schema: Any, document: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
    schema = _followed(schema, document)
    if depth == 0 or not isinstance(schema, dict):
        return
    properties, items = schema.get("properties"), schema.get("items")
    inner = []
    if isinstance(properties, dict):
        inner += [(at + pointers.join([name]), each) for name, each in properties.items()]
    if isinstance(items, dict):
        inner.append((f"{at}/0", items))
    yield from (pointer for pointer, _ in inner)
    for pointer, each in inner:
        yield from _below(each, document, pointer, depth - 1)


def _followed(schema: Any, document: Mapping[str, Any]) -> Any:
    # A reference to a reference is followed once: whatever lies behind is typed by hand.
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        try:
            return pointers.resolve_reference(document, schema["$ref"])
        except (LookupError, ValueError):
            return None
    return schema
