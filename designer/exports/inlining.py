"""A JSON Schema without references, for targets that know none: what one leads to stands in its place."""

from typing import Any

from core.schema import subschemas

# What one schema may grow to; many references to large definitions multiply.
MAX_PARTS = 20_000
# Of no use without references, or said at the top of a document alone.
_ANCHORS = {*subschemas.DEFINITIONS, "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
# Where a reference and its target both say one of these, what stands beside the reference is meant.
_WORDS = {"title", "description", "default", "examples", "deprecated", "$comment"}


def inlined(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """And whether something was cut off: what leads to itself, nowhere or outside, and what would make the
    schema too large, may be anything.
    """
    parts, is_cut = 0, False

    def without_references(place: Any, trail: tuple[str, ...]) -> Any:
        def change(each: dict[str, Any]) -> dict[str, Any]:
            nonlocal parts, is_cut
            parts += 1
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
                    if reference in trail or parts > MAX_PARTS:
                        raise LookupError(reference)
                    target = subschemas.pointed(schema, str(reference))
                except LookupError:
                    is_cut = True
                beside = _joined(beside, without_references(target, (*trail, str(reference))))
            return beside

        return subschemas.mapped(place, change)

    written: dict[str, Any] = without_references(schema, ("#",))
    return written, is_cut


def _joined(beside: dict[str, Any], target: Any) -> dict[str, Any]:
    if not isinstance(target, dict):
        # A schema that is `false` takes nothing, and as an object it says so like this.
        target = {"not": {}} if target is False else {}
    differing = {keyword for keyword in beside.keys() & target.keys() if beside[keyword] != target[keyword]}
    return (
        {**target, **beside}
        if differing <= _WORDS
        else {**beside, "allOf": [*beside.get("allOf", []), target]}
    )
