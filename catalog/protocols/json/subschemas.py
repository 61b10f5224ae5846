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

_ONES = frozenset((*IN_PLACE, *PARTS))
_LISTS = frozenset((*IN_PLACE_LISTS, *PART_LISTS))
_MAPS = frozenset((*IN_PLACE_MAPS, *PART_MAPS, *DEFINITIONS))

Change = Callable[[dict[str, Any]], Any]


def mapped(schema: Any, change: Change) -> Any:
    """A copy in which every schema that is an object went through `change`, the innermost first."""
    if not isinstance(schema, dict):
        return schema
    return change({keyword: _mapped_keyword(keyword, value, change) for keyword, value in schema.items()})


def _mapped_keyword(keyword: str, value: Any, change: Change) -> Any:
    if isinstance(value, list) and keyword in _LISTS:
        return [mapped(each, change) for each in value]
    if isinstance(value, dict) and keyword in _MAPS:
        return {name: mapped(each, change) for name, each in value.items()}
    return mapped(value, change) if keyword in _ONES else value


def every(schema: Any) -> list[dict[str, Any]]:
    """Every schema that is an object, wherever it stands inside; the innermost first."""
    found: list[dict[str, Any]] = []

    def note(each: dict[str, Any]) -> dict[str, Any]:
        found.append(each)
        return each

    mapped(schema, note)
    return found


def references(schema: Any) -> Iterator[str]:
    """Every reference that stands anywhere in the schema, as it stands there."""
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
