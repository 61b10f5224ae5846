"""Sensitive members of inputs and outputs: which ones are proposed, and their values masked. Pure.

Members are named by JSON pointers without the indexes of lists: `/orders/card_number`.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from core.errors import DomainError
from core.schema import members, pointers
from protocols.signature import Parameter

MASK = "••••"
MAX_MEMBERS = 300
# A shorter value occurs in other texts by chance.
MIN_TEXT_LENGTH = 4
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class SensitiveMember(msgspec.Struct, frozen=True):
    """A member that is sensitive, or proposed to be. reason: why it is proposed, "" if it is not."""

    pointer: str
    reason: str


class _Rules(msgspec.Struct, frozen=True):
    formats: tuple[str, ...]
    names: tuple[str, ...]


@cache
def _load_rules() -> _Rules:
    text = Path(__file__).with_name("sensitive_names.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Rules)


def members_of(parameters: Iterable[Parameter]) -> list[SensitiveMember]:
    """Return the members of inputs or outputs, nested ones below their parents, up to MAX_MEMBERS."""
    rows: list[SensitiveMember] = []
    for parameter in parameters:
        for steps, schema in members.members_of(parameter.name, parameter.schema):
            if len(rows) == MAX_MEMBERS:
                return rows
            if members.is_write_only(schema):
                reason = "writeOnly"
            elif formats := members.formats_of(schema).intersection(_load_rules().formats):
                reason = f"format {min(formats)}"
            else:
                words = f" {' '.join(_WORD.findall(steps[-1])).lower()} "
                reason = next((f"name {rule}" for rule in _load_rules().names if f" {rule} " in words), "")
            rows.append(SensitiveMember(pointers.join(steps), reason))
    return rows


def mask(value: Any, marked_members: Collection[str]) -> Any:
    """Return the value with a mask in place of each marked member that is there."""
    return (
        _mask_value(value, [pointers.split(pointer) for pointer in marked_members])
        if marked_members
        else value
    )


def _mask_value(value: Any, marked_members: Collection[tuple[str, ...]]) -> Any:
    if () in marked_members:
        return MASK
    if isinstance(value, list):
        return [_mask_value(item, marked_members) for item in value]
    if not isinstance(value, dict):
        return value
    below = {name: [steps[1:] for steps in marked_members if steps[0] == name] for name in value}
    return {name: _mask_value(item, below[name]) if below[name] else item for name, item in value.items()}


def has_mask(value: Any) -> bool:
    """Return whether a mask is in place of the value or a part of it."""
    if isinstance(value, dict | list):
        return any(map(has_mask, value.values() if isinstance(value, dict) else value))
    return bool(value == MASK)


def values_behind_masks(masked: Any, stored: Any, *steps: str) -> Iterator[tuple[str, Any]]:
    """Return the pointer of each mask in a masked value, with the stored value behind it."""
    if masked == MASK:
        yield pointers.join(steps), stored
    elif isinstance(masked, dict):
        for name, value in masked.items():
            yield from values_behind_masks(value, stored[name], *steps, name)
    elif isinstance(masked, list):
        for index, value in enumerate(masked):
            yield from values_behind_masks(value, stored[index], *steps, str(index))


def mask_part(value: Any, steps: tuple[str, ...], marked_members: Collection[str]) -> Any:
    """Return the part of a document at this path, masked. marked_members: pointers into the whole document.

    value: None if the document has no such part.
    """
    paths = [pointers.split(pointer) for pointer in marked_members]
    if value is not None and any(steps[: len(path)] == path for path in paths):
        return MASK
    return _mask_value(value, [path[len(steps) :] for path in paths if path[: len(steps)] == steps])


def restore(value: Any, stored: Any) -> Any:
    """Return a written value with the stored one in place of each mask: a mask means "unchanged".

    Members are matched by name. An item of a list is the stored item that differs from it in masks alone, or
    the one at its index if the list has kept its length.
    stored: UNSET if nothing is stored there.
    Raises DomainError where a mask has no stored value.
    """
    return _restore_value(value, stored, ())


def _restore_value(value: Any, stored: Any, steps: tuple[str, ...]) -> Any:
    if value == MASK:
        if stored is msgspec.UNSET:
            message = f"“{pointers.join(steps)}” is masked, and no value is stored there. Enter the value."
            raise DomainError("masked_value", message, fields={pointers.join(steps): message})
        return stored
    if isinstance(value, dict):
        rows = stored if isinstance(stored, dict) else {}
        return {
            name: _restore_value(item, rows.get(name, msgspec.UNSET), (*steps, name))
            for name, item in value.items()
        }
    if isinstance(value, list):
        items = stored if isinstance(stored, list) else []
        # A longer list is matched by index alone, because each item is compared with all stored ones.
        is_short = max(len(value), len(items)) <= MAX_MEMBERS
        restored = []
        for index, item in enumerate(value):
            same = [row for row in items if _is_masked_form(item, row)] if is_short else []
            if len(items) == len(value) and (not same or items[index] in same):
                former = items[index]
            else:
                former = same[0] if same and all(row == same[0] for row in same) else msgspec.UNSET
            restored.append(_restore_value(item, former, (*steps, str(index))))
        return restored
    return value


def _is_masked_form(value: Any, stored: Any) -> bool:
    if isinstance(value, dict) and isinstance(stored, dict):
        return value.keys() == stored.keys() and all(
            _is_masked_form(item, stored[name]) for name, item in value.items()
        )
    if isinstance(value, list) and isinstance(stored, list):
        return len(value) == len(stored) and all(map(_is_masked_form, value, stored))
    return value in (MASK, stored)


def sensitive_texts(value: Any, marked_members: Collection[str]) -> list[str]:
    """Return the texts and numbers in marked members, the longest first, which other members may repeat."""
    return sorted(
        set(_marked_texts(value, [pointers.split(pointer) for pointer in marked_members])),
        key=len,
        reverse=True,
    )


def _marked_texts(
    value: Any, marked_members: Collection[tuple[str, ...]], is_inside: bool = False
) -> Iterator[str]:
    is_inside = is_inside or () in marked_members
    if isinstance(value, list):
        for item in value:
            yield from _marked_texts(item, marked_members, is_inside)
    elif isinstance(value, dict):
        for name, item in value.items():
            below = [steps[1:] for steps in marked_members if steps and steps[0] == name]
            yield from _marked_texts(item, below, is_inside)
    elif is_inside and value is not None and not isinstance(value, bool) and value != "":
        yield from _spellings_of(value)


def _spellings_of(value: str | float) -> set[str]:
    # A number that passes through another tool may change its type.
    return {str(value), str(int(value))} if isinstance(value, float) and value.is_integer() else {str(value)}


def strike(value: Any, texts: Collection[str], *, is_data: bool = False) -> Any:
    """Return the value with a mask in place of these texts wherever they occur.

    is_data: inputs or outputs, in which a whole text or number is masked that equals one of them, however
    short it is. In longer texts a short one occurs by chance.
    """
    is_scalar = not isinstance(value, bool | list | dict | None)
    if is_data and texts and is_scalar and not _spellings_of(value).isdisjoint(texts):
        return MASK
    if isinstance(value, str):
        for text in texts:
            if len(text) >= MIN_TEXT_LENGTH:
                value = value.replace(text, MASK)
        return value
    if isinstance(value, list):
        return [strike(item, texts, is_data=is_data) for item in value]
    if isinstance(value, dict):
        return {name: strike(item, texts, is_data=is_data) for name, item in value.items()}
    return value
