"""The branches of two unions, matched with each other."""

from collections.abc import Sequence
from typing import Protocol

from catalog.rules.diff.changes import SAFE, Change, Kind, Side, as_undecided, change, member_change
from catalog.rules.diff.places import Place
from core.schema import subschemas
from core.schema.dialects import AnySchema
from core.schema.merge import Level
from core.schema.normal_form import CONSTRAINING, MAX_BRANCHES, NormalForms
from core.schema.types import is_equal, type_words, types_of

KEYWORDS = ("anyOf", "oneOf")


class BranchComparer(Protocol):
    """Compares two branches of a union. `schemas.Comparer` implements it."""

    side: Side
    old: NormalForms
    new: NormalForms

    def compare(self, old: AnySchema, new: AnySchema, place: Place) -> list[Change]: ...


def alternatives(old: Level, new: Level) -> tuple[Sequence[AnySchema], Sequence[AnySchema], bool] | None:
    """Return the branches of the old and of the new schema, and whether a value has to fit exactly one.

    None unless each schema is nothing but a union, or one is and the other has no union.
    """
    unions: list[tuple[str, Sequence[AnySchema]] | None] = []
    for level in (old, new):
        rules = CONSTRAINING & level.schema.keys()
        keyword = next((keyword for keyword in KEYWORDS if rules == {keyword}), None)
        unions.append((keyword, level.schema[keyword]) if keyword and not level.apart else None)
    if unions == [None, None]:
        return None
    branches: list[Sequence[AnySchema]] = []
    for level, union in zip((old, new), unions, strict=True):
        if union is not None:
            branches.append(union[1])
        elif any(keyword in level.schema for keyword in KEYWORDS):
            return None
        else:
            # One branch for each type, because types may distinguish the branches of the other side.
            combined = level.schema | ({"allOf": list(level.apart)} if level.apart else {})
            words = type_words(level.schema)
            branches.append(
                [combined]
                if len(words) < 2 or "enum" in level.schema
                else [combined | {"type": word} for word in words]
            )
    return branches[0], branches[1], any(union is not None and union[0] == "oneOf" for union in unions)


def compare(
    comparer: BranchComparer,
    old_branches: Sequence[AnySchema],
    new_branches: Sequence[AnySchema],
    is_exact: bool,
    place: Place,
) -> list[Change]:
    place = place.to("oneOf" if is_exact else "anyOf")
    if max(len(old_branches), len(new_branches)) > MAX_BRANCHES:
        if is_equal(old_branches, new_branches):
            return []
        return [change(place.path(), "changed", "widens_risk", None, None)]
    match = _Match(comparer, old_branches, new_branches, place)
    if not is_exact:
        return [*match.contained_changes(), *match.changes()]
    # A value that fits one more branch no longer fits exactly one.
    return [
        as_undecided(single_change) if single_change.effect == "compatible" else single_change
        for single_change in match.changes()
    ]


class _Match:
    """Matches branches: every branch that is needed has to fit inside one that is offered.

    For inputs the old branches are needed and the new ones offered, for outputs the other way round.
    """

    def __init__(
        self,
        comparer: BranchComparer,
        old_branches: Sequence[AnySchema],
        new_branches: Sequence[AnySchema],
        place: Place,
    ) -> None:
        self.comparer = comparer
        self.place = place
        self.is_input = comparer.side == "inputs"
        self.all_offered = new_branches if self.is_input else old_branches
        # The branches of each side that the other side lacks.
        unmatched, others = [], list(new_branches)
        for old in old_branches:
            equal = next((n for n, new in enumerate(others) if is_equal(old, new)), None)
            if equal is None or comparer.compare(old, others[equal], place):
                equal = next(
                    (n for n, new in enumerate(others) if not comparer.compare(old, new, place)), None
                )
            if equal is None:
                unmatched.append(old)
            else:
                del others[equal]
        self.needed, self.offered = (unmatched, others) if self.is_input else (others, unmatched)

    def contained_changes(self) -> list[Change]:
        """Return the changes of the branches that fit inside an offered one; they are no longer needed."""
        changes: list[Change] = []
        for branch in list(self.needed):
            for offer in (*self.offered, *self.all_offered):
                inner_changes = self._compare_branches(branch, offer)
                # That a member of any kind may have been sent before counts here.
                if all(inner.effect in SAFE and inner.kind != "added" for inner in inner_changes):
                    self._remove_offer(offer)
                    self.needed = [needed for needed in self.needed if needed is not branch]
                    changes += inner_changes
                    break
        return changes

    def changes(self) -> list[Change]:
        changes: list[Change] = []
        path = self.place.path()
        levels = [self.comparer.old.level(offer) for offer in self.all_offered] if not self.is_input else []
        offered_types = frozenset[str]().union(*(types_of(level.schema) for level in levels))
        for branch in self.needed:
            similar = max(self.offered, key=lambda offer: self._likeness(branch, offer), default=None)
            if similar is not None and self._likeness(branch, similar):
                self._remove_offer(similar)
                changes += self._compare_branches(branch, similar)
            elif self.is_input:
                changes.append(member_change("inputs", path, "narrowed", branch, None))
            else:
                is_within = types_of(self.comparer.new.level(branch).schema) <= offered_types
                kind: Kind = "widened" if is_within else "retyped"
                changes.append(member_change("outputs", path, kind, None, branch))
        if self.is_input:
            return [*changes, *(member_change("inputs", path, "widened", None, new) for new in self.offered)]
        return [*changes, *(member_change("outputs", path, "narrowed", old, None) for old in self.offered)]

    def _remove_offer(self, offer: AnySchema) -> None:
        self.offered = [offer_left for offer_left in self.offered if offer_left is not offer]

    def _compare_branches(self, branch: AnySchema, offer: AnySchema) -> list[Change]:
        old, new = (branch, offer) if self.is_input else (offer, branch)
        number = next((n for n, candidate in enumerate(self.all_offered) if candidate is offer), 0)
        return self.comparer.compare(old, new, self.place.to(str(number)))

    def _likeness(self, branch: AnySchema, offer: AnySchema) -> int:
        """Return how surely two branches are the same one, changed; 0 when they are two different ones."""
        if isinstance(branch, bool) or isinstance(offer, bool):
            return 0
        # A name that both have decides, a reference before a title.
        references = [list(subschemas.own_references(schema)) for schema in (branch, offer)]
        if references[0] and references[0] == references[1]:
            return 4
        if isinstance(branch.get("title"), str) and branch.get("title") == offer.get("title"):
            return 3
        if any(references):
            return 1
        forms = (self.comparer.old, self.comparer.new)
        old, new = (branch, offer) if self.is_input else (offer, branch)
        levels = [form.document.level(schema) for form, schema in zip(forms, (old, new), strict=True)]
        if types_of(levels[0].schema).isdisjoint(types_of(levels[1].schema)):
            return 0
        return min(1 + len(levels[0].properties.keys() & levels[1].properties.keys()), 2)
