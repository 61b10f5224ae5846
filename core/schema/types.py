"""Types, listed values and numeric bounds of one schema in the internal form (`core.schema.document`)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from core.canonical_json import canonical

# The types of JSON values. A number with a zero fraction is an integer (validation, 6.1.1), so that `number`
# stands for two of them.
EVERY_TYPE = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
NUMBER = frozenset({"integer", "fraction"})
WORDS = ("null", "boolean", "object", "array", "number", "integer", "string")
_TYPES_OF_WORD = {**{name: frozenset({name}) for name in EVERY_TYPE - {"fraction"}}, "number": NUMBER}


@dataclass(frozen=True, slots=True)
class Bound:
    """The least or the greatest number. With `is_exclusive` the number itself does not fit."""

    value: int | float
    is_exclusive: bool


def types_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that a value may have, by `type`, `enum` and `const`."""
    types = EVERY_TYPE
    if "type" in schema:
        types = types_of_words(type_words(schema))
    values = listed_values(schema)
    return types if values is None else types & frozenset(map(type_of, values))


def types_of_words(words: Iterable[str]) -> frozenset[str]:
    empty: frozenset[str] = frozenset()
    return empty.union(*(_TYPES_OF_WORD.get(word, empty) for word in words))


def words_of_types(types: frozenset[str]) -> list[str]:
    """Return the words of JSON Schema for a set of types; a lone `fraction` becomes `number`."""
    names = {"number" if "fraction" in types and name in NUMBER else name for name in types}
    return [word for word in WORDS if word in names]


def type_words(schema: Mapping[str, Any]) -> list[str]:
    """Return the words under `type`; none where the schema has no `type`."""
    word = schema.get("type")
    return [word] if isinstance(word, str) else list(word or ())


def guess_words(schema: Mapping[str, Any]) -> list[str]:
    """Return the type of a schema that states none, by its keywords; none without such a keyword."""
    return ["object"] if "properties" in schema else ["array"] if "items" in schema else []


def values_of(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return all values that `enum`, `const` and `type` let in, where these list them; None where not."""
    values = listed_values(schema)
    if values is not None:
        types = types_of_words(type_words(schema)) if "type" in schema else EVERY_TYPE
        return [value for value in values if type_of(value) in types]
    return [None] if types_of(schema) == {"null"} else None


def listed_values(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return the values under `enum` and `const`, whatever their type; None where the schema has neither."""
    values = schema.get("enum")
    if "const" not in schema:
        return values
    constant = schema["const"]
    return [constant] if values is None else [value for value in values if is_equal(value, constant)][:1]


def lower_bound(schema: Mapping[str, Any]) -> Bound | None:
    """Return the tighter one of `minimum` and `exclusiveMinimum`."""
    bounds = _bounds_in(schema, "minimum", "exclusiveMinimum")
    return max(bounds, key=lambda bound: (bound.value, bound.is_exclusive), default=None)


def upper_bound(schema: Mapping[str, Any]) -> Bound | None:
    """Return the tighter one of `maximum` and `exclusiveMaximum`."""
    bounds = _bounds_in(schema, "maximum", "exclusiveMaximum")
    return min(bounds, key=lambda bound: (bound.value, not bound.is_exclusive), default=None)


def _bounds_in(schema: Mapping[str, Any], inclusive: str, exclusive: str) -> list[Bound]:
    pairs = ((schema.get(inclusive), False), (schema.get(exclusive), True))
    return [Bound(value, is_out) for value, is_out in pairs if is_number(value) and abs(value) != math.inf]


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def type_of(value: object) -> str:
    """Return the type of a JSON value, one of `EVERY_TYPE`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) or value.is_integer() else "fraction"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def is_equal(one: object, other: object) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    return one is other or value_key(one) == value_key(other)


def value_key(value: object) -> bytes:
    """Return the same bytes for equal JSON values."""
    return canonical(value if isinstance(value, str) else _with_whole_numbers(value))


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_whole_numbers(member) for name, member in value.items()}
    return value
