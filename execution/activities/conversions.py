"""Values of one type where another one is wanted: pure rules.

A text becomes a number only where it says one, and nothing is made up. What a type cannot say, the tool that
takes the value judges by its own schema.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from core.schema.dialects import dialect_of, normalize_level
from core.schema.types import type_words
from protocols.signature import Parameter, ParameterType

# `perhaps`: it depends on the value, and is judged when the value is there.
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
# What JSON Schema calls a type, by our word for it.
_IN_SCHEMAS = {
    "string": "string",
    "enum": "string",
    "int": "integer",
    "number": "number",
    "boolean": "boolean",
}


class UnfitValueError(ValueError):
    """The message is the end of a sentence about the value."""


def fit(source: Parameter, target: Parameter) -> Fit:
    """Whether values of one parameter can go where the other one wants them."""
    if "json" in (source.type, target.type):
        given, wanted = _types(source), _types(target)
        if not given or not wanted:
            return "same" if source.type == target.type else "perhaps"
        return "same" if given <= wanted else "perhaps" if given & wanted else "no"
    if source.type == target.type != "enum":
        return "same"
    if source.type == target.type == "enum":
        given, wanted = _values(source), _values(target)
        return "same" if given <= wanted else "perhaps" if given & wanted else "no"
    return _FITS.get((source.type, target.type), "no")


def converted(value: Any, target: Parameter) -> Any:
    """The value as the target's type wants it. Raises UnfitValueError."""
    if value is None or target.type == "json":
        return value
    found: Any
    if target.type in ("string", "enum"):
        found = _text(value)
    elif target.type == "boolean":
        found = _BOOLEANS.get(value.lower()) if isinstance(value, str) else value
        found = found if isinstance(found, bool) else None
    else:
        found = _number(value, is_whole=target.type == "int")
    if found is None:
        raise UnfitValueError(f"cannot become {_WANTED[target.type]}")
    return found


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def _number(value: Any, *, is_whole: bool) -> int | float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value) if _WHOLE.fullmatch(value) else float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if not is_whole:
        return value
    return int(value) if value == int(value) else None


_WANTED: Mapping[ParameterType, str] = {
    "string": "a text",
    "enum": "a text",
    "int": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def _types(parameter: Parameter) -> set[str]:
    """Return the JSON types that the parameter accepts beside null; none where its schema states none."""
    if parameter.type != "json":
        return {_IN_SCHEMAS[parameter.type]}
    if not isinstance(parameter.schema, dict):
        return set()
    level, _ = normalize_level(parameter.schema, dialect_of(parameter.schema))
    return set(type_words(level)) - {"null"}


def _values(parameter: Parameter) -> set[str]:
    return {value.name for value in parameter.allowed_values}
