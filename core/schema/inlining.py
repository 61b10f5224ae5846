"""A JSON Schema without references, for targets that accept none: each reference is replaced by its
target."""

from functools import partial
from typing import Any

from core.schema import bounds, pointers, spelling, subschemas

# The largest number of parts of a schema. Many references to large definitions multiply.
MAX_PARTS = 20_000
# Characters of their values, texts and names: a definition with a long list of values multiplies too.
MAX_LENGTH = 4_000_000
# A number, an entry of a list or a member takes this many.
_LENGTH_OF_ENTRY = 20
# Useless without references, or allowed at the top of a document only.
_ANCHORS = {*subschemas.DEFINITIONS, "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}


def inlined(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the schema without references, and whether a part was replaced by a schema that accepts
    anything: a target that contains itself, is missing or outside, or makes the schema too large or deep."""
    inliner = Inliner(schema)
    inlined_schema: dict[str, Any] = inliner.without_references(schema, ("#",))
    return inlined_schema, inliner.is_cut


class Inliner:
    """Replaces the references of one document. All replacements share one limit of parts and of length."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.is_cut = False
        self._parts = self._length = 0
        # By identity. The schema stays beside its length, so that no other one can get its id.
        self._lengths: dict[int, tuple[dict[str, Any], int]] = {}

    def inline_once(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Return one schema of the document with the targets of its references in their place. None if a
        target contains itself, is missing or is too large."""
        self.is_cut = False
        inlined_schema: dict[str, Any] = self.without_references(schema, ())
        return None if self.is_cut else inlined_schema

    def without_references(self, schema: Any, trail: tuple[str, ...], depth: int = 0) -> Any:
        if not isinstance(schema, dict):
            return schema
        inline_child = partial(self.without_references, trail=trail, depth=depth + 1)
        inside = {
            keyword: subschemas.change_below(keyword, value, inline_child)
            for keyword, value in schema.items()
            if keyword not in _ANCHORS
        }
        self._parts += 1
        if id(schema) not in self._lengths:
            self._lengths[id(schema)] = schema, _count_length(schema)
        self._length += self._lengths[id(schema)][1]
        references = [inside[keyword] for keyword in subschemas.REFERENCES if keyword in inside]
        merged = {keyword: value for keyword, value in inside.items() if keyword not in subschemas.REFERENCES}
        for reference in references:
            target: Any = {}
            try:
                # A definition that contains itself has no end without references.
                is_too_large = self._parts > MAX_PARTS or self._length > MAX_LENGTH
                if reference in trail or is_too_large or depth > bounds.MAX_DEPTH:
                    raise LookupError(reference)
                target = pointers.resolve_reference(self.document, str(reference))
            except LookupError:
                self.is_cut = True
            inlined_target = self.without_references(target, (*trail, str(reference)), depth + 1)
            merged = joined(merged, inlined_target)
        return merged


def joined(siblings: dict[str, Any], target: Any) -> dict[str, Any]:
    if not isinstance(target, dict):
        # This object has the same meaning as the schema `false`.
        target = {"not": {}} if target is False else {}
    differing = {
        keyword for keyword in siblings.keys() & target.keys() if siblings[keyword] != target[keyword]
    }
    return (
        {**target, **siblings}
        if differing <= spelling.WORDS
        else {**siblings, "allOf": [*siblings.get("allOf", []), target]}
    )


def _count_length(schema: dict[str, Any]) -> int:
    """Return the length of what a schema contains beside other schemas, in characters."""
    length = 0
    waiting: list[Any] = []
    for keyword, value in schema.items():
        if isinstance(value, dict) and keyword in subschemas.MAPS:
            length += sum(map(len, value)) + _LENGTH_OF_ENTRY * len(value)
        elif keyword not in subschemas.ONES and keyword not in subschemas.LISTS:
            waiting.append(value)
    while waiting:
        value = waiting.pop()
        length += len(value) if isinstance(value, str) else _LENGTH_OF_ENTRY
        if isinstance(value, dict):
            length += sum(map(len, value))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return length
