"""The branches of two unions, matched with each other."""

from typing import Any, Protocol

from catalog.rules.diff.changes import SAFE, Change, Kind, Side, change, on, undecided
from catalog.rules.diff.normal import (
    CONSTRAINING,
    MAX_BRANCHES,
    Document,
    Schema,
    is_schema,
    same_json,
    types,
)
from catalog.rules.diff.places import Place

MEMBERS = ("anyOf", "oneOf")


class Comparer(Protocol):
    """What compares two branches: `schemas.Comparer`, which comes here for unions."""

    side: Side
    old: Document
    new: Document

    def between(self, old: object, new: object, at: Place) -> list[Change]: ...


def alternatives(old: Schema, new: Schema) -> tuple[list[Any], list[Any], bool] | None:
    """The branches of the old and of the new schema, and whether a value has to fit exactly one of them.

    None unless each schema is nothing but a union, or one is and the other has no union.
    """
    one, other = _branches(old), _branches(new)
    if one is None and other is None:
        return None
    if one is None:
        one = None if _has_union(old) else (None, _by_type(old))
    if other is None:
        other = None if _has_union(new) else (None, _by_type(new))
    if one is None or other is None:
        return None
    return one[1], other[1], "oneOf" in (one[0], other[0])


def _branches(schema: Schema) -> tuple[str | None, list[Any]] | None:
    # The word (`anyOf` or `oneOf`) and the branches of a schema that says nothing else; None for others.
    said = CONSTRAINING & schema.keys()
    for member in MEMBERS:
        if said == {member} and isinstance(schema[member], list) and all(map(is_schema, schema[member])):
            return member, schema[member]
    return None


def _by_type(schema: Schema) -> list[Schema]:
    # One branch for each type, because those of the other side may be told apart by it.
    words = schema.get("type")
    if not isinstance(words, list) or "enum" in schema:
        return [schema]
    return [schema | {"type": word} for word in words]


def _has_union(schema: Schema) -> bool:
    return any(member in schema for member in MEMBERS)


def between(comparer: Comparer, olds: list[Any], news: list[Any], is_exact: bool, at: Place) -> list[Change]:
    at = at.to("oneOf" if is_exact else "anyOf")
    if max(len(olds), len(news)) > MAX_BRANCHES:
        return [] if same_json(olds, news) else [change(at.path(), "changed", "widens_risk", None, None)]
    match = _Match(comparer, olds, news, at)
    if not is_exact:
        return [*match.inside(), *match.changes()]
    # A value that fits one more branch no longer fits exactly one.
    return [undecided(each) if each.effect == "compatible" else each for each in match.changes()]


class _Match:
    """Matches branches: every branch that is needed has to fit inside one that is offered.

    For inputs the old branches are needed and the new ones offered, for outputs the other way round.
    """

    def __init__(self, comparer: Comparer, olds: list[Any], news: list[Any], at: Place) -> None:
        self.comparer = comparer
        self.at = at
        self.is_input = comparer.side == "inputs"
        self.all_offered = news if self.is_input else olds
        left = _unmatched(comparer, olds, news, at)
        self.needed, self.offered = left if self.is_input else (left[1], left[0])

    def inside(self) -> list[Change]:
        """The changes of the branches that fit inside an offered one, which are then no longer needed."""
        found: list[Change] = []
        for need in list(self.needed):
            inside = self._inside(need)
            if inside is not None:
                self.needed = [each for each in self.needed if each is not need]
                found += inside
        return found

    def changes(self) -> list[Change]:
        found: list[Change] = []
        for need in self.needed:
            like = max(self.offered, key=lambda offer: _likeness(need, offer), default=None)
            if like is not None and _likeness(need, like):
                self._use(like)
                found += self._between(need, like)
            else:
                found.append(self._lost(need))
        return [*found, *map(self._gained, self.offered)]

    def _inside(self, need: object) -> list[Change] | None:
        for offer in (*self.offered, *self.all_offered):
            found = self._between(need, offer)
            # That a member of any kind may have been sent before counts here.
            if all(each.effect in SAFE and each.kind != "added" for each in found):
                self._use(offer)
                return found
        return None

    def _use(self, offer: object) -> None:
        self.offered = [each for each in self.offered if each is not offer]

    def _between(self, need: object, offer: object) -> list[Change]:
        old, new = (need, offer) if self.is_input else (offer, need)
        number = next((n for n, each in enumerate(self.all_offered) if each is offer), 0)
        return self.comparer.between(old, new, self.at.to(str(number)))

    def _lost(self, branch: object) -> Change:
        if self.is_input:
            return on("inputs", self.at.path(), "narrowed", branch, None)
        reader = self.comparer
        known = frozenset().union(*(types(reader.old.normal(each)) for each in self.all_offered))
        kind: Kind = "widened" if types(reader.new.normal(branch)) <= known else "retyped"
        return on("outputs", self.at.path(), kind, None, branch)

    def _gained(self, branch: object) -> Change:
        if self.is_input:
            return on("inputs", self.at.path(), "widened", None, branch)
        return on("outputs", self.at.path(), "narrowed", branch, None)


def _likeness(one: object, other: object) -> int:
    # How surely two branches are the same one, changed; 0 when they are two different ones.
    if not isinstance(one, dict) or not isinstance(other, dict):
        return 0
    # A name that both have decides, a reference before a title.
    for member, weight in (("$ref", 4), ("title", 3)):
        if isinstance(one.get(member), str) and one.get(member) == other.get(member):
            return weight
    if "$ref" in one or "$ref" in other:
        return 1
    alike = len(types(one) & types(other)) > 0
    shared = len((one.get("properties") or {}).keys() & (other.get("properties") or {}).keys())
    return min(1 + shared, 2) if alike else 0


def _unmatched(
    comparer: Comparer, olds: list[Any], news: list[Any], at: Place
) -> tuple[list[Any], list[Any]]:
    # The branches of each side that the other side lacks.
    left, others = [], list(news)
    for old in olds:
        same = next((n for n, new in enumerate(others) if same_json(old, new)), None)
        if same is None or comparer.between(old, others[same], at):
            same = next((n for n, new in enumerate(others) if not comparer.between(old, new, at)), None)
        if same is None:
            left.append(old)
        else:
            del others[same]
    return left, others
