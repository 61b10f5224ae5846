"""The rules of a schema that a number or a text is measured by, and what fits them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from catalog.rules.diff.changes import Kind
from catalog.rules.diff.normal import APPLIES_TO, types
from core.schema.types import NUMBER, type_of

Difference = tuple[str, Kind, object, object]
Bound = tuple[float, bool]

_COUNTS = {
    "minLength": False,
    "maxLength": True,
    "minItems": False,
    "maxItems": True,
    "minProperties": False,
    "maxProperties": True,
}
# A format that takes whatever the other one takes.
_WIDER_FORMATS = {("int32", "int64"), ("float", "double"), ("int32", "double")}
_SCALARS = frozenset({"null", "boolean", "string"}) | NUMBER
_MEASURED = {
    *("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength"),
}


def between(old: Mapping[str, Any], new: Mapping[str, Any], common: frozenset[str]) -> Iterator[Difference]:
    """Member, kind, before and after of each rule that differs.

    The kind `changed` means that it cannot be told which of the two lets more values in.
    """
    if common & NUMBER:
        yield from _bounds(old, new, is_whole="fraction" not in common)
        yield from _steps(old.get("multipleOf"), new.get("multipleOf"))
    for member, rises in _COUNTS.items():
        if common & APPLIES_TO[member]:
            before, after = _count(old, member), _count(new, member)
            if before != after:
                yield member, moved(before, after, rises=rises), before, after
    if "array" in common and (old.get("uniqueItems") is True) != (new.get("uniqueItems") is True):
        is_set = new.get("uniqueItems") is True
        yield "uniqueItems", "narrowed" if is_set else "widened", not is_set, is_set
    for member in ("pattern", "format"):
        if common & APPLIES_TO[member]:
            yield from _text_rule(member, old.get(member), new.get(member))


def moved(before: float | None, after: float | None, *, rises: bool) -> Kind:
    """Whether more values fit after a limit moved; `rises` says that a higher limit lets more in."""
    if before is None or after is None:
        return "widened" if after is None else "narrowed"
    return "widened" if (after > before) is rises else "narrowed"


def _bounds(old: Mapping[str, Any], new: Mapping[str, Any], *, is_whole: bool) -> Iterator[Difference]:
    for member, sign in (("minimum", 1), ("maximum", -1)):
        before, after = _bound(old, member, sign, is_whole), _bound(new, member, sign, is_whole)
        if before == after:
            continue
        if before is None or after is None:
            kind: Kind = "widened" if after is None else "narrowed"
        else:
            kind = "narrowed" if _tightness(after, sign) > _tightness(before, sign) else "widened"
        yield member, kind, _bound_shown(before, sign), _bound_shown(after, sign)


def _bound(schema: Mapping[str, Any], member: str, sign: int, is_whole: bool) -> Bound | None:
    # The tighter of the inclusive and the exclusive limit, and whether the limit itself is excluded.
    exclusive = "exclusiveMinimum" if sign > 0 else "exclusiveMaximum"
    found: list[Bound] = []
    for value, is_out in ((schema.get(member), False), (schema.get(exclusive), True)):
        if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) == math.inf:
            continue
        if is_whole:
            # For whole numbers, above 0 is from 1 up.
            nearest = math.ceil(value) if sign > 0 else math.floor(value)
            found.append((nearest + sign if is_out and nearest == value else nearest, False))
        else:
            found.append((value, is_out))
    return max(found, key=lambda bound: _tightness(bound, sign), default=None)


def _tightness(bound: Bound, sign: int) -> tuple[float, bool]:
    return bound[0] * sign, bound[1]


def _bound_shown(bound: Bound | None, sign: int) -> object:
    if bound is None:
        return None
    value, is_out = bound
    return f"{'above' if sign > 0 else 'below'} {value}" if is_out else value


def _count(schema: Mapping[str, Any], member: str) -> int | None:
    value = schema.get(member)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value or (0 if member.startswith("max") else None)


def _steps(before: object, after: object) -> Iterator[Difference]:
    one, other = _step(before), _step(after)
    if one == other:
        return
    if one is None or other is None:
        kind: Kind = "widened" if other is None else "narrowed"
    elif one % other == 0:
        kind = "widened"
    else:
        kind = "narrowed" if other % one == 0 else "changed"
    yield "multipleOf", kind, before, after


def _step(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and value > 0 else None  # type: ignore[operator,return-value]


def _text_rule(member: str, before: object, after: object) -> Iterator[Difference]:
    if before == after:
        return
    kind: Kind = "changed"
    if before is None or after is None:
        kind = "widened" if after is None else "narrowed"
    elif isinstance(before, str) and isinstance(after, str) and member == "format":
        if (before, after) in _WIDER_FORMATS:
            kind = "widened"
        elif (after, before) in _WIDER_FORMATS:
            kind = "narrowed"
    yield member, kind, before, after


def fits(value: object, schema: Mapping[str, Any]) -> bool | None:
    """Whether a value fits; None where that cannot be told here, such as for objects and patterns."""
    if type_of(value) not in _SCALARS:
        return None
    said = {
        member for member, applies in APPLIES_TO.items() if member in schema and type_of(value) in applies
    }
    combining = {"anyOf", "oneOf", "allOf", "not", "if", "$ref", "$dynamicRef", "$recursiveRef"}
    if not said <= _MEASURED or combining & schema.keys():
        return None
    if type_of(value) not in types(schema):
        return False
    if isinstance(value, str):
        longest, shortest = _count(schema, "maxLength"), _count(schema, "minLength")
        return (shortest or 0) <= len(value) <= (math.inf if longest is None else longest)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _fits_number(value, schema)
    return True


def _fits_number(value: float, schema: Mapping[str, Any]) -> bool:
    for member, sign in (("minimum", 1), ("maximum", -1)):
        bound = _bound(schema, member, sign, is_whole=False)
        if bound is not None and (value * sign < bound[0] * sign or (bound[1] and value == bound[0])):
            return False
    step = _step(schema.get("multipleOf"))
    return step is None or value % step == 0
