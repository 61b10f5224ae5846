"""JSON Schema as parameters, and back again.

`write` gives back exactly what `read` was given. An object schema becomes one parameter for each of
its properties; what a parameter cannot say stays whole in its `schema`, and what the object says
beside its properties stays in the rest. A schema that is no object is one parameter that stands for
the whole.

Where a parameter has a `schema`, that is the truth; its type, limits and values are then what a
person can be shown of it. A reference is kept as it stands and nothing is put in its place. Only to
show a type and its values is one looked up, within the document alone and a few steps far.

https://json-schema.org/draft/2020-12/json-schema-core
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.schema import bounds, regular_expressions
from core.schema.references import remote_reference
from core.schema.shown_forms import only_form, shown_form
from protocols import members
from protocols.base import UnreadableItemError
from protocols.signature import AllowedValue, Parameter, ParameterType

MAX_PROPERTIES = 1_000
MAX_VALUES = 10_000
MAX_BYTES = 1024 * 1024  # bytes of canonical JSON

_TYPES: dict[str, ParameterType] = {
    "string": "string",
    "integer": "int",
    "number": "number",
    "boolean": "boolean",
}
_WORDS = {kind: word for word, kind in _TYPES.items()} | {"enum": "string"}
# What `write` derives from the parameters. The rest holds the vendor's own value where it differs,
# as in `required: null`; a `type` of None there says that the vendor left the type out, and so do
# `properties` of None beside parameters, which are names that are required of no property.
DERIVED = ("type", "properties", "required")


@dataclass(frozen=True, slots=True)
class Shape:
    """An object schema, taken apart: its properties, and everything else that it says."""

    parameters: tuple[Parameter, ...]
    rest: dict[str, Any] | None


def read(schema: object, where: str, *, whole_name: str) -> Shape:
    """`whole_name` is what the one parameter is called if `schema` is no object schema.

    Raises UnreadableItemError: BAD_SCHEMA, SCHEMA_TOO_DEEP, SCHEMA_TOO_BIG, REMOTE_REF, TEXT_TOO_LONG.
    """
    if not isinstance(schema, dict | bool):
        raise members.wrong(where, schema, "a JSON Schema", code="BAD_SCHEMA")
    check(schema, where)
    named = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(named, dict) and len(named) > MAX_PROPERTIES:
        reason = f"“{where}” has {len(named):,} properties; the limit is {MAX_PROPERTIES:,}."
        raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    if isinstance(schema, bool) or not _has_properties(schema):
        whole = _property(whole_name, schema, schema, is_required=True, where=whole_name)
        return Shape((msgspec.structs.replace(whole, is_whole=True, schema=schema),), None)
    listed = schema.get("required")
    required = {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else ()
    properties = schema.get("properties", {})
    if isinstance(properties, dict):
        properties = properties | _unlisted_properties(schema, set(required) - properties.keys())
    parameters = tuple(
        _property(name, each, schema, is_required=name in required, where=f"{where}.{name}")
        for name, each in (properties or {}).items()
    )
    rest: dict[str, Any] = {} if "type" in schema else {"type": None}
    written = write(parameters, rest)
    rest |= {
        member: value
        for member, value in schema.items()
        if member not in DERIVED or member not in written or _differ(written[member], value)
    }
    if "properties" in written and "properties" not in schema:
        rest["properties"] = None
    return Shape(parameters, rest)


def _unlisted_properties(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the schemas of required names that `properties` does not list (JSON Schema validation, 6.5.3).

    A name that the object refuses is left out: no value fits such an object.
    """
    patterns = schema.get("patternProperties")
    others = schema.get("additionalProperties", schema.get("unevaluatedProperties", True))
    properties = {}
    for name in sorted(name for name in names if name.strip() and len(name) <= members.MAX_NAME_LENGTH):
        rules = [
            rule
            for pattern, rule in (patterns.items() if isinstance(patterns, dict) else ())
            if regular_expressions.matches(pattern, name)
        ] or [others]
        if False not in rules:
            rule = rules[0] if len(rules) == 1 else {"allOf": rules}
            properties[name] = rule if isinstance(rule, dict) else {}
    return properties


def write(parameters: Sequence[Parameter], rest: Mapping[str, Any] | None) -> Any:
    """The schema that `read` was given."""
    if len(parameters) == 1 and parameters[0].is_whole:
        return write_parameter(parameters[0])
    written: dict[str, Any] = {"type": "object"}
    if parameters:
        written["properties"] = {parameter.name: write_parameter(parameter) for parameter in parameters}
    if required := [parameter.name for parameter in parameters if parameter.required]:
        written["required"] = required
    written |= rest or {}
    if written["type"] is None:
        del written["type"]
    if parameters and written.get("properties", {}) is None:
        del written["properties"]
    return written


def write_parameter(parameter: Parameter) -> Any:
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


def words(schema: Mapping[str, Any]) -> tuple[str, str]:
    """The title and the description that a parameter is given for this schema."""
    said = shown_form(dict(schema))
    title, description = said.get("title"), said.get("description")
    return (
        title if isinstance(title, str) else "",
        description if isinstance(description, str) else "",
    )


def without_values(schema: Mapping[str, Any], hidden: Collection[str], kept: Sequence[str]) -> dict[str, Any]:
    """The schema of a text with a list of values, without some of them. `kept` are those left."""
    narrowed, is_listed = dict(schema), False
    if narrowed.get("default") in tuple(hidden):
        del narrowed["default"]
    if isinstance(listed := schema.get("enum"), list):
        narrowed["enum"], is_listed = [each for each in listed if each not in tuple(hidden)], True
    for member in ("anyOf", "oneOf"):
        if not isinstance(forms := schema.get(member), list):
            continue
        if all(isinstance(each, dict) and "const" in each for each in forms):
            narrowed[member] = [each for each in forms if each["const"] not in tuple(hidden)]
            is_listed = True
        elif only_form(dict(schema)) and "enum" not in schema:
            narrowed[member] = [
                each if each == {"type": "null"} else without_values(each, hidden, kept) for each in forms
            ]
            is_listed = True
    return narrowed if is_listed else narrowed | {"enum": list(kept)}


def check(schema: object, where: str) -> None:
    """Raises UnreadableItemError for a schema that is too deep or too large to be worked with, or remote."""
    try:
        bounds.require_bounds(schema)
    except bounds.SchemaBoundsError as error:
        is_deep = error.code == "SCHEMA_TOO_DEEP"
        size = (
            f"is nested more than {error.limit} levels deep"
            if is_deep
            else f"has more than {error.limit:,} parts"
        )
        raise UnreadableItemError(error.code, f"“{where}” {size}; that is the limit.") from error
    written = canonical(schema)
    if len(written) > MAX_BYTES:
        reason = f"“{where}” is {len(written):,} bytes of JSON; the limit is {MAX_BYTES:,}."
        raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    if b'ef":"' in written and (remote := remote_reference(schema)):
        where = f"“{where}” refers to another document (“{printable(remote, 80)}”)"
        raise UnreadableItemError("REMOTE_REF", f"{where}, and those are never fetched.")


def _has_properties(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type", "object" if "properties" in schema else None)
    properties = schema.get("properties")
    if properties is None:
        properties = {}
    return (
        (kind == "object" or (isinstance(kind, list) and "object" in kind))
        and isinstance(properties, dict)
        and all(isinstance(each, dict | bool) for each in properties.values())
        and all(name.strip() and len(name) <= members.MAX_NAME_LENGTH for name in properties)
    )


def _property(
    name: str, schema: dict[str, Any] | bool, root: object, *, is_required: bool, where: str
) -> Parameter:
    if isinstance(schema, bool):
        return Parameter(id=name, name=name, type="json", required=is_required, description="", schema=schema)
    said, shown = shown_form(schema), shown_form(schema, root)
    allowed = _allowed_values(shown)
    kind: ParameterType = "enum" if allowed else _type(shown)
    is_number = kind in ("int", "number")
    length = shown.get("maxLength")
    found = Parameter(
        id=name,
        name=name,
        type=kind,
        required=is_required,
        description=_text(said, "description", where),
        title=_text(said, "title", where),
        allowed_values=allowed,
        min=_number(shown, "minimum") if is_number else None,
        max=_number(shown, "maximum") if is_number else None,
        max_length=length if kind == "string" and type(length) is int and length >= 0 else None,
        default=schema.get("default", msgspec.UNSET),
    )
    if _differ(write_parameter(found), schema):
        return msgspec.structs.replace(found, schema=schema)
    return found


def _type(schema: Mapping[str, Any]) -> ParameterType:
    # The one simple type that values have, null aside; `json` when there is no such type.
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    return _TYPES.get(kind, "json") if isinstance(kind, str) else "json"


def _allowed_values(schema: Mapping[str, Any]) -> tuple[AllowedValue, ...]:
    # The values of a text that has a list of them; none for lists that hold anything but text.
    if schema.get("type", "string") != "string" and _type(schema) != "string":
        return ()
    titled: dict[str, str] = {}
    forms = schema.get("oneOf")
    # Constants with descriptions are the way to give each value of an enumeration a text.
    if isinstance(forms, list) and all(
        isinstance(each, dict) and isinstance(each.get("const"), str) for each in forms
    ):
        for each in forms:
            text = each.get("description") or each.get("title")
            titled[each["const"]] = text if isinstance(text, str) else ""
    listed = [schema["const"]] if "const" in schema else schema.get("enum", list(titled))
    values = [value for value in listed if value is not None] if isinstance(listed, list) else []
    if len(values) > MAX_VALUES or not all(isinstance(value, str) for value in values):
        return ()
    return tuple(AllowedValue(value, titled.get(value, "")) for value in dict.fromkeys(values))


def _text(schema: Mapping[str, Any], member: str, where: str) -> str:
    return members.text(schema, member, f"{where}.") if isinstance(schema.get(member), str) else ""


def _number(schema: Mapping[str, Any], member: str) -> int | float | None:
    value = schema.get(member)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _differ(one: object, other: object) -> bool:
    return canonical(one) != canonical(other)
