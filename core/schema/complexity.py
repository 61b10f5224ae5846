"""How long judging by a schema may take, counted before it is done.

A few hundred bytes can ask for years of work: each of thirty definitions refers twice to the next,
or a tree refers twice to itself. The count is of the schemas that may meet at one part of a value;
multiplied by the parts of the value it bounds the whole.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from core.schema import pointers, subschemas

MAX_MEETING = 10_000
# The count itself must end, also for a schema that refers to itself.
MAX_STEPS = 200_000


class TooComplexError(Exception):
    """Judging by this schema might not come to an end in any useful time."""


def require_bounded(schema: Any, depth: int) -> int:
    """How many schemas may meet at one part of a value that is nested `depth` levels deep.

    Raises TooComplexError. References have to lead somewhere within the schema.
    """
    try:
        return _Count(schema).most(schema, depth)
    except RecursionError as exc:
        raise TooComplexError from exc


def unbounded(document: Any, schemas: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Return the names of those parts of `document` that `require_bounded` would refuse."""
    count = _Count(document)
    for name, schema in schemas.items():
        try:
            count.most(schema, depth)
        except (TooComplexError, RecursionError):
            yield name
            count = _Count(document)


# Schemas that meet at a value itself, at any one member of it, and at any one entry of it.
Meeting = tuple[int, int, int]

_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_ENTRIES = ("items", "additionalItems", "unevaluatedItems")


class _Count:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._known: dict[tuple[int, int], Meeting] = {}
        self._open: set[tuple[int, int]] = set()
        self._steps = 0

    def most(self, schema: Any, depth: int) -> int:
        return max(self._of(schema, depth))

    def _of(self, schema: Any, depth: int) -> Meeting:
        if not isinstance(schema, dict):
            return 1, 0, 0
        key = (id(schema), depth)
        if key in self._known:
            return self._known[key]
        self._steps += 1
        # A schema that leads back to itself at the same place describes no value at all.
        if key in self._open or self._steps > MAX_STEPS:
            raise TooComplexError
        self._open.add(key)
        below = (self._at_member(schema, depth - 1), self._at_entry(schema, depth - 1)) if depth else (0, 0)
        counts = [(1, *below), *(self._of(each, depth) for each in self._in_place(schema))]
        # To know what is left over, everything in place is judged again.
        times = 3 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        here, member, entry = (times * sum(count) for count in zip(*counts, strict=True))
        meeting = here, member, entry
        self._open.remove(key)
        if max(meeting) > MAX_MEETING:
            raise TooComplexError
        self._known[key] = meeting
        return meeting

    def _in_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        yield from subschemas.in_place(schema)
        for reference in subschemas.own_references(schema):
            try:
                target = pointers.resolve_reference(self._document, reference)
            except LookupError as exc:
                raise TooComplexError from exc
            yield target

    def _at_member(self, schema: dict[str, Any], depth: int) -> int:
        # Of the properties one at most meets a member, or what is said of all others.
        either = [*_named(schema.get("properties")), *(schema.get(keyword) for keyword in _MEMBERS)]
        also = _named(schema.get("patternProperties"))
        return self._largest(either, depth) + sum(self.most(each, depth) for each in also)

    def _at_entry(self, schema: dict[str, Any], depth: int) -> int:
        either = [schema.get(keyword) for keyword in _ENTRIES]
        for keyword in subschemas.PART_LISTS:
            either += _listed(schema.get(keyword))
        return self._largest(either, depth) + (
            self.most(schema["contains"], depth) if "contains" in schema else 0
        )

    def _largest(self, schemas: list[Any], depth: int) -> int:
        return max((self.most(each, depth) for each in schemas if isinstance(each, dict)), default=0)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []
