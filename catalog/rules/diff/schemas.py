"""Two JSON Schemas, compared by what fits them and not by how they are written.

What callers send has to fit the new schema if it fitted the old one; what comes back the other way
round. A schema is a list of rules that all hold, so each pair of rules is compared by itself. What
cannot be decided is said to be so, and is never called compatible.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from catalog.rules.diff import scalars, unions
from catalog.rules.diff.changes import EFFECTS, SAFE, Change, Kind, Side, change, on
from catalog.rules.diff.normal import (
    ANNOTATIONS,
    APPLIES_TO,
    CONSTRAINING,
    MAX_BRANCHES,
    Document,
    Schema,
    is_constraining,
    is_schema,
    same_json,
    text,
    types,
    values,
)
from catalog.rules.diff.places import Path, Place
from core.schema.types import EVERY_TYPE

MAX_DEPTH = 64
# Branches are compared each with each, which grows with the square of their number.
MAX_STEPS = 4_000
MAX_CHANGES = 200

_SAID_BY_PARAMETER = {"title", "description", "default"}
_UNDECIDED = ("dependentRequired", "dependencies", "$ref", "$dynamicRef", "$recursiveRef")
_GROUPS = (
    ("contains", "minContains", "maxContains"),
    ("contentEncoding", "contentMediaType", "contentSchema"),
)
# What else looks at members and items, beside the names of the members.
_APPLYING = (
    *("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "contains", "$ref"),
    *("prefixItems", "patternProperties"),
)


class Comparer:
    """Compares schemas of one side of a tool, whose references lead into `old_root` and `new_root`."""

    def __init__(self, side: Side, old_root: object, new_root: object) -> None:
        self.side = side
        self.old, self.new = Document(old_root), Document(new_root)
        self._is_same_root = same_json(old_root, new_root)
        self._steps = 0
        self._open: set[tuple[int, int]] = set()
        self._same: dict[tuple[int, int], None] = {}
        # As long as a schema is kept, no other one can get its id.
        self._kept: list[tuple[object, object]] = []

    def parameter(self, path: Path, old: object, new: object) -> list[Change]:
        """The changes of one input or output, without those that its other members tell."""
        return _gravest(self.between(old, new, Place(path, is_parameter=True)), (*path, "schema"))

    def whole(self, path: Path, old: object, new: object) -> list[Change]:
        """The changes of what holds for all inputs or outputs together."""
        return _gravest(self.between(old, new, Place(path)), path)

    def between(self, old: object, new: object, at: Place) -> list[Change]:
        """The changes; none when the same values fit both and the same is said about them."""
        pair = (id(old), id(new))
        if pair in self._same or pair in self._open:
            return []
        if self._is_same_root and same_json(old, new):
            return []
        self._steps += 1
        if self._steps > MAX_STEPS or len(at.inside) > 2 * MAX_DEPTH:
            return [change(at.path(), "changed", "widens_risk", None, None)]
        self._kept.append((old, new))
        self._open.add(pair)
        known = len(self._same)
        found = self._differences(self.old.normal(old), self.new.normal(new), at)
        self._open.remove(pair)
        if not found:
            self._same[pair] = None
        # What was called the same because this pair would be is not known to be so.
        while found and len(self._same) > known:
            self._same.popitem()
        return found

    def _differences(self, old: Schema, new: Schema, at: Place) -> list[Change]:
        # Callers of a schema that takes anything, and readers who expect nothing, need no rule by rule.
        free, other = (new, old) if self.side == "inputs" else (old, new)
        if is_constraining(other) and not is_constraining(free) and "type" not in other:
            return [self._freed(old, new, other, at), *self._said(old, new, at)]
        alternatives = unions.alternatives(old, new)
        if alternatives is not None:
            return [*unions.between(self, *alternatives, at), *self._said(old, new, at)]
        before, after = types(old), types(new)
        found = list(self._types(old, new, before, after, at))
        common = before & after
        if not (before and after):
            return list(self._nothing(before, after, old, new, at))
        if found and not (common and is_constraining(old) and is_constraining(new)):
            return [*found, *self._said(old, new, at)]
        few = self._few(old, new, before, after, at)
        if few is not None:
            return [*found, *few, *self._said(old, new, at)]
        for rule in self._rules:
            found += rule(self, old, new, at, common)
        return [*found, *self._said(old, new, at)]

    def _freed(self, old: Schema, new: Schema, other: Schema, at: Place) -> Change:
        kind: Kind = "widened" if self.side == "inputs" else "narrowed"
        if other.get("enum"):
            return on(self.side, at.path("enum"), kind, old.get("enum"), new.get("enum"))
        return on(self.side, at.path(), kind, old, new)

    def _nothing(
        self, before: frozenset[str], after: frozenset[str], old: Schema, new: Schema, at: Place
    ) -> Iterator[Change]:
        # On one side, no value fits at all.
        if before or after:
            is_safe = (self.side == "inputs") is bool(after)
            kind: Kind = ("widened" if after else "narrowed") if is_safe else "retyped"
            yield on(self.side, at.path(), kind, old, new)

    def _types(
        self, old: Schema, new: Schema, before: frozenset[str], after: frozenset[str], at: Place
    ) -> Iterator[Change]:
        if before == after or not ("type" in old or "type" in new):
            return
        kind: Kind = "widened" if before <= after else "narrowed" if after <= before else "retyped"
        # Callers send what they sent before, readers expect what they got before.
        if kind != {"inputs": "widened", "outputs": "narrowed"}[self.side]:
            kind = "retyped"
        yield on(self.side, at.path("type"), kind, _word(old), _word(new))

    def _few(
        self, old: Schema, new: Schema, before: frozenset[str], after: frozenset[str], at: Place
    ) -> list[Change] | None:
        # Tries each value when one side lists its values. None when that decides nothing.
        is_input = self.side == "inputs"
        listed, other = (old, new) if is_input else (new, old)
        few = values(listed)
        if few is None or "enum" in other or not types(listed) <= types(other):
            return None
        fits = [scalars.fits(value, other) for value in few]
        if None in fits:
            return None
        path = at.path("enum")
        if all(fits):
            return [
                on(self.side, path, "widened" if is_input else "narrowed", old.get("enum"), new.get("enum"))
            ]
        strays = [value for value, is_fit in zip(few, fits, strict=True) if not is_fit]
        if is_input:
            return [on("inputs", (*path, _name(value)), "narrowed", value, None) for value in strays]
        return [on("outputs", (*path, _name(value)), "widened", None, value) for value in strays]

    def _enum(self, old: Schema, new: Schema, at: Place, common: frozenset[str]) -> Iterator[Change]:
        before, after = old.get("enum"), new.get("enum")
        path = at.path("enum")
        if not isinstance(before, list) or not isinstance(after, list):
            if isinstance(before, list) or isinstance(after, list):
                yield on(self.side, path, "narrowed" if isinstance(after, list) else "widened", before, after)
            return
        gone, come = {text(v): v for v in before}, {text(v): v for v in after}
        for key, value in come.items():
            if key not in gone:
                yield on(self.side, (*path, _name(value)), "widened", None, value)
        for key, value in gone.items():
            if key not in come:
                yield on(self.side, (*path, _name(value)), "narrowed", value, None)

    def _scalars(self, old: Schema, new: Schema, at: Place, common: frozenset[str]) -> Iterator[Change]:
        for member, kind, before, after in scalars.between(old, new, common):
            if kind == "changed":
                yield change(at.path(member), kind, "widens_risk", before, after)
            else:
                yield on(self.side, at.path(member), kind, before, after)

    def _properties(self, old: Schema, new: Schema, at: Place, common: frozenset[str]) -> Iterator[Change]:
        if "object" not in common:
            return
        before, after = _schemas(old.get("properties")), _schemas(new.get("properties"))
        needed, needs = _names(old.get("required")), _names(new.get("required"))
        for name in after:
            if name in before:
                yield from self._needed(name, needed, needs, at)
                yield from self.between(before[name], after[name], at.to("properties", name))
            else:
                yield self._added(name, old, after[name], name in needs, at)
        for name in before:
            if name not in after:
                yield on(self.side, at.path("properties", name), "removed", before[name], None)
        for name in dict.fromkeys([*needed, *needs]):
            if name not in before and name not in after:
                yield from self._needed(name, needed, needs, at)

    def _needed(self, name: str, needed: set[str], needs: set[str], at: Place) -> Iterator[Change]:
        if (name in needed) != (name in needs):
            kind: Kind = "required" if name in needs else "optional"
            yield on(self.side, at.path("properties", name, "required"), kind, name in needed, name in needs)

    def _added(self, name: str, old: Schema, schema: object, is_needed: bool, at: Place) -> Change:
        path = at.path("properties", name)
        if self.side == "inputs" and is_needed:
            return change(path, "added", "breaks_callers", None, schema)
        others = old.get("additionalProperties")
        if self.side == "inputs" and isinstance(others, dict):
            # Members of any name were taken before, and some of them may have had this one.
            is_within = all(each.effect in SAFE for each in self.between(others, schema, at))
            if not is_within:
                return change(path, "added", "widens_risk", None, schema)
        return on(self.side, path, "added", None, schema)

    def _others(self, old: Schema, new: Schema, at: Place, common: frozenset[str]) -> Iterator[Change]:
        for member, kind in (
            ("additionalProperties", "object"),
            ("unevaluatedProperties", "object"),
            ("items", "array"),
            ("unevaluatedItems", "array"),
        ):
            before, after = old.get(member, True), new.get(member, True)
            if kind not in common or (before is True and after is True):
                continue
            if member.startswith("unevaluated") and any(
                not same_json(old.get(each), new.get(each)) for each in _APPLYING
            ):
                yield change(at.path(member), "changed", "widens_risk", before, after)
            elif (before is False) != (after is False):
                yield on(
                    self.side, at.path(member), "widened" if before is False else "narrowed", before, after
                )
            else:
                yield from self.between(before, after, at.to(member))

    def _prefix(self, old: Schema, new: Schema, at: Place, common: frozenset[str]) -> Iterator[Change]:
        before, after = _listed(old.get("prefixItems")), _listed(new.get("prefixItems"))
        if "array" not in common:
            return
        for number in range(max(len(before), len(after))):
            one = before[number] if number < len(before) else old.get("items", True)
            other = after[number] if number < len(after) else new.get("items", True)
            yield from self.between(one, other, at.to("prefixItems", str(number)))

    def _conjuncts(self, old: Schema, new: Schema, at: Place, common: frozenset[str]) -> Iterator[Change]:
        # Compares the rules that hold independently of each other.
        if "object" in common:
            yield from self._patterns(old, new, at)
            before, after = _schemas(old.get("dependentSchemas")), _schemas(new.get("dependentSchemas"))
            for name in dict.fromkeys([*before, *after]):
                place = at.to("dependentSchemas", name)
                yield from self._conjunct(before.get(name), after.get(name), place)
            yield from self._conjunct(
                old.get("propertyNames"), new.get("propertyNames"), at.to("propertyNames")
            )
        if "not" in old and "not" in new:
            if self.between(old["not"], new["not"], at.to("not")):
                yield self._unclear("not", old, new, at)
        else:
            yield from self._opaque(old.get("not"), new.get("not"), at.path("not"))
        yield from self._when(old, new, at)
        for group in _GROUPS:
            yield from self._group(group, old, new, at, common)
        for member in _UNDECIDED:
            if (member not in old and member not in new) or not common & APPLIES_TO.get(member, EVERY_TYPE):
                continue
            # The same reference may lead to something else in another document.
            may_lead_elsewhere = "ef" in member and member in old and not self._is_same_root
            if may_lead_elsewhere or not same_json(old.get(member), new.get(member)):
                yield from self._opaque(old.get(member), new.get(member), at.path(member))

    def _patterns(self, old: Schema, new: Schema, at: Place) -> Iterator[Change]:
        # A name that no pattern matches any more is judged as one of the additional properties.
        before, after = _schemas(old.get("patternProperties")), _schemas(new.get("patternProperties"))
        for name in dict.fromkeys([*before, *after]):
            one = before.get(name, old.get("additionalProperties", True))
            other = after.get(name, new.get("additionalProperties", True))
            place = at.to("patternProperties", name)
            if (one is True and name not in before) or (other is True and name not in after):
                yield from self._opaque(before.get(name), after.get(name), place.path())
            elif "properties" in old and not (name in before and name in after):
                # It may also have been about members that are named.
                yield change(place.path(), "changed", "widens_risk", before.get(name), after.get(name))
            elif (one is False) != (other is False):
                yield on(self.side, place.path(), "widened" if one is False else "narrowed", one, other)
            else:
                yield from self.between(one, other, place)

    def _group(
        self, members: Sequence[str], old: Schema, new: Schema, at: Place, common: frozenset[str]
    ) -> Iterator[Change]:
        # Members that mean something only together.
        before = {member: old[member] for member in members if member in old}
        after = {member: new[member] for member in members if member in new}
        if same_json(before, after) or not common & APPLIES_TO[members[0]]:
            return
        if before.keys() == after.keys() == {"contains"}:
            yield from self.between(old["contains"], new["contains"], at.to("contains"))
        else:
            yield from self._opaque(before or None, after or None, at.path(members[0]))

    def _conjunct(self, before: object, after: object, at: Place) -> Iterator[Change]:
        if before is None or after is None:
            yield from self._opaque(before, after, at.path())
        else:
            yield from self.between(before, after, at)

    def _opaque(self, before: object, after: object, path: Path) -> Iterator[Change]:
        """The change of a rule that cannot be looked into."""
        # One rule more never lets more through, and one less never stops more.
        if before is None and after is None:
            return
        kind: Kind = "changed" if before is not None and after is not None else "narrowed"
        kind = "widened" if after is None else kind
        if kind == {"inputs": "widened", "outputs": "narrowed"}[self.side]:
            yield on(self.side, path, kind, before, after)
        else:
            yield change(path, "changed", "widens_risk", before, after)

    def _when(self, old: Schema, new: Schema, at: Place) -> Iterator[Change]:
        if "if" not in old or "if" not in new:
            yield from self._opaque(old.get("if"), new.get("if"), at.path("if"))
        elif self.between(old["if"], new["if"], at.to("if")):
            yield self._unclear("if", old, new, at)
        else:
            for member in ("then", "else"):
                before, after = old.get(member, True), new.get(member, True)
                yield from self.between(before, after, at.to(member))

    def _all(self, old: Schema, new: Schema, at: Place, common: frozenset[str]) -> Iterator[Change]:
        # What could not be written into the schema around it.
        before, after = _listed(old.get("allOf")), _listed(new.get("allOf"))
        for part in list(before) if max(len(before), len(after)) <= MAX_BRANCHES else ():
            same = next((each for each in after if not self.between(part, each, at.to("allOf"))), None)
            if same is not None:
                before, after = _but(before, part), _but(after, same)
        if len(before) == len(after) == 1:
            yield from self.between(before[0], after[0], at.to("allOf", "0"))
        elif before or after:
            yield from self._opaque(before or None, after or None, at.path("allOf"))

    def _unions(self, old: Schema, new: Schema, at: Place, common: frozenset[str]) -> Iterator[Change]:
        for member in ("anyOf", "oneOf"):
            before, after = old.get(member), new.get(member)
            if isinstance(before, list) and isinstance(after, list):
                yield from unions.between(self, before, after, member == "oneOf", at)
            else:
                yield from self._opaque(before, after, at.path(member))

    def _unclear(self, member: str, old: Schema, new: Schema, at: Place) -> Change:
        return change(at.path(member), "changed", "widens_risk", old.get(member), new.get(member))

    def _said(self, old: Schema, new: Schema, at: Place) -> Iterator[Change]:
        for member in dict.fromkeys([*old, *new]):
            if member in CONSTRAINING or (at.is_flat and member in _SAID_BY_PARAMETER):
                continue
            before, after = old.get(member), new.get(member)
            if same_json(before, after) and (member in old) == (member in new):
                continue
            if member == "default":
                yield change(at.path(member), "changed", "compatible", before, after)
            elif member in ANNOTATIONS:
                yield on(self.side, at.path(member), "text", before, after)
            else:
                yield change(at.path(member), "changed", "cosmetic", before, after)

    _rules: tuple[Callable[..., Iterator[Change]], ...] = (
        *(_enum, _scalars, _properties, _others, _prefix, _conjuncts, _all, _unions),
    )


def _gravest(found: list[Change], path: Path) -> list[Change]:
    # As many as a person reads, the gravest first; one more change says that there are others.
    if len(found) <= MAX_CHANGES:
        return found
    found = sorted(found, key=lambda each: EFFECTS.index(each.effect))[:MAX_CHANGES]
    return [*found, change(path, "changed", "widens_risk", None, None)]


def _word(schema: Mapping[str, Any]) -> object:
    if "type" in schema:
        return schema["type"]
    found = sorted("number" if word == "fraction" else word for word in types(schema) - {"integer"})
    return "anything" if types(schema) == EVERY_TYPE else found


def _name(value: object) -> str:
    return value if isinstance(value, str) else text(value)


def _schemas(value: object) -> dict[str, Any]:
    return {name: each for name, each in value.items() if is_schema(each)} if isinstance(value, dict) else {}


def _names(value: object) -> set[str]:
    return {name for name in value if isinstance(name, str)} if isinstance(value, list) else set()


def _listed(value: object) -> list[Any]:
    return [each for each in value if is_schema(each)] if isinstance(value, list) else []


def _but(parts: list[Any], gone: object) -> list[Any]:
    return [part for part in parts if part is not gone]
