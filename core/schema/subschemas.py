"""The places of a JSON Schema that contain further schemas.

Other members (`enum`, `const`, `default`, `examples`) contain data, and a property with the name `$ref` is no
reference.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

# Schemas that apply to the same value (IN_PLACE), and to a part of it (PART).
IN_PLACE = ("not", "if", "then", "else")
IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
PARTS = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
PART_LISTS = ("prefixItems", "items")
PART_MAPS = ("properties", "patternProperties")
DEFINITIONS = ("$defs", "definitions")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_IN_PLACE = frozenset((*IN_PLACE, *IN_PLACE_LISTS, *IN_PLACE_MAPS))
ONES = frozenset((*IN_PLACE, *PARTS))
LISTS = frozenset((*IN_PLACE_LISTS, *PART_LISTS))
MAPS = frozenset((*IN_PLACE_MAPS, *PART_MAPS, *DEFINITIONS))
_HOLDERS = ONES | LISTS | MAPS

Change = Callable[[dict[str, Any]], Any]


def mapped(schema: Any, change: Change) -> Any:
    """Return a copy in which every schema that is an object went through `change`, the innermost first."""
    if not isinstance(schema, dict):
        return schema
    change_child = partial(mapped, change=change)
    copied = {
        keyword: change_below(keyword, value, change_child) if keyword in _HOLDERS else value
        for keyword, value in schema.items()
    }
    return change(copied)


def change_below(keyword: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value of a keyword in which each schema right inside went through `change`."""
    if isinstance(value, list) and keyword in LISTS:
        return [change(child) for child in value]
    if isinstance(value, dict) and keyword in MAPS:
        return {name: change(child) for name, child in value.items()}
    return change(value) if keyword in ONES else value


def references(schema: Any, keywords: Collection[str] = REFERENCES) -> Iterator[str]:
    """Yield every reference of a schema and of the schemas inside it."""
    for subschema in walk(schema):
        yield from own_references(subschema, keywords)


def own_references(schema: Any, keywords: Collection[str] = REFERENCES) -> Iterator[str]:
    """Yield the references that a schema has itself."""
    if isinstance(schema, dict):
        yield from (schema[keyword] for keyword in keywords if isinstance(schema.get(keyword), str))


def children(schema: Any) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the schemas right inside: keyword, name or number below it, schema."""
    for keyword, value in schema.items() if isinstance(schema, dict) else ():
        if keyword not in _HOLDERS:
            continue
        if isinstance(value, dict) and keyword in MAPS:
            yield from ((keyword, name, child) for name, child in value.items())
        elif isinstance(value, list) and keyword in LISTS:
            yield from ((keyword, str(number), child) for number, child in enumerate(value))
        elif keyword in ONES:
            yield keyword, None, value


def in_place(schema: Any) -> Iterator[Any]:
    """Yield the schemas right inside that apply to the same value."""
    yield from (child for keyword, _, child in children(schema) if keyword in _IN_PLACE)


def walk(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema that is an object, itself and no copy, the outermost first."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        yield part
        # As `children` does, without their places: exports walk each schema many times.
        for keyword, value in part.items():
            if keyword not in _HOLDERS:
                continue
            if isinstance(value, dict) and keyword in MAPS:
                waiting += value.values()
            elif isinstance(value, list) and keyword in LISTS:
                waiting += value
            elif keyword in ONES:
                waiting.append(value)
