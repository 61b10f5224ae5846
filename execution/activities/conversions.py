"""Conversion of values from one type to another. Pure.

A text becomes a number only if it contains one, and no value is invented. The receiving tool checks the rules
of its schema that a type cannot express.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from core.schema.dialects import dialect_of, normalize_level
from core.schema.types import type_words
from protocols.signature import Parameter, ParameterType

# `perhaps`: it depends on the value, which is checked when there is one.
Fit = Literal["same", "converted", "perhaps", "no"]
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?")
_BOOLEANS = {"true": True, "false": False}
_FITS: Mapping[tuple[ParameterType, ParameterType], Fit] = {
    ("int", "number"): "same",
    ("enum", "string"): "same",
    **{(scalar, "string"): "converted" for scalar in ("int", "number", "boolean")},
    **{("string", other): "perhaps" for other in ("int", "number", "boolean", "enum")},
    **{("enum", other): "perhaps" for other in ("int", "number", "boolean")},
    **{(other, "enum"): "perhaps" for other in ("int", "number", "boolean")},
    ("number", "int"): "perhaps",
}
# The names of the types in JSON Schema.
_IN_SCHEMAS = {
    "string": "string",
    "enum": "string",
    "int": "integer",
    "number": "number",
    "boolean": "boolean",
}


class UnfitValueError(ValueError):
    """A value does not fit. The message is the end of a sentence about the value."""


def conversion_fit(source: Parameter, target: Parameter) -> Fit:
    """Return whether values of one parameter may be used for the other one."""
    if "json" in (source.type, target.type):
        source_types, target_types = _accepted_types(source), _accepted_types(target)
        if not source_types or not target_types:
            return "same" if source.type == target.type else "perhaps"
        return "same" if source_types <= target_types else "perhaps" if source_types & target_types else "no"
    if source.type == target.type != "enum":
        return "same"
    if source.type == target.type == "enum":
        source_values, target_values = _allowed_names(source), _allowed_names(target)
        return (
            "same" if source_values <= target_values else "perhaps" if source_values & target_values else "no"
        )
    return _FITS.get((source.type, target.type), "no")


def convert_value(value: Any, target: Parameter) -> Any:
    """Return the value in the target's type. Raises UnfitValueError."""
    if value is None or target.type == "json":
        return value
    result: Any
    if target.type in ("string", "enum"):
        is_scalar = isinstance(value, bool | int | float)
        result = value if isinstance(value, str) else json.dumps(value) if is_scalar else None
    elif target.type == "boolean":
        result = _BOOLEANS.get(value.lower()) if isinstance(value, str) else value
        result = result if isinstance(result, bool) else None
    else:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value) if _WHOLE.fullmatch(value) else float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            result = None
        elif target.type == "int":
            result = int(value) if value == int(value) else None
        else:
            result = value
    if result is None:
        raise UnfitValueError(f"cannot become {_WANTED[target.type]}")
    return result


_WANTED: Mapping[ParameterType, str] = {
    "string": "a text",
    "enum": "a text",
    "int": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def _accepted_types(parameter: Parameter) -> set[str]:
    """Return the JSON types that the parameter accepts beside null; none where its schema states none."""
    if parameter.type != "json":
        return {_IN_SCHEMAS[parameter.type]}
    if not isinstance(parameter.schema, dict):
        return set()
    level, _ = normalize_level(parameter.schema, dialect_of(parameter.schema))
    return set(type_words(level)) - {"null"}


def _allowed_names(parameter: Parameter) -> set[str]:
    return {value.name for value in parameter.allowed_values}
