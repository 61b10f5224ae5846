"""The rules of a schema for the parts of a value: the members of an object and the entries of a list."""

from collections.abc import Iterator, Set
from typing import Protocol

from catalog.rules.diff.changes import SAFE, Change, Kind, Side, change, member_change
from catalog.rules.diff.places import Path, Place
from core.schema.dialects import AnySchema
from core.schema.merge import Level
from core.schema.types import is_equal

# Keywords that evaluate members and items, beside the names of the members.
_EVALUATING = (
    *("anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "contains"),
    *("prefixItems", "patternProperties"),
)


class PartComparer(Protocol):
    """Compares two schemas of a part. `schemas.Comparer` does, and calls this module for parts."""

    side: Side

    def compare(self, old: AnySchema, new: AnySchema, place: Place) -> list[Change]: ...

    def opaque_change(self, before: object, after: object, path: Path) -> Iterator[Change]: ...


def property_changes(
    comparer: PartComparer,
    old: Level,
    new: Level,
    place: Place,
    common: frozenset[str],
    *,
    are_members_equal: bool,
) -> Iterator[Change]:
    """Yield the changes of the members. are_members_equal: the same properties had no changes before."""
    if "object" not in common:
        return
    before, after = old.properties, new.properties
    required = frozenset(old.required), frozenset(new.required)
    if are_members_equal and required[0] == required[1]:
        return
    for name in after:
        if name in before:
            yield from _required_change(comparer, name, required, place)
            if not are_members_equal:
                yield from comparer.compare(before[name], after[name], place.to("properties", name))
        else:
            yield _added_member(comparer, name, old, new, place, is_required=name in required[1])
    for name in before:
        if name not in after:
            yield member_change(comparer.side, place.path("properties", name), "removed", before[name], None)
    for name in dict.fromkeys([*old.required, *new.required]):
        if name not in before and name not in after:
            yield from _required_change(comparer, name, required, place)


def _required_change(
    comparer: PartComparer, name: str, required: tuple[Set[str], Set[str]], place: Place
) -> Iterator[Change]:
    was_required, is_required = (name in names for names in required)
    if was_required != is_required:
        path = place.path("properties", name, "required")
        yield member_change(
            comparer.side, path, "required" if is_required else "optional", was_required, is_required
        )


def _added_member(
    comparer: PartComparer, name: str, old: Level, new: Level, place: Place, *, is_required: bool
) -> Change:
    path, schema = place.path("properties", name), new.properties[name]
    if comparer.side == "inputs" and is_required:
        return change(path, "added", "breaks_callers", None, schema)
    others = old.schema.get("additionalProperties")
    if comparer.side == "inputs" and isinstance(others, dict):
        # Members of any name were accepted before, and some of them may have had this one.
        is_within = all(
            found_change.effect in SAFE for found_change in comparer.compare(others, schema, place)
        )
        if not is_within:
            return change(path, "added", "widens_risk", None, schema)
    return member_change(comparer.side, path, "added", None, schema)


def other_changes(
    comparer: PartComparer, old: Level, new: Level, place: Place, common: frozenset[str]
) -> Iterator[Change]:
    for keyword, type_name in (
        ("additionalProperties", "object"),
        ("unevaluatedProperties", "object"),
        ("items", "array"),
        ("unevaluatedItems", "array"),
    ):
        before, after = old.schema.get(keyword, True), new.schema.get(keyword, True)
        if type_name not in common or (before is True and after is True):
            continue
        if keyword.startswith("unevaluated") and not (
            is_equal(list(old.apart), list(new.apart))
            and all(is_equal(old.schema.get(keyword), new.schema.get(keyword)) for keyword in _EVALUATING)
        ):
            yield change(place.path(keyword), "changed", "widens_risk", before, after)
        elif (before is False) != (after is False):
            kind: Kind = "widened" if before is False else "narrowed"
            yield member_change(comparer.side, place.path(keyword), kind, before, after)
        else:
            yield from comparer.compare(before, after, place.to(keyword))


def prefix_changes(
    comparer: PartComparer, old: Level, new: Level, place: Place, common: frozenset[str]
) -> Iterator[Change]:
    if "array" not in common:
        return
    before, after = (level.schema.get("prefixItems", []) for level in (old, new))
    for number in range(max(len(before), len(after))):
        one = before[number] if number < len(before) else old.schema.get("items", True)
        other = after[number] if number < len(after) else new.schema.get("items", True)
        yield from comparer.compare(one, other, place.to("prefixItems", str(number)))


def pattern_changes(comparer: PartComparer, old: Level, new: Level, place: Place) -> Iterator[Change]:
    # A name that no pattern matches any more is one of the additional properties.
    before, after = old.patterns, new.patterns
    for pattern in dict.fromkeys([*before, *after]):
        one = before.get(pattern, old.schema.get("additionalProperties", True))
        other = after.get(pattern, new.schema.get("additionalProperties", True))
        inside = place.to("patternProperties", pattern)
        if (one is True and pattern not in before) or (other is True and pattern not in after):
            yield from comparer.opaque_change(before.get(pattern), after.get(pattern), inside.path())
        elif old.properties and not (pattern in before and pattern in after):
            # It may also have been about members that are named.
            yield change(inside.path(), "changed", "widens_risk", before.get(pattern), after.get(pattern))
        elif (one is False) != (other is False):
            yield member_change(
                comparer.side, inside.path(), "widened" if one is False else "narrowed", one, other
            )
        else:
            yield from comparer.compare(one, other, inside)
