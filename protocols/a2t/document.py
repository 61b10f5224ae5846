"""Convert a tool between the A2T document and the normal form."""

import re
from collections.abc import Iterator, Sequence, Set
from datetime import datetime
from typing import Any

from core.outbound.errors import printable
from core.schema import audience
from protocols import members
from protocols.a2t import conventions
from protocols.a2t.wire import INPUTS, OUTPUTS
from protocols.list_pages import UUID, UnreadableItemError
from protocols.signature import AllowedValue, Parameter, ParameterType, Signature

MAX_TAG_LENGTH = 255
MAX_TAGS = 1000
MAX_PARAMETERS = 1000
MAX_VALUES = 10_000
MAX_BY_DEFAULT = 65535
MAX_VERSION = 2**53 - 1  # beyond it, JSON readers disagree about integers
MAX_TOOL_ID_LENGTH = 255

# The limits of the drafts. A vendor that exceeds one gets a note.
NAME_LIMIT = 254
DESCRIPTION_LIMIT = 1999
VALUE_NAME_LIMIT = 255
VALUE_DESCRIPTION_LIMIT = 2000

_TOOL_ID = re.compile(rf"(?!\.\.?\Z)[^/?#\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{MAX_TOOL_ID_LENGTH}}}")
_VERSION = re.compile(r"[0-9]{1,16}")

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
        *(INPUTS, OUTPUTS),
    }
)
# The output of a tool that declares none: the drafts require at least one.
RESULT = "result"
NO_OUTPUT = Parameter(
    id=RESULT,
    name=RESULT,
    type="json",
    required=False,
    description="What the tool answers. Its vendor declares no outputs.",
)
_PLAIN_OUTPUT = {"id", "name", "type", "description"}
_PLAIN_INPUT = _PLAIN_OUTPUT | {"required"}
_OUTPUT = _PLAIN_OUTPUT | {"min", "max", *_MAX_LENGTH, *_ALLOWED_VALUES}
_INPUT = _OUTPUT | {"required"}


def read_tool_id(document: dict[str, Any]) -> str:
    """Return the vendor's id of the tool. Raises UnreadableItemError."""
    value = document.get("toolId")
    if "toolID" in document or "tool_id" in document:
        try:
            value = document.get(members.alias(document, TOOL_ID_NAMES) or "toolId")
        except UnreadableItemError as error:
            raise UnreadableItemError("BAD_TOOL_ID", error.reason) from error
    if isinstance(value, str) and _TOOL_ID.fullmatch(value):
        return value
    expected = f"text of 1 to {MAX_TOOL_ID_LENGTH} characters without / ? # and control characters"
    raise members.wrong("toolId", value, expected, code="BAD_TOOL_ID")


def read_version(document: dict[str, Any]) -> int:
    """Return the number of the version. Raises UnreadableItemError."""
    value = document.get("version")
    if isinstance(value, str) and _VERSION.fullmatch(value):
        value = int(value)
    if type(value) is int and 1 <= value <= MAX_VERSION:
        return value
    raise members.wrong("version", document.get("version"), "a whole number from 1 up", code="BAD_VERSION")


def read_signature(document: dict[str, Any]) -> Signature:
    inputs = members.array(document, INPUTS)
    outputs = members.array(document, OUTPUTS)
    tags = members.array(document, "tags")
    for entries, limit, noun in ((inputs + outputs, MAX_PARAMETERS, "parameters"), (tags, MAX_TAGS, "tags")):
        if len(entries) > limit:
            reason = f"The tool has {len(entries):,} {noun}; the limit is {limit:,}."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    for number, tag in enumerate(tags):
        if not isinstance(tag, str) or len(tag) > MAX_TAG_LENGTH:
            raise members.wrong(f"tags[{number}]", tag, f"text of at most {MAX_TAG_LENGTH} characters")
    return Signature(
        name=members.name(document, "name", code="BAD_NAME"),
        description=members.text(document, "description"),
        img=members.text(document, "img"),
        tags=tuple(tags),
        inputs=_parameters(inputs, INPUTS, is_input=True),
        outputs=_parameters(outputs, OUTPUTS, is_input=False),
        rest=_unknown_members(document, MEMBERS),
    )


def _unknown_members(raw: dict[str, Any], known_members: Set[str]) -> dict[str, Any] | None:
    if raw.keys() <= known_members:
        return None
    return {member: value for member, value in raw.items() if member not in known_members}


def _parameters(raw: list[Any], where: str, *, is_input: bool) -> tuple[Parameter, ...]:
    parameters = [
        _plain(entry, is_input=is_input) or _parameter(entry, f"{where}[{n}]", is_input=is_input)
        for n, entry in enumerate(raw)
    ]
    members.unique([parameter.id for parameter in parameters], f"{where}.id")
    if is_input:
        # Some vendors repeat names of outputs. That is harmless, because no caller has to choose one.
        members.unique([parameter.name for parameter in parameters], f"{where}.name")
    if sum([len(parameter.allowed_values) for parameter in parameters]) > MAX_VALUES:
        reason = f"“{where}” allow more than {MAX_VALUES:,} values, which is the limit."
        raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    return tuple(parameters)


def _plain(raw: object, *, is_input: bool) -> Parameter | None:
    """Return a simple parameter, as most are, or None for one that `_parameter` has to read."""
    # This runs for every parameter of every new tool, so it calls few functions.
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
    description = members.text(raw, "description", where)
    allowed = _allowed_values(raw, where)
    if kind == "enum" and is_input and not allowed:
        raise members.wrong(f"{where}allowed-values", None, "there for an enum, and not empty")
    maximum = members.number(raw, "max", where, is_whole=kind == "int")
    is_defaulted = is_input and kind == "int" and maximum is None
    minimum = members.number(raw, "min", where, is_whole=kind == "int")
    member = members.alias(raw, _MAX_LENGTH, where)
    length = members.number(raw, member, where, is_whole=True) if member else None
    if length is not None and length < 0:
        raise members.wrong(f"{where}{member}", length, "0 or more")
    return Parameter(
        id=str(key),
        name=name,
        type=kind,
        required=is_input and required is not False,
        description=description,
        unsupported_type=unsupported,
        allowed_values=allowed,
        min=minimum,
        max=MAX_BY_DEFAULT if is_defaulted else maximum,
        max_defaulted=is_defaulted,
        max_length=None if length is None else int(length),
        rest=_unknown_members(raw, _INPUT if is_input else _OUTPUT),
    )


def _type(raw: dict[str, Any], where: str, *, is_input: bool) -> tuple[ParameterType, str]:
    """Return the type, and the vendor's name of it if Pegboard cannot use it."""
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
        # The figure in the drafts is an array in an object, which is not JSON. Both readings are accepted.
        only = next(iter(value.values()), None)
        if len(value) == 1 and isinstance(only, list):
            value = only
        else:
            value = [{"name": name, "description": text} for name, text in value.items()]
    if not isinstance(value, list):
        raise members.wrong(f"{where}{member}", value, "an array")
    values = []
    for number, raw_value in enumerate(value):
        path = f"{where}{member}[{number}]"
        entry = {"name": raw_value} if isinstance(raw_value, str) else raw_value
        if not isinstance(entry, dict):
            raise members.wrong(path, entry, "an object or text")
        name = members.name(entry, "name", f"{path}.")
        values.append(AllowedValue(name, members.text(entry, "description", f"{path}.")))
    members.unique([allowed.name for allowed in values], f"{where}{member}")
    return tuple(values)


def compose(
    tool_id: str,
    label: str,
    *,
    name: str,
    description: str,
    inputs: list[dict[str, Any]],
    outputs: list[dict[str, Any]],
    img: str = "",
    tags: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a document. inputs, outputs: from `write_parameter`."""
    version = int(label) if label.isascii() and label.isdigit() else label
    document: dict[str, Any] = {
        "toolId": tool_id,
        "name": name,
        "description": description,
        "version": version,
        "currentVersion": version,
        INPUTS: inputs,
        OUTPUTS: outputs,
    }
    if img:
        document["img"] = img
    if tags:
        document["tags"] = list(tags)
    return document


def write(signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
    document = compose(
        tool_id,
        label,
        name=signature.name,
        description=signature.description,
        inputs=[write_parameter(parameter, is_input=True) for parameter in signature.inputs],
        outputs=[write_parameter(parameter, is_input=False) for parameter in signature.outputs],
        img=signature.img,
        tags=signature.tags,
    )
    return document | signature.rest if signature.rest else document


def standard_form(document: dict[str, Any]) -> dict[str, Any]:
    """Return a form that is equal for documents with the same meaning in the drafts."""
    # Ids identify parameters, so their order has no meaning, nor has the order of tags.
    tool_id, label = read_tool_id(document), str(read_version(document))
    form = write(read_signature(document), tool_id.lower() if UUID.fullmatch(tool_id) else tool_id, label)
    for member in (INPUTS, OUTPUTS):
        form[member] = sorted(form[member], key=lambda parameter: parameter["id"])
    for parameter in form[INPUTS]:
        if parameter["type"] == "int" and parameter.get("max") == MAX_BY_DEFAULT:
            del parameter["max"]
    for parameter in form[OUTPUTS]:
        parameter.pop("required", None)
    return form | {"tags": sorted(form.get("tags", []))}


def audience_form(parameter: dict[str, Any], read_at: datetime | None) -> dict[str, Any]:
    """Return a form that is equal for parameters that do not differ for models and calls."""
    form: dict[str, Any] = audience.without_extensions(parameter)
    if isinstance(form.get("allowed-values"), list):
        form["allowed-values"] = audience.in_one_order(form["allowed-values"])
    if read_at and "default" in form:
        form["default"] = audience.without_moments(form["default"], read_at)
    return form


def write_parameter(parameter: Parameter, *, is_input: bool, is_strict: bool = False) -> dict[str, Any]:
    """Return a parameter in the form of the drafts. is_strict: each allowed value has a description, as the
    drafts require."""
    # This runs for every parameter of every export, so it creates only what it needs.
    document: dict[str, Any] = {
        "id": parameter.id,
        "name": parameter.name,
        "type": parameter.unsupported_type or parameter.type,
        "description": parameter.description,
    }
    if parameter.allowed_values:
        document["allowed-values"] = [
            {"name": value.name, "description": value.description}
            if is_strict or value.description
            else {"name": value.name}
            for value in parameter.allowed_values
        ]
    if parameter.min is not None:
        document["min"] = parameter.min
    if parameter.max is not None and not parameter.max_defaulted:
        document["max"] = parameter.max
    if parameter.max_length is not None:
        document["max-length"] = parameter.max_length
    if is_input:
        document["required"] = parameter.required
    return document | parameter.rest if parameter.rest else document


def oddities(document: dict[str, Any], signature: Signature) -> Iterator[tuple[str, str]]:
    tool = f"“{printable(signature.name, 60)}”"
    if not UUID.fullmatch(read_tool_id(document)):
        yield "NOT_A_UUID", f"The id of {tool} is not a UUID."
    if len(signature.name) > NAME_LIMIT:
        yield "LONG_NAME", f"The name of {tool} is longer than {NAME_LIMIT} characters."
    if len(signature.description) > DESCRIPTION_LIMIT:
        yield "LONG_DESCRIPTION", f"The description of {tool} is longer than {DESCRIPTION_LIMIT} characters."
    yield from _broken_conventions(signature, tool)
    if not signature.outputs:
        yield "NO_OUTPUTS", f"{tool} names no output."
    if len({output.name for output in signature.outputs}) < len(signature.outputs):
        yield "SAME_OUTPUT_NAME", f"{tool} has two outputs with the same name."
    for parameter in (*signature.inputs, *signature.outputs):
        if parameter.unsupported_type or parameter.min is not None or parameter.allowed_values:
            yield from _odd_parameter(parameter, tool)
    for raw in (*(document.get(INPUTS) or ()), *(document.get(OUTPUTS) or ())):
        if raw.get("id") is None:
            yield "NO_PARAMETER_ID", f"“{printable(raw['name'], 60)}” of {tool} has no id; its name is used."


def _broken_conventions(signature: Signature, tool: str) -> Iterator[tuple[str, str]]:
    if not conventions.is_snake_case(signature.name):
        yield "NOT_SNAKE_CASE", f"The name {tool} is not in snake case."
    if conventions.is_foreign(signature.name, signature.description):
        yield "NOT_ENGLISH", f"The name or the description of {tool} is not in English."


def _odd_parameter(parameter: Parameter, tool: str) -> Iterator[tuple[str, str]]:
    name = f"“{printable(parameter.name, 60)}” of {tool}"
    if parameter.unsupported_type:
        word = printable(parameter.unsupported_type, 60)
        yield "UNSUPPORTED_TYPE", f"{name} is of type “{word}”, which cannot be used there."
    if parameter.min is not None and parameter.max is not None and parameter.min > parameter.max:
        yield "NO_VALUE_FITS", f"{name} has a minimum above its maximum, so no value fits."
    for allowed in parameter.allowed_values:
        if len(allowed.name) > VALUE_NAME_LIMIT or len(allowed.description) > VALUE_DESCRIPTION_LIMIT:
            yield "LONG_VALUE", f"An allowed value of {name} is longer than the drafts permit."
    if not all(conventions.is_capital_snake_case(allowed.name) for allowed in parameter.allowed_values):
        yield "VALUE_NOT_CAPITAL", f"An allowed value of {name} is not in capital snake case."
