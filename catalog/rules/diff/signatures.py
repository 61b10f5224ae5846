"""Two signatures of a tool, member by member."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from catalog.rules.diff.changes import CLASSES, Change, Class, Effect, Kind, Side, change, member_change
from catalog.rules.diff.scalars import kind_of_move
from catalog.rules.diff.schemas import Comparer
from core.content_cache import ContentCache, digest_once
from core.schema.pointers import Steps
from core.schema.types import is_equal
from protocols import parameters as json_schema
from protocols.signature import Annotations, Parameter, Signature

# Each claim from the one that asks for the least caution to the one that asks for the most; no claim at all
# is between the two.
_RISKS: dict[str, tuple[bool | None, ...]] = {
    "read_only": (True, None, False),
    "destructive": (False, None, True),
    "idempotent": (True, None, False),
    "open_world": (False, None, True),
}
# A missing hint has this value as its default (MCP 2026-07-28, ToolAnnotations), so adding or removing the
# default is no change of risk.
_SAME_AS_ABSENT = {"read_only": False, "idempotent": False}


@dataclass(frozen=True, slots=True)
class SignatureDifference:
    """The changes between two signatures.

    `class_` is that of the worst change, "none" when nothing changed.
    """

    class_: Class
    changes: tuple[Change, ...]

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset(change.effect for change in self.changes)


# Pages compare the same pairs of versions on each view.
_comparisons: ContentCache[SignatureDifference] = ContentCache(size=4_000, max_bytes=16 * 1024 * 1024)


def compare(old: Signature, new: Signature) -> SignatureDifference:
    return _comparisons.get(digest_once(old) + digest_once(new), partial(_compare, old, new))


def _compare(old: Signature, new: Signature) -> SignatureDifference:
    changes = (
        *_changes_of_tool(old, new),
        *_changes_of_side("inputs", old.inputs, new.inputs, old.schema_rest, new.schema_rest),
        *_changes_of_side("outputs", old.outputs, new.outputs, old.outputs_rest, new.outputs_rest),
    )
    return SignatureDifference(worst(change.class_ for change in changes), changes)


def worst(classes: Iterable[Class]) -> Class:
    return max(classes, key=CLASSES.index, default="none")


def stricter(one: Annotations, other: Annotations) -> Annotations:
    """Return for each claim the value with the higher risk."""
    claims = {name: (getattr(one, name), getattr(other, name)) for name in _RISKS}
    return Annotations(**{name: max(both, key=_RISKS[name].index) for name, both in claims.items()})


def _changes_of_tool(old: Signature, new: Signature) -> Iterator[Change]:
    members: dict[str, tuple[Kind, Effect]] = {
        "name": ("renamed", "breaks_callers"),
        "kind": ("retyped", "breaks_callers"),
        "title": ("text", "text"),
        "description": ("text", "text"),
        "img": ("changed", "text"),
    }
    for member, (kind, effect) in members.items():
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            yield change([member], kind, effect, before, after)
    if old.tags != new.tags:
        yield change(["tags"], "changed", "text", list(old.tags), list(new.tags))
    # A worse claim means that a call may do more. A better one withdraws caution on the vendor's word alone,
    # which is what an attack through the vendor would send first. Both widen the risk.
    for member in _RISKS:
        before, after = getattr(old.annotations, member), getattr(new.annotations, member)
        if before != after:
            is_left_out = after is None and before is _SAME_AS_ABSENT.get(member, ...)
            risk: Effect = "compatible" if is_left_out else "widens_risk"
            yield change(["annotations", member], "changed", risk, before, after)
    for member in ("scopes", "secrets"):
        before, after = getattr(old.requirements, member), getattr(new.requirements, member)
        if before != after:
            verdict = _requirement_change(set(before), set(after))
            yield change(["requirements", member], *verdict, list(before), list(after))
    before, after = old.requirements.user, new.requirements.user
    if before != after:
        yield change(["requirements", "user"], *_requirement_change({before}, {after}), before, after)
    if not is_equal(old.rest, new.rest):
        yield change(["rest"], "changed", "cosmetic", old.rest, new.rest)


def _requirement_change(before: set[Any], after: set[Any]) -> tuple[Kind, Effect]:
    if (after - before) - {False}:
        return "narrowed", "widens_risk"
    return ("widened", "compatible") if before != after else ("reordered", "cosmetic")


def _changes_of_side(
    side: Side,
    old: tuple[Parameter, ...],
    new: tuple[Parameter, ...],
    old_rest: dict[str, Any] | None,
    new_rest: dict[str, Any] | None,
) -> Iterator[Change]:
    if old == new and is_equal(old_rest, new_rest) and _same_values(old, new):
        return
    comparer = Comparer(
        side, json_schema.write_schema(old, old_rest), json_schema.write_schema(new, new_rest)
    )
    path = ("schema_rest" if side == "inputs" else "outputs_rest",)
    if _is_whole(old) != _is_whole(new):
        # One is an object taken apart into its members, the other is one value.
        changes = comparer.compare_roots(path)
    else:
        changes = list(_changes_of_parameters(side, old, new, comparer))
        if not _is_whole(new):
            names = [[parameter.name for parameter in parameters] for parameters in (old, new)]
            changes += comparer.compare_rests(path, *names)
    if not changes and not comparer.are_same_to_readers:
        changes = [change(path, "changed", "cosmetic", old_rest, new_rest)]
    yield from changes


def _is_whole(parameters: tuple[Parameter, ...]) -> bool:
    return any(parameter.is_whole for parameter in parameters)


def _same_values(old: tuple[Parameter, ...], new: tuple[Parameter, ...]) -> bool:
    # To Python, 1 and true are equal.
    return all(
        _same_default(one, other) and is_equal([one.schema, one.rest], [other.schema, other.rest])
        for one, other in zip(old, new, strict=True)
    )


def _same_default(old: Parameter, new: Parameter) -> bool:
    if old.default is msgspec.UNSET or new.default is msgspec.UNSET:
        return old.default is new.default
    return is_equal(old.default, new.default)


def _changes_of_parameters(
    side: Side, old: tuple[Parameter, ...], new: tuple[Parameter, ...], comparer: Comparer
) -> Iterator[Change]:
    before = {parameter.id: parameter for parameter in old}
    after = {parameter.id: parameter for parameter in new}
    for parameter in after.values():
        if parameter.id in before:
            yield from _changes_of_parameter(side, before[parameter.id], parameter, comparer)
        else:
            path, document = [side, parameter.name], msgspec.to_builtins(parameter)
            if side == "inputs" and parameter.required:
                yield change(path, "added", "breaks_callers", None, document)
            else:
                yield member_change(side, path, "added", None, document)
    for parameter in before.values():
        if parameter.id not in after:
            yield member_change(side, [side, parameter.name], "removed", msgspec.to_builtins(parameter), None)
    if [key for key in before if key in after] != [key for key in after if key in before]:
        yield member_change(side, [side], "reordered", [p.name for p in old], [p.name for p in new])


def _changes_of_parameter(side: Side, old: Parameter, new: Parameter, comparer: Comparer) -> Iterator[Change]:
    path = (side, new.name)
    changes = list(_text_changes(side, path, old, new))
    if _type_of(old) != _type_of(new) and (old.unsupported_type or new.unsupported_type):
        changes.append(member_change(side, [*path, "type"], "retyped", _type_of(old), _type_of(new)))
    elif old.type == new.type and old.schema is None and new.schema is None:
        for member, rises in (("min", False), ("max", True), ("max_length", True)):
            limit, new_limit = getattr(old, member), getattr(new, member)
            if limit != new_limit:
                kind = kind_of_move(limit, new_limit, rises=rises)
                changes.append(member_change(side, [*path, member], kind, limit, new_limit))
        if old.max == new.max and old.max_defaulted != new.max_defaulted:
            defaulted = (old.max_defaulted, new.max_defaulted)
            changes.append(change([*path, "max_defaulted"], "changed", "cosmetic", *defaulted))
        changes += _allowed_values(side, [*path, "allowed_values"], old, new)
    elif side == "outputs" and "json" in (old.type, new.type) and old.schema is None and new.schema is None:
        # A document without a schema, and no longer one: that it may hold the other does not help readers.
        changes.append(member_change(side, [*path, "type"], "retyped", old.type, new.type))
    else:
        changes += comparer.compare_parts(path, _steps_to(old), _steps_to(new))
    yield from changes
    if changes or (old == new and _same_values((old,), (new,))):
        return
    if None in (old.schema, new.schema) or not comparer.are_same_to_readers:
        before, after = json_schema.write_parameter(old), json_schema.write_parameter(new)
        yield change([*path, "schema"], "changed", "cosmetic", before, after)


def _text_changes(side: Side, path: tuple[str, ...], old: Parameter, new: Parameter) -> Iterator[Change]:
    # Changes that do not affect the accepted values.
    if old.name != new.name:
        yield member_change(side, [*path, "name"], "renamed", old.name, new.name)
    if old.required != new.required:
        kind: Kind = "required" if new.required else "optional"
        yield member_change(side, [*path, "required"], kind, old.required, new.required)
    for member in ("title", "description"):
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            yield member_change(side, [*path, member], "text", before, after)
    if not _same_default(old, new):
        yield change(
            [*path, "default"], "changed", "compatible", _or_none(old.default), _or_none(new.default)
        )
    if not is_equal(old.rest, new.rest):
        yield change([*path, "rest"], "changed", "cosmetic", old.rest, new.rest)


def _steps_to(parameter: Parameter) -> Steps:
    return () if parameter.is_whole else ("properties", parameter.name)


def _type_of(parameter: Parameter) -> str:
    unsupported = parameter.unsupported_type
    return f"{unsupported} (not supported)" if unsupported else parameter.type


def _allowed_values(side: Side, path: list[str], old: Parameter, new: Parameter) -> Iterator[Change]:
    before = {value.name: value.description for value in old.allowed_values}
    after = {value.name: value.description for value in new.allowed_values}
    if bool(before) != bool(after):
        # No list means that every value is allowed.
        yield member_change(side, path, "narrowed" if after else "widened", list(before), list(after))
        return
    for name in after:
        if name not in before:
            yield member_change(side, [*path, name], "widened", None, name)
        elif before[name] != after[name]:
            yield member_change(side, [*path, name], "text", before[name], after[name])
    for name in before:
        if name not in after:
            yield member_change(side, [*path, name], "narrowed", name, None)
    if before.keys() == after.keys() and list(before) != list(after):
        yield member_change(side, path, "reordered", list(before), list(after))


def _or_none(value: object) -> object:
    return None if value is msgspec.UNSET else value
