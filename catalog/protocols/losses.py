"""The loss report: what the normal form cannot give back of a vendor's document."""

from collections.abc import Iterator
from typing import Any

from catalog.protocols.base import canonical


def losses(document: dict[str, Any], written: dict[str, Any]) -> list[str]:
    """The members, as JSON Pointers, in which `written` differs from the `document` it was read from."""
    return list(_differences(document, written, ""))


def _differences(before: object, after: object, path: str) -> Iterator[str]:
    if canonical(before) == canonical(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for member in sorted(before.keys() | after.keys()):
            where = f"{path}/{member.replace('~', '~0').replace('/', '~1')}"
            if member in before and member in after:
                yield from _differences(before[member], after[member], where)
            else:
                yield where
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _differences(*pair, f"{path}/{number}")
    else:
        yield path
