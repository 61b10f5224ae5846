"""Null for what need not be given: how a strict caller says that it does not give it."""

from collections.abc import Iterator, Sequence
from typing import Any

from core.schema import pointers


def without_absent(schema: Any, value: Any) -> Any:
    """`value` without the members that are null and that `schema` does not require, wherever they stand."""

    def cleaned(value: Any, schemas: Sequence[Any]) -> Any:
        if not isinstance(value, dict | list):
            return value
        places = [place for each in schemas for place in _places(each, schema, value)]
        if isinstance(value, list):
            inside = [place["items"] for place in places if "items" in place]
            return [cleaned(each, inside) for each in value]
        required = [name for place in places for name in _listed(place.get("required"))]
        listed = [_properties(place) for place in places]
        return {
            name: cleaned(member, [each[name] for each in listed if name in each])
            for name, member in value.items()
            if member is not None or name in required or not any(name in each for each in listed)
        }

    return cleaned(value, [schema])


def _places(schema: Any, root: Any, value: Any) -> Iterator[dict[str, Any]]:
    # The schema itself and all that hold of the same value, or may where there is a choice.
    waiting, seen = [schema], set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += each["allOf"] if isinstance(each.get("allOf"), list) else []
        for keyword in ("anyOf", "oneOf"):
            # One that only says what has to be there together requires nothing by itself.
            led = [_led(choice, root) for choice in _listed(each.get(keyword))]
            choices = [choice for choice in led if isinstance(choice, dict) and choice.keys() != {"required"}]
            waiting += [choice for choice in choices if _is_meant(choice, value)] or choices
        if "$ref" in each:
            waiting.append(_led(each, root))


def _led(schema: Any, root: Any) -> Any:
    # What a reference leads to; the schema itself where it is none, or leads nowhere.
    try:
        return pointers.resolve_reference(root, str(schema["$ref"]))
    except (LookupError, TypeError):
        return schema


def _is_meant(schema: dict[str, Any], value: Any) -> bool:
    # A strict caller gives every property, so the names alone tell most choices apart.
    if not isinstance(value, dict):
        return False
    properties = _properties(schema)
    return value.keys() <= properties.keys() and all(
        each == properties[name].get("const", each)
        for name, each in value.items()
        if isinstance(properties[name], dict)
    )


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def with_absent(schema: Any, value: Any) -> Any:
    """The other way round: `value` as a strict caller writes it, with null for each property that it lacks.

    schema: in the strict form, without references.
    """
    if not isinstance(schema, dict):
        return value
    if isinstance(choices := schema.get("anyOf"), list):
        meant = [choice for choice in choices if isinstance(choice, dict) and _is_meant(choice, value)]
        return with_absent(meant[0], value) if meant else value
    if isinstance(value, list):
        return [with_absent(schema.get("items"), each) for each in value]
    if not isinstance(value, dict):
        return value
    properties = _properties(schema)
    return {
        **{name: with_absent(properties.get(name), member) for name, member in value.items()},
        **{name: None for name in properties if name not in value},
    }
