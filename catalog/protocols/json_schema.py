"""JSON Schema as parameters, and back again.

`write` gives back exactly what `read` was given. An object schema becomes one parameter for each of
its properties; what a parameter cannot say stays whole in its `schema`, and what the object says
beside its properties stays in the rest. A schema that is no object is one parameter that stands for
the whole. No reference is ever followed here.

https://json-schema.org/draft/2020-12/json-schema-core
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from catalog.protocols import members
from catalog.protocols.base import UnreadableItemError, canonical
from catalog.protocols.signature import AllowedValue, Parameter, ParameterType

DEEPEST = 64
MOST_NODES = 20_000
MOST_PROPERTIES = 1_000

_TYPES: dict[str, ParameterType] = {
    "string": "string",
    "integer": "int",
    "number": "number",
    "boolean": "boolean",
}
_WORDS = {kind: word for word, kind in _TYPES.items()} | {"enum": "string"}
# Members of the object that `write` derives. In the rest, None says that the vendor left one out.
_DERIVED = ("type", "properties", "required")


@dataclass(frozen=True, slots=True)
class Shape:
    """An object schema, taken apart: its properties, and everything else that it says."""

    parameters: tuple[Parameter, ...]
    rest: dict[str, Any] | None


def read(schema: object, where: str, *, whole_name: str) -> Shape:
    """`whole_name` is what the one parameter is called if `schema` is no object schema.

    Raises UnreadableItemError: BAD_SCHEMA, SCHEMA_TOO_DEEP, SCHEMA_TOO_BIG, TEXT_TOO_LONG.
    """
    if not isinstance(schema, dict | bool):
        raise members.wrong(where, schema, "a JSON Schema", code="BAD_SCHEMA")
    check(schema, where)
    if isinstance(schema, bool) or not _has_properties(schema):
        return Shape((_whole(schema, whole_name),), None)
    listed = schema.get("required")
    required = listed if isinstance(listed, list) else []
    parameters = tuple(
        _property(name, each, is_required=name in required, where=f"{where}.{name}")
        for name, each in schema.get("properties", {}).items()
    )
    rest = {member: value for member, value in schema.items() if member not in _DERIVED}
    written = write(parameters, {})
    for member in _DERIVED:
        if _differ(written.get(member), schema.get(member)) or (member in written) != (member in schema):
            rest[member] = schema.get(member)
    return Shape(parameters, rest)


def write(parameters: Sequence[Parameter], rest: Mapping[str, Any] | None) -> Any:
    """The schema that `read` was given."""
    if len(parameters) == 1 and parameters[0].is_whole:
        return parameters[0].schema
    written: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: write_parameter(parameter) for parameter in parameters},
    }
    if required := [parameter.name for parameter in parameters if parameter.required]:
        written["required"] = required
    written |= rest or {}
    return {m: value for m, value in written.items() if value is not None or m not in _DERIVED}


def write_parameter(parameter: Parameter) -> Any:
    """The schema of one property."""
    if parameter.schema is not None:
        return parameter.schema
    written: dict[str, Any] = {"type": _WORDS[parameter.type]} if parameter.type in _WORDS else {}
    said: dict[str, Any] = {
        "title": parameter.title or None,
        "description": parameter.description or None,
        "enum": [value.name for value in parameter.allowed_values] or None,
        "minimum": parameter.min,
        "maximum": parameter.max,
        "maxLength": parameter.max_length,
    }
    written |= {member: value for member, value in said.items() if value is not None}
    if parameter.default is not msgspec.UNSET:
        written["default"] = parameter.default
    return written


def check(schema: object, where: str) -> None:
    """Raises UnreadableItemError for a schema that is too deep or too large to be worked with."""
    level: list[Any] = [schema]
    nodes = depth = 0
    while level:
        nodes += len(level)
        depth += 1
        if depth > DEEPEST:
            reason = f"“{where}” is nested more than {DEEPEST} levels deep; that is the limit."
            raise UnreadableItemError("SCHEMA_TOO_DEEP", reason)
        if nodes > MOST_NODES:
            reason = f"“{where}” has more than {MOST_NODES:,} parts; that is the limit."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
        level = [child for each in level for child in _children(each)]


def _children(value: object) -> Sequence[Any]:
    if isinstance(value, dict):
        return [each for each in value.values() if isinstance(each, dict | list)]
    return [each for each in value if isinstance(each, dict | list)] if isinstance(value, list) else ()


def _has_properties(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type", "object" if "properties" in schema else None)
    properties = schema.get("properties", {})
    return (
        (kind == "object" or (isinstance(kind, list) and "object" in kind))
        and isinstance(properties, dict)
        and len(properties) <= MOST_PROPERTIES
        and all(isinstance(each, dict | bool) for each in properties.values())
        and all(name.strip() and len(name) <= members.LONGEST_NAME for name in properties)
    )


def _whole(schema: dict[str, Any] | bool, name: str) -> Parameter:
    read = _property(name, schema, is_required=True, where=name)
    return msgspec.structs.replace(read, is_whole=True, schema=schema)


def _property(name: str, schema: dict[str, Any] | bool, *, is_required: bool, where: str) -> Parameter:
    if isinstance(schema, bool):
        return Parameter(id=name, name=name, type="json", required=is_required, description="", schema=schema)
    allowed = _allowed_values(schema)
    kind: ParameterType = "enum" if allowed else _type(schema)
    is_number = kind in ("int", "number")
    found = Parameter(
        id=name,
        name=name,
        type=kind,
        required=is_required,
        description=_text(schema, "description", where),
        title=_text(schema, "title", where),
        allowed_values=allowed,
        min=_number(schema, "minimum") if is_number else None,
        max=_number(schema, "maximum") if is_number else None,
        max_length=_length(schema) if kind == "string" else None,
        default=schema.get("default", msgspec.UNSET),
    )
    if _differ(write_parameter(found), schema):
        return msgspec.structs.replace(found, schema=schema)
    return found


def _type(schema: Mapping[str, Any]) -> ParameterType:
    """The one simple type that values have, null aside; `json` when there is no such type."""
    kind = schema.get("type")
    if kind is None:
        branches = [each for each in _branches(schema) if each != {"type": "null"}]
        return _type(branches[0]) if len(branches) == 1 and isinstance(branches[0], dict) else "json"
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    return _TYPES.get(kind, "json") if isinstance(kind, str) else "json"


def _branches(schema: Mapping[str, Any]) -> list[Any]:
    branches = schema.get("anyOf")
    return branches if isinstance(branches, list) else []


def _allowed_values(schema: Mapping[str, Any]) -> tuple[AllowedValue, ...]:
    """The values of a text that has a list of them; none for lists that hold anything but text."""
    values = schema.get("enum")
    if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
        return ()
    if len(set(values)) < len(values) or schema.get("type", "string") != "string":
        return ()
    return tuple(AllowedValue(value) for value in values)


def _text(schema: Mapping[str, Any], member: str, where: str) -> str:
    return members.text(schema, member, f"{where}.") if isinstance(schema.get(member), str) else ""


def _number(schema: Mapping[str, Any], member: str) -> int | float | None:
    value = schema.get(member)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length(schema: Mapping[str, Any]) -> int | None:
    value = schema.get("maxLength")
    return value if type(value) is int and value >= 0 else None


def _differ(one: object, other: object) -> bool:
    return canonical(one) != canonical(other)
