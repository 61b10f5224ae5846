"""What is wrong with the arguments of a call, judged by the signature before anything is sent."""

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.protocols.signature import Parameter

_FORMS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "must be text"),
    "enum": ((str,), "must be text"),
    "int": ((int,), "must be a whole number"),
    "number": ((int, float), "must be a number"),
    "boolean": ((bool,), "must be true or false"),
}


def problems(inputs: Sequence[Parameter], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Why each argument that does not fit does not, by input name; all of them at once. None is not given."""
    known = {parameter.name for parameter in inputs}
    found = {name: "is not an input of this tool" for name in arguments if name not in known}
    for parameter in inputs:
        value = arguments.get(parameter.name)
        why = _problem(parameter, value) if value is not None else parameter.required and "is required"
        if why:
            found[parameter.name] = why
    return found


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
    return _out_of_bounds(parameter, value) if isinstance(value, int | float) else ""


def _out_of_bounds(parameter: Parameter, value: float) -> str:
    if parameter.min is not None and value < parameter.min:
        return f"must be at least {parameter.min}"
    if parameter.max is not None and value > parameter.max:
        stated = ", as the vendor names no maximum of its own" if parameter.max_defaulted else ""
        return f"must be at most {parameter.max}{stated}"
    return ""
