"""The members of an A2T tool and the normal form, there and back."""

from collections.abc import Set
from datetime import datetime
from typing import Any

from core.schema import audience
from protocols import members
from protocols.base import UUID, UnreadableItemError
from protocols.signature import AllowedValue, Parameter, ParameterType, Signature

MAX_TAG_LENGTH = 255
MAX_TAGS = 1000
MAX_PARAMETERS = 1000
MAX_VALUES = 10_000
MAX_BY_DEFAULT = 65535

_TYPES: dict[str, ParameterType] = {
    "string": "string",
    "int": "int",
    "integer": "int",
    "boolean": "boolean",
    "bool": "boolean",
    "enum": "enum",
    "json": "json",
}
_MAX_LENGTH = ("max-length", "maxLength", "max_length")
_ALLOWED_VALUES = ("allowed-values", "allowed_values", "allowedValues", "enum")

# The members that are read. The drafts give `required` no meaning on an output.
TOOL_ID_NAMES = ("toolId", "toolID", "tool_id")
MEMBERS = frozenset(
    {
        *TOOL_ID_NAMES,
        *("version", "currentVersion", "name", "description", "img", "tags"),
        *("input_parameters", "output_parameters"),
    }
)
_PLAIN_OUTPUT = {"id", "name", "type", "description"}
_PLAIN_INPUT = _PLAIN_OUTPUT | {"required"}
_OUTPUT = _PLAIN_OUTPUT | {"min", "max", *_MAX_LENGTH, *_ALLOWED_VALUES}
_INPUT = _OUTPUT | {"required"}


def read(document: dict[str, Any]) -> Signature:
    inputs = members.array(document, "input_parameters")
    outputs = members.array(document, "output_parameters")
    tags = members.array(document, "tags")
    for many, limit, what in ((inputs + outputs, MAX_PARAMETERS, "parameters"), (tags, MAX_TAGS, "tags")):
        if len(many) > limit:
            reason = f"The tool has {len(many):,} {what}; the limit is {limit:,}."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    return Signature(
        name=members.name(document, "name", code="BAD_NAME"),
        description=members.text(document, "description"),
        img=members.text(document, "img"),
        tags=tuple(_tag(tag, f"tags[{number}]") for number, tag in enumerate(tags)),
        inputs=_parameters(inputs, "input_parameters", is_input=True),
        outputs=_parameters(outputs, "output_parameters", is_input=False),
        rest=_rest(document, MEMBERS),
    )


def _rest(raw: dict[str, Any], known: Set[str]) -> dict[str, Any] | None:
    if raw.keys() <= known:
        return None
    return {member: value for member, value in raw.items() if member not in known}


def _tag(tag: object, where: str) -> str:
    if isinstance(tag, str) and len(tag) <= MAX_TAG_LENGTH:
        return tag
    raise members.wrong(where, tag, f"text of at most {MAX_TAG_LENGTH} characters")


def _parameters(raw: list[Any], where: str, *, is_input: bool) -> tuple[Parameter, ...]:
    found = [
        _plain(entry, is_input=is_input) or _parameter(entry, f"{where}[{n}]", is_input=is_input)
        for n, entry in enumerate(raw)
    ]
    members.unique([parameter.id for parameter in found], f"{where}.id")
    if is_input:
        # Outputs of one name occur in the wild, and no caller has to choose between them.
        members.unique([parameter.name for parameter in found], f"{where}.name")
    if sum([len(parameter.allowed_values) for parameter in found]) > MAX_VALUES:
        reason = f"“{where}” allow more than {MAX_VALUES:,} values; that is the limit."
        raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    return tuple(found)


def _plain(raw: object, *, is_input: bool) -> Parameter | None:
    """What most parameters are, in one look; None: look closer."""
    # This runs for every parameter of every new tool, so it calls no functions.
    if not isinstance(raw, dict) or not raw.keys() <= (_PLAIN_INPUT if is_input else _PLAIN_OUTPUT):
        return None
    key, name, kind, description = raw.get("id"), raw.get("name"), raw.get("type"), raw.get("description")
    required = raw.get("required", True)
    if not (
        isinstance(key, str)
        and isinstance(name, str)
        and isinstance(description, str)
        and (kind == "string" or kind == "boolean")
        and isinstance(required, bool)
        and 0 < len(key.strip()) <= len(key) <= members.MAX_NAME_LENGTH
        and 0 < len(name.strip()) <= len(name) <= members.MAX_NAME_LENGTH
        and len(description) <= members.SURELY_SHORT
    ):
        return None
    return Parameter(id=key, name=name, type=kind, required=is_input and required, description=description)


def _parameter(raw: object, where: str, *, is_input: bool) -> Parameter:
    if not isinstance(raw, dict):
        raise members.wrong(where, raw, "an object")
    where += "."
    name = members.name(raw, "name", where)
    kind, unsupported = _type(raw, where, is_input=is_input)
    key = raw.get("id")
    if type(key) is not int:
        key = name if key is None else members.name(raw, "id", where)
    required = raw.get("required")
    if is_input and required is not None and not isinstance(required, bool):
        raise members.wrong(f"{where}required", required, "true or false")
    return Parameter(
        id=str(key),
        name=name,
        type=kind,
        required=is_input and required is not False,
        description=members.text(raw, "description", where),
        unsupported_type=unsupported,
        **_limits(raw, where, kind, is_input=is_input),
    )


def _limits(raw: dict[str, Any], where: str, kind: ParameterType, *, is_input: bool) -> dict[str, Any]:
    allowed = _allowed_values(raw, where)
    if kind == "enum" and is_input and not allowed:
        raise members.wrong(f"{where}allowed-values", None, "there for an enum, and not empty")
    maximum = members.number(raw, "max", where, whole=kind == "int")
    is_defaulted = is_input and kind == "int" and maximum is None
    minimum = members.number(raw, "min", where, whole=kind == "int")
    member = members.alias(raw, _MAX_LENGTH, where)
    length = members.number(raw, member, where, whole=True) if member else None
    if length is not None and length < 0:
        raise members.wrong(f"{where}{member}", length, "0 or more")
    return {
        "allowed_values": allowed,
        "min": minimum,
        "max": MAX_BY_DEFAULT if is_defaulted else maximum,
        "max_defaulted": is_defaulted,
        "max_length": None if length is None else int(length),
        "rest": _rest(raw, _INPUT if is_input else _OUTPUT),
    }


def _type(raw: dict[str, Any], where: str, *, is_input: bool) -> tuple[ParameterType, str]:
    # The type, and the vendor's word for it when it is not one that can be used here.
    word = raw.get("type")
    if word is None:
        return "string", ""
    kind = _TYPES.get(word) if isinstance(word, str) else None
    if kind is None:
        word = members.name(raw, "type", where).strip()
        kind = _TYPES.get(word.lower())
    # By design of the drafts, an input is never JSON.
    return ("json", word) if kind is None or (kind == "json" and is_input) else (kind, "")


def _allowed_values(raw: dict[str, Any], where: str) -> tuple[AllowedValue, ...]:
    member = members.alias(raw, _ALLOWED_VALUES, where)
    if member is None:
        return ()
    value = raw[member]
    if isinstance(value, dict):
        # The drafts' figure is an array in an object, which no JSON can be; these are two ways to read it.
        only = next(iter(value.values()), None)
        if len(value) == 1 and isinstance(only, list):
            value = only
        else:
            value = [{"name": name, "description": text} for name, text in value.items()]
    if not isinstance(value, list):
        raise members.wrong(f"{where}{member}", value, "an array")
    found = []
    for number, entry in enumerate(value):
        place = f"{where}{member}[{number}]"
        said = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(said, dict):
            raise members.wrong(place, said, "an object or text")
        name = members.name(said, "name", f"{place}.")
        found.append(AllowedValue(name, members.text(said, "description", f"{place}.")))
    members.unique([allowed.name for allowed in found], f"{where}{member}")
    return tuple(found)


def write(signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
    version = int(label) if label.isascii() and label.isdigit() else label
    said: dict[str, Any] = {
        "toolId": tool_id,
        "version": version,
        "currentVersion": version,
        "name": signature.name,
        "description": signature.description,
        "img": signature.img or None,
        "tags": list(signature.tags) or None,
        "input_parameters": [_written_parameter(each, is_input=True) for each in signature.inputs],
        "output_parameters": [_written_parameter(each, is_input=False) for each in signature.outputs],
    }
    return {member: value for member, value in said.items() if value is not None} | (signature.rest or {})


def standard_form(document: dict[str, Any], tool_id: str, label: str) -> dict[str, Any]:
    # Parameters are known by their ids, so their order says nothing, nor does that of the tags.
    written = write(read(document), tool_id.lower() if UUID.fullmatch(tool_id) else tool_id, label)
    for member in ("input_parameters", "output_parameters"):
        written[member] = sorted(written[member], key=lambda parameter: parameter["id"])
    for parameter in written["input_parameters"]:
        if parameter["type"] == "int" and parameter.get("max") == MAX_BY_DEFAULT:
            del parameter["max"]
    for parameter in written["output_parameters"]:
        parameter.pop("required", None)
    return written | {"tags": sorted(written.get("tags", []))}


def audience_form(parameter: dict[str, Any], read_at: datetime | None) -> dict[str, Any]:
    """Return a form that is the same for two written parameters that no model and no call tells apart."""
    form: dict[str, Any] = audience.without_extensions(parameter)
    if isinstance(form.get("allowed-values"), list):
        form["allowed-values"] = audience.in_one_order(form["allowed-values"])
    if read_at and "default" in form:
        form["default"] = audience.without_moments(form["default"], read_at)
    return form


def _written_parameter(parameter: Parameter, *, is_input: bool) -> dict[str, Any]:
    allowed = [
        {"name": value.name} | ({"description": value.description} if value.description else {})
        for value in parameter.allowed_values
    ]
    said: dict[str, Any] = {
        "id": parameter.id,
        "name": parameter.name,
        "type": parameter.unsupported_type or parameter.type,
        "description": parameter.description,
        "required": parameter.required if is_input else None,
        "allowed-values": allowed or None,
        "min": parameter.min,
        "max": None if parameter.max_defaulted else parameter.max,
        "max-length": parameter.max_length,
    }
    return {member: value for member, value in said.items() if value is not None} | (parameter.rest or {})
