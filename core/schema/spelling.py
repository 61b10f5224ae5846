"""Read a schema in its vendor's own spelling, and make small changes to that spelling. Pure.

An export changes as little of a vendor's schema as its target allows, so it cannot use the internal form.
These functions read one level and accept malformed values: a keyword of the wrong type counts as absent.
"""

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from core.schema import subschemas
from core.schema.dialects import Schema, modernize_bounds, modernize_items

# Annotations: if a reference and its target both have one of these, the one beside the reference counts.
WORDS = frozenset(("title", "description", "default", "examples", "deprecated", "$comment"))


def properties_of(schema: object) -> dict[str, Any]:
    """Return the value of `properties` itself, so that a caller may change it; a new object without one."""
    return _object_under(schema, "properties")


def definitions_of(schema: object) -> dict[str, Any]:
    """Return the value of `$defs`; a new object without one."""
    return _object_under(schema, "$defs")


def required_of(schema: object) -> list[str]:
    """Return the names under `required`."""
    names = schema.get("required") if isinstance(schema, Mapping) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _object_under(schema: object, keyword: str) -> dict[str, Any]:
    value = schema.get(keyword) if isinstance(schema, Mapping) else None
    return value if isinstance(value, dict) else {}


def states_empty(schema: Mapping[str, Any], keyword: str) -> bool:
    """Return whether the vendor wrote the keyword with an empty object or list."""
    return schema.get(keyword) in ({}, [])


def has_null_properties(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("properties", {}) is None


def has_described_properties(schema: Mapping[str, Any]) -> bool:
    """Return whether each property has a schema that is an object."""
    properties = schema.get("properties", {})
    return isinstance(properties, dict) and all(isinstance(member, dict) for member in properties.values())


def has_closed_part(schema: object) -> bool:
    """Return whether some schema inside `schema` refuses members that it does not list."""
    return any(
        part is not schema and part.get("additionalProperties") is False for part in subschemas.walk(schema)
    )


def is_array_without_items(schema: Mapping[str, Any]) -> bool:
    types = schema.get("type")
    return (types == "array" or (isinstance(types, list) and "array" in types)) and "items" not in schema


def has_keywords_beside_reference(schema: Mapping[str, Any]) -> bool:
    return "$ref" in schema and any(not keyword.startswith("$") for keyword in schema)


def undeclared_required(schema: Mapping[str, Any]) -> list[str]:
    """Return the names that an object requires and does not list as properties."""
    properties = schema.get("properties", {})
    return (
        [name for name in required_of(schema) if name not in properties]
        if isinstance(properties, dict)
        else []
    )


def patterns_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the regular expressions of one schema, each with its keyword."""
    if isinstance(pattern := schema.get("pattern"), str):
        yield "pattern", pattern
    if "patternProperties" in schema:
        yield from (("patternProperties", pattern) for pattern in _object_under(schema, "patternProperties"))


def count_object_levels(schema: Mapping[str, Any]) -> int:
    """Return how many objects with properties are nested inside each other. The schema has no references."""
    items = [schema["items"]] if "items" in schema else []
    inside = [*properties_of(schema).values(), *schema.get("anyOf", ()), *items]
    return max(map(count_object_levels, inside), default=0) + ("properties" in schema)


def with_changed_references(
    schema: Any, change: Callable[[str], str], keywords: Collection[str] = subschemas.REFERENCES
) -> Any:
    """Return a copy in which each reference under one of the keywords went through `change`."""

    def change_level(level: Schema) -> Schema:
        # It is a copy already.
        for keyword in keywords:
            if isinstance(reference := level.get(keyword), str):
                level[keyword] = change(reference)
        return level

    return subschemas.mapped(schema, change_level)


def move_reference_into_all_of(schema: Schema) -> None:
    """Move `$ref` into `allOf`, where keywords beside a reference are no problem."""
    schema["allOf"] = [*schema.get("allOf", []), {"$ref": schema.pop("$ref")}]


def declare_required(schema: Schema) -> None:
    """List each required name as a property.

    A closed object refuses such a member, so no declaration makes a call possible, and it stays as it is.
    """
    names, others = undeclared_required(schema), schema.get("additionalProperties", True)
    if not names or others is False:
        return
    properties = schema.setdefault("properties", {})
    for name in names:
        # `patternProperties` still applies to it; the schema of all other members does not.
        properties[name] = copy.deepcopy(others) if isinstance(others, dict) else {}


def modernize(schema: Schema) -> bool:
    """Replace keywords of one level that draft 2020-12 spells differently. Return whether there were any."""
    before = dict(schema)
    modernize_bounds(schema)
    if isinstance(schema.get("items"), list):
        modernize_items(schema)
    is_old = before.keys() != schema.keys()
    for keyword in ("required", "type"):
        names = schema.get(keyword)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            # Draft 2020-12 refuses a name that is listed twice.
            schema[keyword] = list(dict.fromkeys(names))
    return is_old


def remove_at(schema: Schema, path: tuple[str | int, ...]) -> str:
    """Remove the keyword at which a schema breaks the meta-schema, and return it.

    An invalid subschema becomes one that accepts anything.
    """
    steps = list(path)
    while steps:
        keyword = str(steps.pop(0))
        holder: Any = schema
        key: Any = keyword
        is_within = (keyword in subschemas.MAPS and isinstance(schema.get(keyword), dict)) or (
            keyword in subschemas.LISTS and isinstance(schema.get(keyword), list)
        )
        if steps and is_within:
            holder, key = schema[keyword], steps.pop(0)
            # The validator states a name of digits as a number.
            key = str(key) if isinstance(holder, dict) else key
        elif keyword not in subschemas.ONES:
            schema.pop(keyword, None)
            return keyword
        if isinstance(holder, dict) and key not in holder:
            schema.pop(keyword, None)
            return keyword
        if not (steps and isinstance(holder[key], dict)):
            holder[key] = {}
            return keyword
        schema = holder[key]
    return ""
