"""Where a JSON Schema holds further schemas, so that they can be rewritten one by one.

What stands elsewhere (in `enum`, `const`, `default`, `examples`) is data, and a property called
`$ref` is no reference.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

# What a schema is applied to: the same value, or a part of it.
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

ONES = frozenset((*IN_PLACE, *PARTS))
LISTS = frozenset((*IN_PLACE_LISTS, *PART_LISTS))
MAPS = frozenset((*IN_PLACE_MAPS, *PART_MAPS, *DEFINITIONS))

Change = Callable[[dict[str, Any]], Any]


def mapped(schema: Any, change: Change) -> Any:
    """A copy in which every schema that is an object went through `change`, the innermost first."""
    if not isinstance(schema, dict):
        return schema
    copied: dict[str, Any] = {}
    for keyword, value in schema.items():
        if isinstance(value, list) and keyword in LISTS:
            copied[keyword] = [mapped(each, change) for each in value]
        elif isinstance(value, dict) and keyword in MAPS:
            copied[keyword] = {name: mapped(each, change) for name, each in value.items()}
        else:
            copied[keyword] = mapped(value, change) if keyword in ONES else value
    return change(copied)


def every(schema: Any) -> list[dict[str, Any]]:
    """Every schema that is an object, wherever it stands inside; the innermost first."""
    found: list[dict[str, Any]] = []

    def note(each: dict[str, Any]) -> dict[str, Any]:
        found.append(each)
        return each

    mapped(schema, note)
    return found


def references(schema: Any) -> Iterator[str]:
    for each in every(schema):
        yield from (each[keyword] for keyword in REFERENCES if isinstance(each.get(keyword), str))


def pointed(document: Any, pointer: str) -> Any:
    """What a reference such as `#/$defs/a` leads to within `document`. Raises LookupError."""
    if pointer != "#" and not pointer.startswith("#/"):
        raise LookupError(pointer)
    place = document
    for part in pointer.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(place, list):
            place = place[int(name)] if name.isascii() and name.isdigit() else _nowhere(pointer)
        elif isinstance(place, Mapping):
            place = place[name]
        else:
            _nowhere(pointer)
    return place


def _nowhere(pointer: str) -> Any:
    raise LookupError(pointer)
