"""A JSON Schema without references, for targets that accept none: what one leads to stands in its place."""

from typing import Any

from core.schema import pointers, subschemas

# What one schema may grow to; many references to large definitions multiply.
MAX_PARTS = 20_000
# Of no use without references, or stated at the top of a document alone.
_ANCHORS = {*subschemas.DEFINITIONS, "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
# Where a reference and its target both have one of these, what stands beside the reference is meant.
WORDS = frozenset(("title", "description", "default", "examples", "deprecated", "$comment"))


def inlined(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the schema, and whether something was cut off: what leads to itself, nowhere or outside, and
    what would make the schema too large, may be anything.
    """
    inliner = _Inliner(schema)
    written: dict[str, Any] = inliner.without_references(schema, ("#",))
    return written, inliner.is_cut


def inlined_once(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return one schema of `document` with what its references lead to in their place, None where that holds
    itself, leads nowhere or is too large."""
    inliner = _Inliner(document)
    written: dict[str, Any] = inliner.without_references(schema, ())
    return None if inliner.is_cut else written


class _Inliner:
    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.is_cut = False
        self._parts = 0

    def without_references(self, place: Any, trail: tuple[str, ...]) -> Any:
        def change(each: dict[str, Any]) -> dict[str, Any]:
            self._parts += 1
            found = [each[keyword] for keyword in subschemas.REFERENCES if keyword in each]
            beside = {
                keyword: value
                for keyword, value in each.items()
                if keyword not in subschemas.REFERENCES and keyword not in _ANCHORS
            }
            for reference in found:
                target: Any = {}
                try:
                    # A definition that contains itself has no end without references.
                    if reference in trail or self._parts > MAX_PARTS:
                        raise LookupError(reference)
                    target = pointers.resolve_reference(self.document, str(reference))
                except LookupError:
                    self.is_cut = True
                beside = joined(beside, self.without_references(target, (*trail, str(reference))))
            return beside

        return subschemas.mapped(place, change)


def joined(beside: dict[str, Any], target: Any) -> dict[str, Any]:
    if not isinstance(target, dict):
        # A schema that is `false` takes nothing, and as an object it says so like this.
        target = {"not": {}} if target is False else {}
    differing = {keyword for keyword in beside.keys() & target.keys() if beside[keyword] != target[keyword]}
    return (
        {**target, **beside}
        if differing <= WORDS
        else {**beside, "allOf": [*beside.get("allOf", []), target]}
    )
