"""The loss report: members of a vendor's document that the normal form cannot reproduce."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.schema import pointers
from core.schema.types import is_number
from core.value_descriptions import describe_value

_ABSENT = object()


class Loss(msgspec.Struct, frozen=True):
    """A member that would differ. path: a JSON Pointer into the vendor's document."""

    path: str
    message: str


def losses(document: dict[str, Any], rewritten: dict[str, Any]) -> list[str]:
    """Return the JSON Pointers of the members in which `rewritten` differs from its source `document`."""
    return [path for path, _, _ in _find_differences(document, rewritten, "")]


def report(document: dict[str, Any], rewritten: dict[str, Any]) -> list[Loss]:
    report = []
    for path, before, after in _find_differences(document, rewritten, ""):
        name = printable(pointers.split(path)[-1], 60)
        if after is _ABSENT:
            message = f"“{name}” is stored in the vendor's document only."
        elif before is _ABSENT:
            message = f"“{name}” is read as {_describe(after)}; the vendor omitted it."
        else:
            message = f"“{name}” is read as {_describe(after)}; the vendor wrote {_describe(before)}."
        report.append(Loss(path, message))
    return report


def _describe(value: object) -> str:
    return "null" if value is None else describe_value(value)


def _find_differences(before: object, after: object, path: str) -> Iterator[tuple[str, object, object]]:
    if before is not _ABSENT and after is not _ABSENT:
        if is_number(before) and is_number(after):
            # JSON has one type of number, and the database returns 1e22 as an integer.
            is_equal = before == after or _as_float(before) == _as_float(after) != math.inf
        else:
            is_equal = canonical(before) == canonical(after)
        if is_equal:
            return
    if isinstance(before, dict) and isinstance(after, dict):
        for member in sorted(before.keys() | after.keys()):
            member_path = f"{path}/{pointers.escape(member)}"
            yield from _find_differences(before.get(member, _ABSENT), after.get(member, _ABSENT), member_path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _find_differences(*pair, f"{path}/{number}")
    else:
        yield path, before, after


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
