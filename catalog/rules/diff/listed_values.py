"""The values that a schema lists, and which of them fit the schema of the other side."""

from collections.abc import Iterator
from typing import Any

from catalog.rules.diff import scalars
from catalog.rules.diff.changes import Change, Side, member_change
from catalog.rules.diff.places import Place
from core.schema.merge import Level
from core.schema.types import types_of, value_key, values_of


def try_listed_values(side: Side, old: Level, new: Level, place: Place) -> list[Change] | None:
    """Try each value where one side lists its values. Return None where that decides nothing."""
    is_input = side == "inputs"
    listing, other = (old, new) if is_input else (new, old)
    values = values_of(listing.schema)
    if values is None or other.apart or "enum" in other.schema:
        return None
    if not types_of(listing.schema) <= types_of(other.schema):
        return None
    fits = [scalars.fits(value, other.schema) for value in values]
    if None in fits:
        return None
    path = place.path("enum")
    before, after = old.schema.get("enum"), new.schema.get("enum")
    if all(fits):
        return [member_change(side, path, "widened" if is_input else "narrowed", before, after)]
    misfits = [value for value, is_fit in zip(values, fits, strict=True) if not is_fit]
    if is_input:
        return [
            member_change("inputs", (*path, _name_of_value(value)), "narrowed", value, None)
            for value in misfits
        ]
    return [
        member_change("outputs", (*path, _name_of_value(value)), "widened", None, value) for value in misfits
    ]


def enum_changes(side: Side, old: Level, new: Level, place: Place) -> Iterator[Change]:
    before, after = old.schema.get("enum"), new.schema.get("enum")
    path = place.path("enum")
    if before is None or after is None:
        if before is not after:
            yield member_change(side, path, "widened" if after is None else "narrowed", before, after)
        return
    old_values, new_values = ({value_key(value): value for value in listed} for listed in (before, after))
    for key, value in new_values.items():
        if key not in old_values:
            yield member_change(side, (*path, _name_of_value(value)), "widened", None, value)
    for key, value in old_values.items():
        if key not in new_values:
            yield member_change(side, (*path, _name_of_value(value)), "narrowed", value, None)


def _name_of_value(value: Any) -> str:
    return value if isinstance(value, str) else value_key(value).decode()
