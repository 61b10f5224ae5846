"""The loss report: what the normal form cannot give back of a vendor's document."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.schema import pointers
from core.value_descriptions import describe_value

_ABSENT = object()


class Loss(msgspec.Struct, frozen=True):
    """One member that would differ. `path` is a JSON Pointer into the vendor's document."""

    path: str
    message: str


def losses(document: dict[str, Any], written: dict[str, Any]) -> list[str]:
    """The members, as JSON Pointers, in which `written` differs from the `document` it was read from."""
    return [path for path, _, _ in _differences(document, written, "")]


def report(document: dict[str, Any], written: dict[str, Any]) -> list[Loss]:
    found = []
    for path, before, after in _differences(document, written, ""):
        name = printable(pointers.split(path)[-1], 60)
        if after is _ABSENT:
            message = f"“{name}” is kept in the vendor's document only."
        elif before is _ABSENT:
            message = f"“{name}” is taken to be {_value(after)}; the vendor left it out."
        else:
            message = f"“{name}” is read as {_value(after)}; the vendor wrote {_value(before)}."
        found.append(Loss(path, message))
    return found


def _value(value: object) -> str:
    return "null" if value is None else describe_value(value)


def _differences(before: object, after: object, path: str) -> Iterator[tuple[str, object, object]]:
    if _same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for member in sorted(before.keys() | after.keys()):
            where = f"{path}/{member.replace('~', '~0').replace('/', '~1')}"
            yield from _differences(before.get(member, _ABSENT), after.get(member, _ABSENT), where)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _differences(*pair, f"{path}/{number}")
    else:
        yield path, before, after


def _same(before: object, after: object) -> bool:
    if before is _ABSENT or after is _ABSENT:
        return False
    if _is_number(before) and _is_number(after):
        # JSON has one kind of number, and the database gives 1e22 back as a whole one.
        return before == after or _as_float(before) == _as_float(after) != math.inf
    return canonical(before) == canonical(after)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
