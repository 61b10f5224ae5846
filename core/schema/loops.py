"""References of a JSON Schema without a target, or in an endless cycle. Pure.

A schema that contains itself in a property describes a tree, which is valid. One that refers back to itself
for the same value has no meaning (core, 9.4.1), and programs that resolve its references never end.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from core.schema import cycles, pointers, spelling, subschemas
from core.schema.dialects import Dialect, dialect_of
from core.schema.references import References, UnresolvedReferenceError

Step = Callable[[dict[str, Any]], Iterator[Any]]
_REFERENCES = frozenset(subschemas.REFERENCES)


def has_references(document: Any) -> bool:
    return not all(map(_REFERENCES.isdisjoint, subschemas.walk(document)))


def is_pointer(reference: str) -> bool:
    return reference == "#" or reference.startswith("#/")


def references_of(document: Any) -> References:
    return References(document, dialect_of(document) or Dialect.UNDECLARED)


def target_of(references: References, schema: dict[str, Any]) -> Any:
    """Return the target of the reference in `schema`, None without one.

    Raises UnresolvedReferenceError.
    """
    for keyword in subschemas.REFERENCES:
        if keyword in schema:
            return references.target(keyword, schema)[1]
    return None


def with_pointers(document: dict[str, Any]) -> dict[str, Any]:
    """Return an equal schema in which every reference with a target is a pointer from the top; the schema
    itself if all are pointers.
    """
    if all(map(is_pointer, subschemas.references(document))):
        return document
    rewritten = copy.deepcopy(document)
    references = references_of(rewritten)
    targets = []
    for schema in subschemas.walk(rewritten):
        for keyword in subschemas.REFERENCES:
            if keyword in schema:
                try:
                    targets.append((schema, keyword, references.target(keyword, schema)[0]))
                except UnresolvedReferenceError:
                    continue
    for schema, keyword, steps in targets:
        pointer = pointers.join_fragment(steps)
        del schema[keyword]
        if "$ref" in schema:
            schema["allOf"] = [*schema.get("allOf", []), {"$ref": pointer}]
        else:
            schema["$ref"] = pointer
    for schema in subschemas.walk(rewritten):
        if schema is not rewritten and isinstance(schema.get("$id"), str):
            # A pointer would count from here.
            del schema["$id"]
    return rewritten


def dangling_references(document: Any) -> list[dict[str, Any]]:
    """Return the schemas whose reference points to nothing, or to a value that is no schema."""
    if not has_references(document):
        return []
    dangling, references = [], references_of(document)
    for schema in subschemas.walk(document):
        try:
            target_of(references, schema)
        except UnresolvedReferenceError:
            dangling.append(schema)
    return dangling


def endless_references(document: Any) -> list[dict[str, Any]]:
    """Return the schemas whose reference returns to themselves for the same value, and those that are only a
    reference to such a schema."""

    if not has_references(document):
        return []
    references = references_of(document)
    closing = _closing_references(document, references, subschemas.in_place)
    closing_ids = {id(schema) for schema in closing}
    # A bare reference to one of these has no meaning either.
    bare: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for schema in subschemas.walk(document):
        with suppress(UnresolvedReferenceError):
            target = target_of(references, schema) if len(schema) == 1 else None
            if isinstance(target, dict) and len(target) == 1:
                bare.append((schema, target))
    while more := [
        schema for schema, target in bare if id(schema) not in closing_ids and id(target) in closing_ids
    ]:
        closing += more
        closing_ids |= {id(schema) for schema in more}
    return closing


def required_recursions(document: Any) -> list[dict[str, Any]]:
    """Return the schemas whose reference returns to them without an optional property between."""

    def required_parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        properties = spelling.properties_of(schema)
        yield from (properties[name] for name in spelling.required_of(schema) if name in properties)
        for keyword, _, inside in subschemas.children(schema):
            if keyword not in ("properties", *subschemas.DEFINITIONS):
                yield inside

    return (
        _closing_references(document, references_of(document), required_parts)
        if has_references(document)
        else []
    )


def _closing_references(document: Any, references: References, inside: Step) -> list[dict[str, Any]]:
    def paths_of(schema: dict[str, Any]) -> Iterator[tuple[bool, Any]]:
        yield from ((False, child) for child in inside(schema) if isinstance(child, dict))
        with suppress(UnresolvedReferenceError):
            yield True, target_of(references, schema)

    return list(cycles.closing_references(subschemas.walk(document), paths_of))
