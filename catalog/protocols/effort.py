"""How long judging by a schema may take, counted before it is done.

A few hundred bytes can ask for years of work: each of thirty definitions refers twice to the next,
or a tree refers twice to itself. The count is of the schemas that may meet at one part of a value;
multiplied by the parts of the value it bounds the whole.
"""

from collections.abc import Iterator
from typing import Any

from catalog.protocols import subschemas

MOST = 10_000
MOST_STEPS = 200_000


class TooInvolvedError(Exception):
    """Judging by this schema might not come to an end in any useful time."""


def require_bounded(schema: Any, depth: int) -> int:
    """How many schemas may meet at one part of a value that is nested `depth` levels deep.

    Raises TooInvolvedError. References have to lead somewhere within the schema.
    """
    try:
        return _Count(schema).of(schema, depth)
    except RecursionError as exc:
        raise TooInvolvedError from exc


class _Count:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._known: dict[tuple[int, int], int] = {}
        self._open: set[tuple[int, int]] = set()
        self._steps = 0

    def of(self, schema: Any, depth: int) -> int:
        if not isinstance(schema, dict):
            return 1
        key = (id(schema), depth)
        if key in self._known:
            return self._known[key]
        self._steps += 1
        # A schema that leads back to itself at the same place describes no value at all.
        if key in self._open or self._steps > MOST_STEPS:
            raise TooInvolvedError
        self._open.add(key)
        count = self._here(schema, depth) + (self._below(schema, depth - 1) if depth else 0)
        self._open.remove(key)
        if count > MOST:
            raise TooInvolvedError
        self._known[key] = count
        return count

    def _here(self, schema: dict[str, Any], depth: int) -> int:
        count = 1 + sum(self.of(each, depth) for each in self._in_place(schema))
        # To know what is left over, everything in place is judged again.
        again = "unevaluatedProperties" in schema or "unevaluatedItems" in schema
        return count * 3 if again else count

    def _in_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        for keyword in subschemas.IN_PLACE:
            yield schema.get(keyword)
        for keyword in subschemas.IN_PLACE_LISTS:
            yield from _listed(schema.get(keyword))
        for keyword in subschemas.IN_PLACE_MAPS:
            yield from _named(schema.get(keyword))
        for keyword in subschemas.REFERENCES:
            if isinstance(schema.get(keyword), str):
                yield self._referred(schema[keyword])

    def _referred(self, reference: str) -> Any:
        try:
            return subschemas.pointed(self._document, reference)
        except LookupError as exc:
            raise TooInvolvedError from exc

    def _below(self, schema: dict[str, Any], depth: int) -> int:
        """Properties of different names meet different parts, so only the largest of them counts."""
        largest = max((self.of(each, depth) for each in _named(schema.get("properties"))), default=0)
        others = [schema.get(keyword) for keyword in subschemas.PARTS]
        others += _named(schema.get("patternProperties"))
        for keyword in subschemas.PART_LISTS:
            others += _listed(schema.get(keyword))
        return largest + sum(self.of(each, depth) for each in others if isinstance(each, dict))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []
