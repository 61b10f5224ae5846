"""A JSON Schema without references, for targets that accept none: each reference is replaced by its
target."""

from typing import Any

from core.schema import pointers, spelling, subschemas

# The largest number of parts of a schema. Many references to large definitions multiply.
MAX_PARTS = 20_000
# Useless without references, or allowed at the top of a document only.
_ANCHORS = {*subschemas.DEFINITIONS, "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}


def inlined(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the schema without references, and whether a part was replaced by a schema that accepts
    anything: a target that contains itself, is missing or outside, or would make the schema too large."""
    inliner = _Inliner(schema)
    inlined_schema: dict[str, Any] = inliner.without_references(schema, ("#",))
    return inlined_schema, inliner.is_cut


def inlined_once(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return one schema of `document` with the targets of its references in their place. None if a target
    contains itself, is missing or is too large."""
    inliner = _Inliner(document)
    inlined_schema: dict[str, Any] = inliner.without_references(schema, ())
    return None if inliner.is_cut else inlined_schema


class _Inliner:
    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.is_cut = False
        self._parts = 0

    def without_references(self, place: Any, trail: tuple[str, ...]) -> Any:
        def change(schema: dict[str, Any]) -> dict[str, Any]:
            self._parts += 1
            references = [schema[keyword] for keyword in subschemas.REFERENCES if keyword in schema]
            merged = {
                keyword: value
                for keyword, value in schema.items()
                if keyword not in subschemas.REFERENCES and keyword not in _ANCHORS
            }
            for reference in references:
                target: Any = {}
                try:
                    # A definition that contains itself has no end without references.
                    if reference in trail or self._parts > MAX_PARTS:
                        raise LookupError(reference)
                    target = pointers.resolve_reference(self.document, str(reference))
                except LookupError:
                    self.is_cut = True
                merged = joined(merged, self.without_references(target, (*trail, str(reference))))
            return merged

        return subschemas.mapped(place, change)


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
