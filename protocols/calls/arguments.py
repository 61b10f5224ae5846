"""What is wrong with the arguments of a call, judged by the signature before anything is sent."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.schema import error_messages, subschemas, validation
from protocols import parameters as json_schema
from protocols.signature import Parameter, Signature

_FORMS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "must be text"),
    "enum": ((str,), "must be text"),
    "int": ((int,), "must be a whole number"),
    "number": ((int, float), "must be a number"),
    "boolean": ((bool,), "must be true or false"),
}
# With these, an object schema may take names that it does not list.
_OPENING = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "$ref")
_CLOSING = ("additionalProperties", "unevaluatedProperties")
UNKNOWN = "is not an input of this tool"
# What is wrong with the inputs together goes by this name.
TOGETHER = ""
TOO_LARGE = "is too large or too deeply nested to be sent"
MAX_REASONS = 3  # for one input
# Larger whole numbers stay as they were written: from here on JavaScript, too, writes an exponent.
MAX_WRITTEN_OUT = 10**21


def problems(signature: Signature, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Why each argument that does not fit does not, by input name; all of them at once.

    None is not given, except where an input takes null.
    """
    sent = given(signature, arguments)
    rest = signature.schema_rest or {}
    takes_others = any(rest.get(keyword, False) is not False for keyword in _CLOSING) or any(
        keyword in rest for keyword in _OPENING
    )
    known = {parameter.name for parameter in signature.inputs}
    found = {} if takes_others else {name: UNKNOWN for name in sent if name not in known}
    for parameter in signature.inputs:
        if parameter.name not in sent:
            why = "is required" if parameter.required else ""
        else:
            why = _problem(parameter, sent[parameter.name]) if parameter.schema is None else ""
        if why:
            found[parameter.name] = why
    return found | _by_schema(signature, {name: sent[name] for name in sent if name not in found}, found)


def why_not(parameter: Parameter, value: object, rest: Mapping[str, Any]) -> str:
    """Why one input cannot take `value`, by its own schema alone; "" when it can.

    `rest` is the signature's, for the definitions that the input's schema may refer to.
    """
    kept = {keyword: rest[keyword] for keyword in ("$schema", *subschemas.DEFINITIONS) if keyword in rest}
    alone = Signature(name="", description="", inputs=(parameter,), schema_rest=kept)
    if value is None and not given(alone, {parameter.name: None}):
        return "must not be null"
    return problems(alone, {parameter.name: value}).get(parameter.name, "")


def given(signature: Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are sent: None says that one is not given, unless its input takes null."""
    nullable = {p.name for p in signature.inputs if p.schema is not None and _takes_null(p.schema)}
    return {
        name: with_whole_numbers(value)
        for name, value in arguments.items()
        if value is not None or name in nullable
    }


def with_whole_numbers(value: Any) -> Any:
    """Return the same JSON value with 5.0 written as 5, at any depth.

    JSON Schema counts a number with a zero fraction as an integer (validation, 6.1.1), but a program that
    parses `?n=5.0` does not.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_WRITTEN_OUT:
        return int(value)
    if isinstance(value, list):
        return [with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: with_whole_numbers(member) for name, member in value.items()}
    return value


def unchecked(signature: Signature) -> str:
    """A sentence about the vendor's rules that cannot be judged here; "" when there are none."""
    return validation.checked(_schema(signature)).remark if _has_schema(signature) else ""


def _has_schema(signature: Signature) -> bool:
    return signature.schema_rest is not None or any(p.schema is not None for p in signature.inputs)


def _schema(signature: Signature) -> Any:
    return json_schema.write(signature.inputs, signature.schema_rest)


def _by_schema(signature: Signature, sent: Mapping[str, Any], found: Mapping[str, str]) -> dict[str, str]:
    if not _has_schema(signature):
        return {}
    if validation.is_too_large(dict(sent)):
        return {name: TOO_LARGE for name, value in sent.items() if validation.is_too_large(value)} or {
            TOGETHER: f"What is given {TOO_LARGE}."
        }
    whole = next((parameter.name for parameter in signature.inputs if parameter.is_whole), None)
    if whole is not None and whole not in sent:
        return {}
    ready = validation.checked(_schema(signature))
    faults = validation.faults(ready, dict(sent) if whole is None else sent[whole])
    said: dict[str, list[str]] = {}
    for fault in sorted(faults, key=lambda fault: error_messages.place(fault.path)):
        path = fault.path if whole is None else (whole, *fault.path)
        name, why = _about(path, fault.why)
        if name not in found and not (name == TOGETHER and found):
            said.setdefault(name, []).append(why)
    return {name: "; ".join(reasons[:MAX_REASONS]) for name, reasons in said.items()}


def _about(path: Sequence[str | int], why: str) -> tuple[str, str]:
    if not path:
        return TOGETHER, f"The inputs do not fit together: what is given {why}."
    name = str(path[0])
    if len(path) > 1:
        return name, f"{error_messages.place(path)} {why}"
    return name, UNKNOWN if why == error_messages.UNKNOWN else why


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return schema is True
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return isinstance(values, list) and None in values
    if "type" in schema:
        kind = schema["type"]
        return schema.get("nullable") is True or kind == "null" or (isinstance(kind, list) and "null" in kind)
    forms = [*_forms(schema, "anyOf"), *_forms(schema, "oneOf")]
    if forms:
        return any(_takes_null(form) for form in forms)
    return not any(keyword in schema for keyword in ("$ref", "$dynamicRef", "allOf", "not", "if"))


def _forms(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    forms = schema.get(keyword)
    return forms if isinstance(forms, list) else []


def _problem(parameter: Parameter, value: object) -> str:
    types, complaint = _FORMS.get(parameter.type, ((object,), ""))
    # A bool is an int to isinstance(), so that True would pass for a number.
    if not isinstance(value, types) or (isinstance(value, bool) and parameter.type in ("int", "number")):
        return complaint
    names = [allowed.name for allowed in parameter.allowed_values]
    if names and value not in names:
        return f"must be one of {', '.join(names[:20])}{', …' if len(names) > 20 else ''}"
    if isinstance(value, str) and parameter.max_length is not None and len(value) > parameter.max_length:
        return f"must not be longer than {parameter.max_length} characters"
    if not isinstance(value, int | float):
        return ""
    if parameter.min is not None and value < parameter.min:
        return f"must be at least {parameter.min}"
    if parameter.max is not None and value > parameter.max:
        stated = ", as the vendor names no maximum of its own" if parameter.max_defaulted else ""
        return f"must be at most {parameter.max}{stated}"
    return ""
