"""Bound the time of a validation before it starts.

A few hundred bytes can take years: each of thirty definitions refers twice to the next, or a tree refers
twice to itself. The cost is the number of schemas that may apply to one part of a value; multiplied by the
parts of the value it bounds the whole.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from core.schema import pointers, subschemas

MAX_MEETING = 10_000
# Counting must end too, even for a schema that refers to itself.
MAX_STEPS = 200_000


class TooComplexError(Exception):
    """A validation with this schema may take too long."""


def require_bounded(schema: Any, depth: int) -> int:
    """Return how many schemas may apply to one part of a value that is nested `depth` levels deep.

    Raises TooComplexError. Each reference must have a target within the schema.
    """
    try:
        return _Counter(schema).largest_count(schema, depth)
    except RecursionError as exc:
        raise TooComplexError from exc


def unbounded(document: Any, schemas: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Return the names of those parts of `document` that `require_bounded` would refuse."""
    counter = _Counter(document)
    for name, schema in schemas.items():
        try:
            counter.largest_count(schema, depth)
        except (TooComplexError, RecursionError):
            yield name
            counter = _Counter(document)


# Schemas that apply to a value itself, to any one member of it, and to any one entry of it.
Meeting = tuple[int, int, int]

_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_ENTRIES = ("items", "additionalItems", "unevaluatedItems")


class _Counter:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._known: dict[tuple[int, int], Meeting] = {}
        self._open: set[tuple[int, int]] = set()
        self._steps = 0

    def largest_count(self, schema: Any, depth: int) -> int:
        return max(self._count(schema, depth))

    def _count(self, schema: Any, depth: int) -> Meeting:
        if not isinstance(schema, dict):
            return 1, 0, 0
        key = (id(schema), depth)
        if key in self._known:
            return self._known[key]
        self._steps += 1
        # A schema that refers back to itself for the same value describes no value.
        if key in self._open or self._steps > MAX_STEPS:
            raise TooComplexError
        self._open.add(key)
        below = self._count_below(schema, depth - 1) if depth else (0, 0)
        references = subschemas.own_references(schema)
        try:
            targets = [pointers.resolve_reference(self._document, reference) for reference in references]
        except LookupError as exc:
            raise TooComplexError from exc
        branches = (*subschemas.in_place(schema), *targets)
        counts = [(1, *below), *(self._count(branch, depth) for branch in branches)]
        # To find unevaluated parts, all schemas in place are evaluated again.
        times = 3 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        here, member, entry = (times * sum(count) for count in zip(*counts, strict=True))
        meeting = here, member, entry
        self._open.remove(key)
        if max(meeting) > MAX_MEETING:
            raise TooComplexError
        self._known[key] = meeting
        return meeting

    def _count_below(self, schema: dict[str, Any], depth: int) -> tuple[int, int]:
        """Return how many schemas apply to any one member, and to any one entry."""
        # At most one property applies to a member, or the schema of all other members.
        members = [*_values_of(schema.get("properties")), *(schema.get(keyword) for keyword in _MEMBERS)]
        patterns = _values_of(schema.get("patternProperties"))
        entries = [schema.get(keyword) for keyword in _ENTRIES]
        for keyword in subschemas.PART_LISTS:
            if isinstance(parts := schema.get(keyword), list):
                entries += parts
        return (
            self._largest(members, depth) + sum(self.largest_count(rule, depth) for rule in patterns),
            self._largest(entries, depth)
            + (self.largest_count(schema["contains"], depth) if "contains" in schema else 0),
        )

    def _largest(self, schemas: list[Any], depth: int) -> int:
        return max(
            (self.largest_count(schema, depth) for schema in schemas if isinstance(schema, dict)), default=0
        )


def _values_of(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []
