"""Two JSON Schemas, compared by which values fit them and not by how they are written.

A value that callers send must fit the new schema if it fitted the old one; a value that comes back, the other
way round. Each level of a schema is a list of rules that all hold, so each pair of rules is compared on its
own. A pair that cannot be decided is reported as such, and never as compatible.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from catalog.rules.diff import listed_values, parts, scalars, unions
from catalog.rules.diff.changes import EFFECTS, Change, Kind, Side, change, member_change
from catalog.rules.diff.places import Path, Place
from core.canonical_json import canonical, digest
from core.schema import SchemaBoundsError, audience, pointers, read_document
from core.schema.dialects import ANNOTATIONS, AnySchema, Schema
from core.schema.document import SchemaFinding
from core.schema.merge import Level
from core.schema.normal_form import (
    APPLIES_TO,
    CONSTRAINING,
    MAX_BRANCHES,
    NormalForms,
    is_constraining,
    shown_type,
)
from core.schema.pointers import Steps
from core.schema.types import is_equal, types_of

MAX_DEPTH = 64
# Branches are compared each with each, which grows with the square of their number.
MAX_STEPS = 4_000
MAX_CHANGES = 200

_OWN_MEMBERS_OF_PARAMETERS = {"title", "description", "default"}
# Keywords that mean something only together.
_GROUPS = (
    ("contains", "minContains", "maxContains"),
    ("contentEncoding", "contentMediaType", "contentSchema"),
)


class Comparer:
    """Compares the schemas of one side of a tool. References are resolved in `old_root` and `new_root`."""

    def __init__(self, side: Side, old_root: object, new_root: object) -> None:
        self.side = side
        self.are_too_large = False
        self._roots = (old_root, new_root)
        documents = []
        for root in self._roots:
            try:
                documents.append(read_document(root))
            except SchemaBoundsError:
                self.are_too_large = True
                documents.append(read_document(True))
        self.old, self.new = (NormalForms(document) for document in documents)
        self._are_roots_equal = is_equal(documents[0].root, documents[1].root)
        # A schema means the same in both documents if nothing in it refers to another.
        self._has_references = any(
            document.findings or b'"$ref":' in canonical(document.root) for document in documents
        )
        self._steps = 0
        self._open: set[tuple[int, int]] = set()
        self._equal: dict[tuple[int, int], None] = {}
        # As long as a schema is stored here, no other one can get its id.
        self._stored: list[tuple[AnySchema, AnySchema]] = []

    @cached_property
    def are_same_to_readers(self) -> bool:
        """Return whether no model and no call can distinguish the two schemas."""
        old, new = (audience.canonical_schema(root, None, digest) for root in self._roots)
        return is_equal(old, new)

    def compare_parts(self, path: Path, old_steps: Steps, new_steps: Steps) -> list[Change]:
        """Return the changes of one input or output, whose schemas are at these steps from the roots.

        Changes that the parameter's other members report are left out.
        """
        pair: list[AnySchema] = []
        for forms, steps in ((self.old, old_steps), (self.new, new_steps)):
            try:
                pair.append(pointers.resolve(forms.document.root, steps))
            except pointers.PointerError:
                pair.append(True)  # the internal form leaves out what is no schema
        if not (self._has_references or self.are_too_large) and is_equal(pair[0], pair[1]):
            return []
        place = Place(path, is_parameter=True)
        changes = [
            *self.compare(pair[0], pair[1], place),
            *self._reference_changes(old_steps, new_steps, place),
        ]
        return self._limit_changes(changes, (*path, "schema"))

    def compare_roots(self, path: Path) -> list[Change]:
        """Return the changes of all inputs or outputs, taken as one value."""
        place = Place(path)
        changes = self.compare(self.old.document.root, self.new.document.root, place)
        return self._limit_changes([*changes, *self._reference_changes((), (), place)], path)

    def compare_rests(self, path: Path, old_names: Sequence[str], new_names: Sequence[str]) -> list[Change]:
        """Return the changes of the rules that hold for all inputs or outputs together.

        The schemas of the named parameters are left out.
        """
        names = {*old_names, *new_names}
        old = self.old.root_without_members(names, set(old_names))
        new = self.new.root_without_members(names, set(new_names))
        changes = [
            *self._differences(old, new, Place(path)),
            *self._reference_changes((), (), Place(path), without=("properties",)),
        ]
        return self._limit_changes(changes, path)

    def _limit_changes(self, changes: list[Change], path: Path) -> list[Change]:
        """Return at most MAX_CHANGES changes, the gravest first, and one undecided change for all others."""
        if len(changes) <= MAX_CHANGES and not self.are_too_large:
            return changes
        changes = sorted(changes, key=lambda each: EFFECTS.index(each.effect))[:MAX_CHANGES]
        return [*changes, change(path, "changed", "widens_risk", None, None)]

    def compare(self, old: AnySchema, new: AnySchema, place: Place) -> list[Change]:
        """Return the changes; none when the same values fit both and the same texts describe them."""
        pair = (id(old), id(new))
        if pair in self._equal or pair in self._open:
            return []
        if self._are_roots_equal and is_equal(old, new):
            return []
        self._steps += 1
        if self._steps > MAX_STEPS or len(place.inside) > 2 * MAX_DEPTH:
            return [change(place.path(), "changed", "widens_risk", None, None)]
        self._stored.append((old, new))
        self._open.add(pair)
        count = len(self._equal)
        changes = self._differences(self.old.level(old), self.new.level(new), place)
        self._open.remove(pair)
        if not changes:
            self._equal[pair] = None
        # Pairs that were called equal on the assumption that this one would be are not known to be so.
        while changes and len(self._equal) > count:
            self._equal.popitem()
        return changes

    def _differences(self, old: Level, new: Level, place: Place) -> list[Change]:
        texts = list(self._text_changes(old.schema, new.schema, place))
        # Callers of a schema that accepts anything, and readers who expect nothing, need no rule by rule.
        free, other = (new, old) if self.side == "inputs" else (old, new)
        if is_constraining(other) and not is_constraining(free) and "type" not in other.schema:
            kind: Kind = "widened" if self.side == "inputs" else "narrowed"
            if other.schema.get("enum"):
                values = old.schema.get("enum"), new.schema.get("enum")
                return [member_change(self.side, place.path("enum"), kind, *values), *texts]
            return [member_change(self.side, place.path(), kind, old.schema, new.schema), *texts]
        alternatives = unions.alternatives(old, new)
        if alternatives is not None:
            return [*unions.compare(self, *alternatives, place), *texts]
        before, after = types_of(old.schema), types_of(new.schema)
        changes = list(self._type_changes(old.schema, new.schema, before, after, place))
        if not (before and after):
            return changes
        common = before & after
        if changes and not (common and is_constraining(old) and is_constraining(new)):
            return [*changes, *texts]
        value_changes = listed_values.try_listed_values(self.side, old, new, place)
        if value_changes is not None:
            return [*changes, *value_changes, *texts]
        changes += listed_values.enum_changes(self.side, old, new, place)
        changes += [
            member_change(self.side, place.path(keyword), kind_of_rule, *values)
            for keyword, kind_of_rule, *values in scalars.differences(old.schema, new.schema, common)
        ]
        for compare_parts in (Comparer._property_changes, parts.other_changes, parts.prefix_changes):
            changes += compare_parts(self, old, new, place, common)
        changes += [*self._conjuncts(old, new, place, common), *self._combinations(old, new, place)]
        return [*changes, *texts]

    def _property_changes(
        self, old: Level, new: Level, place: Place, common: frozenset[str]
    ) -> Iterator[Change]:
        # Many schemas may refer to one definition, and each level shares its properties.
        pair = (id(old.properties), id(new.properties))
        are_equal = pair in self._equal
        changes = list(parts.property_changes(self, old, new, place, common, are_members_equal=are_equal))
        if old.properties and new.properties and not changes and "object" in common:
            self._equal[pair] = None
        yield from changes

    def _type_changes(
        self, old: Schema, new: Schema, before: frozenset[str], after: frozenset[str], place: Place
    ) -> Iterator[Change]:
        if not (before and after):
            # No value at all fits one of the sides.
            if before or after:
                is_safe = (self.side == "inputs") is bool(after)
                verdict: Kind = ("widened" if after else "narrowed") if is_safe else "retyped"
                yield member_change(self.side, place.path(), verdict, old, new)
            return
        if before == after or not ("type" in old or "type" in new):
            return
        kind: Kind = "widened" if before <= after else "narrowed" if after <= before else "retyped"
        # Callers send what they sent before, readers expect what they received before.
        if kind != _SAFE_KIND[self.side]:
            kind = "retyped"
        yield member_change(self.side, place.path("type"), kind, shown_type(old), shown_type(new))

    def _conjuncts(self, old: Level, new: Level, place: Place, common: frozenset[str]) -> Iterator[Change]:
        """Yield the changes of rules that hold independently of each other."""
        one, other = old.schema, new.schema
        if "object" in common:
            yield from parts.pattern_changes(self, old, new, place)
            before, after = one.get("dependentSchemas", {}), other.get("dependentSchemas", {})
            for name in dict.fromkeys([*before, *after]):
                inside = place.to("dependentSchemas", name)
                yield from self._conjunct(before.get(name), after.get(name), inside)
            inside = place.to("propertyNames")
            yield from self._conjunct(one.get("propertyNames"), other.get("propertyNames"), inside)
        if "not" in one and "not" in other:
            if self.compare(one["not"], other["not"], place.to("not")):
                yield self._undecided_change("not", one, other, place)
        else:
            yield from self.opaque_change(one.get("not"), other.get("not"), place.path("not"))
        if "if" not in one or "if" not in other:
            yield from self.opaque_change(one.get("if"), other.get("if"), place.path("if"))
        elif self.compare(one["if"], other["if"], place.to("if")):
            yield self._undecided_change("if", one, other, place)
        else:
            for keyword in ("then", "else"):
                yield from self.compare(one.get(keyword, True), other.get(keyword, True), place.to(keyword))
        for group in _GROUPS:
            yield from self._group(group, one, other, place, common)
        before, after = one.get("dependentRequired"), other.get("dependentRequired")
        if "object" in common and not is_equal(before, after):
            yield from self.opaque_change(before, after, place.path("dependentRequired"))

    def _group(
        self, keywords: Sequence[str], old: Schema, new: Schema, place: Place, common: frozenset[str]
    ) -> Iterator[Change]:
        before = {keyword: old[keyword] for keyword in keywords if keyword in old}
        after = {keyword: new[keyword] for keyword in keywords if keyword in new}
        if is_equal(before, after) or not common & APPLIES_TO[keywords[0]]:
            return
        if before.keys() == after.keys() == {"contains"}:
            yield from self.compare(old["contains"], new["contains"], place.to("contains"))
        else:
            yield from self.opaque_change(before or None, after or None, place.path(keywords[0]))

    def _conjunct(self, before: AnySchema | None, after: AnySchema | None, place: Place) -> Iterator[Change]:
        if before is None or after is None:
            yield from self.opaque_change(before, after, place.path())
        else:
            yield from self.compare(before, after, place)

    def opaque_change(self, before: object, after: object, path: Path) -> Iterator[Change]:
        """Yield the change of a rule that cannot be compared with another one."""
        # One rule more never lets more through, and one less never stops more.
        if before is None and after is None:
            return
        kind: Kind = "changed" if before is not None and after is not None else "narrowed"
        kind = "widened" if after is None else kind
        yield member_change(
            self.side, path, kind if kind == _SAFE_KIND[self.side] else "changed", before, after
        )

    def _combinations(self, old: Level, new: Level, place: Place) -> Iterator[Change]:
        """Yield the changes of schemas that no keyword could join with the level, and those of unions."""
        before, after = list(old.apart), list(new.apart)
        for part in list(before) if max(len(before), len(after)) <= MAX_BRANCHES else ():
            equal = next(
                (other_part for other_part in after if not self.compare(part, other_part, place.to("allOf"))),
                None,
            )
            if equal is not None:
                before = [other_part for other_part in before if other_part is not part]
                after = [other_part for other_part in after if other_part is not equal]
        if len(before) == len(after) == 1:
            yield from self.compare(before[0], after[0], place.to("allOf", "0"))
        elif before or after:
            yield from self.opaque_change(before or None, after or None, place.path("allOf"))
        for keyword in ("anyOf", "oneOf"):
            one, other = old.schema.get(keyword), new.schema.get(keyword)
            if one is not None and other is not None:
                yield from unions.compare(self, one, other, keyword == "oneOf", place)
            else:
                yield from self.opaque_change(one, other, place.path(keyword))

    def _undecided_change(self, keyword: str, old: Schema, new: Schema, place: Place) -> Change:
        return change(place.path(keyword), "changed", "widens_risk", old.get(keyword), new.get(keyword))

    def _text_changes(self, old: Schema, new: Schema, place: Place) -> Iterator[Change]:
        for keyword in dict.fromkeys([*old, *new]):
            if keyword in CONSTRAINING or (place.is_flat and keyword in _OWN_MEMBERS_OF_PARAMETERS):
                continue
            before, after = old.get(keyword), new.get(keyword)
            if is_equal(before, after) and (keyword in old) == (keyword in new):
                continue
            if keyword == "default":
                yield change(place.path(keyword), "changed", "compatible", before, after)
            elif keyword in ANNOTATIONS:
                yield member_change(self.side, place.path(keyword), "text", before, after)
            else:
                yield change(place.path(keyword), "changed", "cosmetic", before, after)

    def _reference_changes(
        self, old_steps: Steps, new_steps: Steps, place: Place, without: Steps = ()
    ) -> Iterator[Change]:
        """Yield the changes of references without a target, whose rules are unknown.

        The meaning of an endless reference depends on everything around it.
        """
        before = _unresolved_references(self.old.document.findings, old_steps, without)
        after = _unresolved_references(self.new.document.findings, new_steps, without)
        for steps in dict.fromkeys([*before, *after]):
            path, old, new = place.path(*steps, "$ref"), before.get(steps), after.get(steps)
            references = (old.subject if old else None, new.subject if new else None)
            if references[0] != references[1]:
                yield from self.opaque_change(references[0], references[1], path)
            elif old and old.code == "ENDLESS_REF" and not self._are_roots_equal:
                yield change(path, "changed", "widens_risk", *references)


_SAFE_KIND: Mapping[Side, Kind] = {"inputs": "widened", "outputs": "narrowed"}


def _unresolved_references(
    findings: Sequence[SchemaFinding], steps: Steps, without: Steps
) -> dict[Steps, SchemaFinding]:
    """Return the findings about references below `steps`, by their place there."""
    return {
        finding.place[len(steps) :]: finding
        for finding in findings
        if finding.code.endswith("_REF")
        and finding.place[: len(steps)] == steps
        and not (without and finding.place[:1] == without)
    }
