"""JSON Schema as parameters, and back again.

`write_schema` restores exactly the schema that `read_schema` read. An object schema becomes one parameter for
each property. A parameter that cannot express its whole schema stores it in `schema`, and the object's other
members are stored in the rest. A schema of another type becomes one parameter for the whole value
(`is_whole`).

If a parameter has a `schema`, that is authoritative, and its type, limits and values are for display.
References are stored unchanged. They are resolved only to display a type and its values, within the document
and for a few steps.

https://json-schema.org/draft/2020-12/json-schema-core
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import msgspec

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.schema import bounds, regular_expressions
from core.schema.references import remote_reference
from core.schema.shown_forms import only_form, shown_form
from protocols import members
from protocols.list_pages import UnreadableItemError
from protocols.signature import AllowedValue, Parameter, ParameterType

MAX_PROPERTIES = 1_000
MAX_VALUES = 10_000
# Values of all properties together. Many properties may refer to one long list, which each would repeat.
MAX_ALL_VALUES = 60_000
MAX_BYTES = 1024 * 1024  # bytes of canonical JSON

_TYPES: dict[str, ParameterType] = {
    "string": "string",
    "integer": "int",
    "number": "number",
    "boolean": "boolean",
}
_WORDS = {kind: word for word, kind in _TYPES.items()} | {"enum": "string"}
# The members that `write_schema` derives from the parameters. The rest contains the vendor's value if it
# differs, such as `required: null`. In the rest, `type` of None means that the vendor left the type out, and
# `properties` of None that the parameters are required names without properties.
DERIVED = ("type", "properties", "required")


@dataclass(frozen=True, slots=True)
class Shape:
    """An object schema as its properties and its other members."""

    parameters: tuple[Parameter, ...]
    rest: dict[str, Any] | None


def read_schema(schema: object, where: str, *, whole_name: str) -> Shape:
    """Return a schema as parameters. whole_name: the name of the parameter for a schema that is not an
    object.

    Raises UnreadableItemError: BAD_SCHEMA, SCHEMA_TOO_DEEP, SCHEMA_TOO_BIG, REMOTE_REF, TEXT_TOO_LONG.
    """
    if not isinstance(schema, dict | bool):
        raise members.wrong(where, schema, "a JSON Schema", code="BAD_SCHEMA")
    check(schema, where)
    declared = schema.get("properties") if isinstance(schema, dict) else None
    _require_few(len(declared) if isinstance(declared, dict) else 0, where)
    if isinstance(schema, bool) or not _has_properties(schema):
        parameter = _read_property(whole_name, schema, schema, is_required=True, where=whole_name)
        return Shape((msgspec.structs.replace(parameter, is_whole=True, schema=schema),), None)
    required_names = schema.get("required")
    required = (
        {entry for entry in required_names if isinstance(entry, str)}
        if isinstance(required_names, list)
        else ()
    )
    properties = schema.get("properties", {})
    if isinstance(properties, dict):
        unlisted_names = set(required) - properties.keys()
        _require_few(len(properties) + len(unlisted_names), where)
        properties = properties | _unlisted_properties(schema, unlisted_names)
    parameters: list[Parameter] = []
    values_left = MAX_ALL_VALUES
    for name, entry in (properties or {}).items():
        is_required, max_values = name in required, min(MAX_VALUES, values_left)
        parameters.append(
            _read_property(
                name, entry, schema, is_required=is_required, where=f"{where}.{name}", max_values=max_values
            )
        )
        values_left -= len(parameters[-1].allowed_values)
    schema_rest: dict[str, Any] = {} if "type" in schema else {"type": None}
    base_schema = write_schema(parameters, schema_rest)
    schema_rest |= {
        member: value
        for member, value in schema.items()
        if member not in DERIVED or member not in base_schema or _differ(base_schema[member], value)
    }
    if "properties" in base_schema and "properties" not in schema:
        schema_rest["properties"] = None
    return Shape(tuple(parameters), schema_rest)


def _require_few(property_count: int, where: str) -> None:
    if property_count > MAX_PROPERTIES:
        reason = f"“{where}” has {property_count:,} properties; the limit is {MAX_PROPERTIES:,}."
        raise UnreadableItemError("SCHEMA_TOO_BIG", reason)


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


def write_schema(parameters: Sequence[Parameter], schema_rest: Mapping[str, Any] | None) -> Any:
    """Return the schema that `read_schema` read."""
    if len(parameters) == 1 and parameters[0].is_whole:
        return write_parameter(parameters[0])
    schema: dict[str, Any] = {"type": "object"}
    if parameters:
        schema["properties"] = {parameter.name: write_parameter(parameter) for parameter in parameters}
    if required := [parameter.name for parameter in parameters if parameter.required]:
        schema["required"] = required
    schema |= schema_rest or {}
    if schema["type"] is None:
        del schema["type"]
    if parameters and schema.get("properties", {}) is None:
        del schema["properties"]
    return schema


def write_parameter(parameter: Parameter) -> Any:
    if parameter.schema is not None:
        return parameter.schema
    schema: dict[str, Any] = {"type": _WORDS[parameter.type]} if parameter.type in _WORDS else {}
    optional_members: dict[str, Any] = {
        "title": parameter.title or None,
        "description": parameter.description or None,
        "enum": [value.name for value in parameter.allowed_values] or None,
        "minimum": parameter.min,
        "maximum": parameter.max,
        "maxLength": parameter.max_length,
    }
    schema |= {member: value for member, value in optional_members.items() if value is not None}
    if parameter.default is not msgspec.UNSET:
        schema["default"] = parameter.default
    return schema


def title_and_description(schema: Mapping[str, Any]) -> tuple[str, str]:
    """Return the title and the description of a parameter with this schema."""
    form = shown_form(dict(schema))
    title, description = form.get("title"), form.get("description")
    return (
        title if isinstance(title, str) else "",
        description if isinstance(description, str) else "",
    )


def without_values(
    schema: Mapping[str, Any], hidden: Collection[str], remaining: Sequence[str]
) -> dict[str, Any]:
    """Return the schema of a text with a list of values, without the hidden ones. `remaining` are the
    others.
    """
    narrowed, is_listed = dict(schema), False
    if narrowed.get("default") in tuple(hidden):
        del narrowed["default"]
    if isinstance(values := schema.get("enum"), list):
        narrowed["enum"], is_listed = [value for value in values if value not in tuple(hidden)], True
    for member in ("anyOf", "oneOf"):
        if not isinstance(forms := schema.get(member), list):
            continue
        if all(isinstance(value, dict) and "const" in value for value in forms):
            narrowed[member] = [value for value in forms if value["const"] not in tuple(hidden)]
            is_listed = True
        elif only_form(dict(schema)) and "enum" not in schema:
            narrowed[member] = [
                value if value == {"type": "null"} else without_values(value, hidden, remaining)
                for value in forms
            ]
            is_listed = True
    return narrowed if is_listed else narrowed | {"enum": list(remaining)}


def check(schema: object, where: str) -> None:
    """Raise UnreadableItemError if a schema is too deep, too large, or refers to another document."""
    try:
        bounds.require_bounds(schema)
    except bounds.SchemaBoundsError as error:
        reason = f"“{where}” has more than {error.limit:,} {error.counted}; that is the limit."
        raise UnreadableItemError(error.code, reason) from error
    encoded = members.encode(schema)
    if len(encoded) > MAX_BYTES:
        reason = f"“{where}” is {len(encoded):,} bytes of JSON; the limit is {MAX_BYTES:,}."
        raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    if b'ef":"' in encoded and (remote := remote_reference(schema)):
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
        and all(isinstance(property_schema, dict | bool) for property_schema in properties.values())
        and all(name.strip() and len(name) <= members.MAX_NAME_LENGTH for name in properties)
    )


def _read_property(
    name: str,
    schema: dict[str, Any] | bool,
    root: object,
    *,
    is_required: bool,
    where: str,
    max_values: int = MAX_VALUES,
) -> Parameter:
    if isinstance(schema, bool):
        return Parameter(id=name, name=name, type="json", required=is_required, description="", schema=schema)
    own_form, resolved_form = shown_form(schema), shown_form(schema, root)
    allowed = _allowed_values(resolved_form, max_values)
    kind: ParameterType = "enum" if allowed else _simple_type(resolved_form)
    is_number = kind in ("int", "number")
    length = resolved_form.get("maxLength")
    parameter = Parameter(
        id=name,
        name=name,
        type=kind,
        required=is_required,
        description=_text_of(own_form, "description", where),
        title=_text_of(own_form, "title", where),
        allowed_values=allowed,
        min=_number_of(resolved_form, "minimum") if is_number else None,
        max=_number_of(resolved_form, "maximum") if is_number else None,
        max_length=length if kind == "string" and type(length) is int and length >= 0 else None,
        default=schema.get("default", msgspec.UNSET),
    )
    if _differ(write_parameter(parameter), schema):
        return msgspec.structs.replace(parameter, schema=schema)
    return parameter


def _simple_type(schema: Mapping[str, Any]) -> ParameterType:
    """Return the only simple type of the values besides null; `json` if there is none."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [type_name for type_name in kind if type_name != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    return _TYPES.get(kind, "json") if isinstance(kind, str) else "json"


def _allowed_values(schema: Mapping[str, Any], max_values: int) -> tuple[AllowedValue, ...]:
    """Return the allowed values of a text; none if there are more than `max_values` or if one is no text."""
    if schema.get("type", "string") != "string" and _simple_type(schema) != "string":
        return ()
    titled: dict[str, str] = {}
    forms = schema.get("oneOf")
    # A `oneOf` of constants describes each value of an enumeration.
    if _is_list_up_to(forms, max_values) and all(
        isinstance(form, dict) and isinstance(form.get("const"), str) for form in forms
    ):
        for form in forms:
            text = form.get("description") or form.get("title")
            titled[form["const"]] = text if isinstance(text, str) else ""
    listed_values = [schema["const"]] if "const" in schema else schema.get("enum", list(titled))
    values = (
        [value for value in listed_values if value is not None]
        if _is_list_up_to(listed_values, max_values)
        else []
    )
    if len(values) > max_values or not all(isinstance(value, str) for value in values):
        return ()
    return tuple(AllowedValue(value, titled.get(value, "")) for value in dict.fromkeys(values))


def _is_list_up_to(values: object, count: int) -> TypeGuard[list[Any]]:
    # One entry may be null.
    return isinstance(values, list) and len(values) <= count + 1


def _text_of(schema: Mapping[str, Any], member: str, where: str) -> str:
    return members.text(schema, member, f"{where}.") if isinstance(schema.get(member), str) else ""


def _number_of(schema: Mapping[str, Any], member: str) -> int | float | None:
    value = schema.get(member)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _differ(one: object, other: object) -> bool:
    return canonical(one) != canonical(other)
