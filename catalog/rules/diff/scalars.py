"""The rules of a schema that limit a number, a text or a count, and which values fit them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from catalog.rules.diff.changes import Kind
from core.schema.normal_form import APPLIES_TO, COMBINING
from core.schema.types import NUMBER, Bound, is_number, lower_bound, type_of, types_of, upper_bound

Difference = tuple[str, Kind, object, object]

_COUNTS = {
    "minLength": False,
    "maxLength": True,
    "minItems": False,
    "maxItems": True,
    "minProperties": False,
    "maxProperties": True,
}
# The second format accepts whatever the first one accepts.
_WIDER_FORMATS = {("int32", "int64"), ("float", "double"), ("int32", "double")}
_SCALARS = frozenset({"null", "boolean", "string"}) | NUMBER
_DECIDED = {
    *("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength"),
}


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], common: frozenset[str]
) -> Iterator[Difference]:
    """Yield keyword, kind, before and after of each rule that differs.

    The kind `changed` means that neither side accepts all that the other one accepts, or that this cannot be
    decided.
    """
    if common & NUMBER:
        yield from _bound_changes(old, new, is_whole="fraction" not in common)
        yield from _rule_changes("multipleOf", old.get("multipleOf"), new.get("multipleOf"))
    for keyword, rises in _COUNTS.items():
        if common & APPLIES_TO[keyword]:
            before, after = old.get(keyword), new.get(keyword)
            if before != after:
                yield keyword, kind_of_move(before, after, rises=rises), before, after
    if "array" in common and old.get("uniqueItems", False) != new.get("uniqueItems", False):
        is_set = new.get("uniqueItems", False)
        yield "uniqueItems", "narrowed" if is_set else "widened", not is_set, is_set
    for keyword in ("pattern", "format"):
        if common & APPLIES_TO[keyword]:
            yield from _rule_changes(keyword, old.get(keyword), new.get(keyword))


def kind_of_move(before: float | None, after: float | None, *, rises: bool) -> Kind:
    """Return whether more values fit after a limit moved. `rises`: a higher limit lets more in."""
    if before is None or after is None:
        return "widened" if after is None else "narrowed"
    return "widened" if (after > before) is rises else "narrowed"


def _bound_changes(old: Mapping[str, Any], new: Mapping[str, Any], *, is_whole: bool) -> Iterator[Difference]:
    for keyword, sign in (("minimum", 1), ("maximum", -1)):
        before, after = _bound(old, sign, is_whole), _bound(new, sign, is_whole)
        if before == after:
            continue
        if before is None or after is None:
            kind: Kind = "widened" if after is None else "narrowed"
        else:
            kind = "narrowed" if _tightness(after, sign) > _tightness(before, sign) else "widened"
        yield keyword, kind, _shown_bound(before, sign), _shown_bound(after, sign)


def _bound(schema: Mapping[str, Any], sign: int, is_whole: bool) -> Bound | None:
    bound = lower_bound(schema) if sign > 0 else upper_bound(schema)
    if bound is None or not is_whole:
        return bound
    # For whole numbers, above 0 is from 1 up.
    nearest = math.ceil(bound.value) if sign > 0 else math.floor(bound.value)
    is_excluded = bound.is_exclusive and nearest == bound.value
    return Bound(nearest + sign if is_excluded else nearest, is_exclusive=False)


def _tightness(bound: Bound, sign: int) -> tuple[float, bool]:
    return bound.value * sign, bound.is_exclusive


def _shown_bound(bound: Bound | None, sign: int) -> object:
    if bound is None:
        return None
    return f"{'above' if sign > 0 else 'below'} {bound.value}" if bound.is_exclusive else bound.value


def _rule_changes(keyword: str, before: Any, after: Any) -> Iterator[Difference]:
    if before == after:
        return
    kind: Kind = "changed"
    if before is None or after is None:
        kind = "widened" if after is None else "narrowed"
    elif keyword == "multipleOf":
        kind = "widened" if before % after == 0 else "narrowed" if after % before == 0 else "changed"
    elif keyword == "format" and (before, after) in _WIDER_FORMATS:
        kind = "widened"
    elif keyword == "format" and (after, before) in _WIDER_FORMATS:
        kind = "narrowed"
    yield keyword, kind, before, after


def fits(value: object, schema: Mapping[str, Any]) -> bool | None:
    """Return whether a value fits; None where that cannot be decided here, as for objects and patterns."""
    if type_of(value) not in _SCALARS:
        return None
    limiting = {keyword for keyword in schema if type_of(value) in APPLIES_TO.get(keyword, ())}
    if not limiting <= _DECIDED or (COMBINING - _DECIDED) & schema.keys():
        return None
    if type_of(value) not in types_of(schema):
        return False
    if isinstance(value, str):
        return bool(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", math.inf))
    if not is_number(value):
        return True
    for sign in (1, -1):
        bound = _bound(schema, sign, is_whole=False)
        if bound and (value * sign < bound.value * sign or (bound.is_exclusive and value == bound.value)):
            return False
    return "multipleOf" not in schema or value % schema["multipleOf"] == 0
