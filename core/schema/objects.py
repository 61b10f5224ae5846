"""The members of an object, in every spelling of its schema."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from core.schema import merge, types
from core.schema.bounds import SchemaBoundsError
from core.schema.dialects import AnySchema, Schema
from core.schema.document import SchemaDocument, read_document

# `request`: sent and never returned (`writeOnly`). `response`: returned and never sent (`readOnly`).
Direction = Literal["both", "request", "response"]
# Returns the branches of one level that are followed.
Choose = Callable[[Schema], Sequence[AnySchema]]
# Alternatives inside alternatives; deeper ones close no object.
MAX_DEPTH = 64
MAX_APPLICABLE = 20_000


@dataclass(frozen=True, slots=True)
class ObjectMember:
    """A named member. `schema` may be an `allOf` of all its rules. Read it with `Document.level`."""

    name: str
    schema: AnySchema
    is_required: bool
    direction: Direction


@dataclass(frozen=True, slots=True)
class ObjectSchema:
    """The rules of a schema for objects.

    `required` may contain names that `members` lacks: an open object accepts them. patterns: schemas by the
    pattern of a name. others: the schema of every other member, False in a closed object. is_exact: there
    are no rules beside those of members, such as alternatives, conditions and counts.
    """

    members: dict[str, ObjectMember]
    required: tuple[str, ...]
    patterns: dict[str, AnySchema] = field(default_factory=dict)
    others: AnySchema = True
    is_exact: bool = True

    @property
    def is_open(self) -> bool:
        """Return whether the object accepts names that `members` lacks."""
        return self.others is not False or bool(self.patterns)


# The first of these keywords in a schema applies to members without a name or a pattern.
_CLOSING = ("additionalProperties", "unevaluatedProperties")
# Rules about an object that are no member's own.
_RULES = (
    *("anyOf", "oneOf", "not", "if", "dependentSchemas", "dependentRequired", "propertyNames"),
    *("minProperties", "maxProperties", "enum", "const"),
)


def read_object(document: SchemaDocument, schema: AnySchema) -> ObjectSchema | None:
    """Return the rules of a schema for objects; None if it accepts no object.

    Members come through `$ref` and `allOf`, and not through alternatives.
    """
    level = document.level(schema)
    if "object" not in types.types_of(level.schema) or level.schema.get("not") == {}:
        return None
    parts = parts_of(document, schema)
    properties: dict[str, AnySchema] = {}
    matched: dict[str, AnySchema] = {}
    for part in parts:
        for schemas_by_name, keyword in ((properties, "properties"), (matched, "patternProperties")):
            for name, rule in part.get(keyword, {}).items():
                schemas_by_name[name] = merge.both(schemas_by_name.get(name, True), rule)
    required = dict.fromkeys(name for part in parts for name in part.get("required", ()))
    return ObjectSchema(
        members={
            name: ObjectMember(name, rule, name in required, direction_of(document, rule))
            for name, rule in properties.items()
            if rule is not False
        },
        required=tuple(required),
        patterns=matched,
        others=_schema_of_others(document, parts, MAX_DEPTH),
        is_exact=not level.apart and not any(keyword in level.schema for keyword in _RULES),
    )


def has_object_type(schema: Schema) -> bool:
    """Return whether the type is object, also where `$ref` or `allOf` states that."""
    try:
        document = read_document(schema)
    except SchemaBoundsError:
        return False
    return document.level(document.root).schema.get("type") == "object"


def alternative_names(document: SchemaDocument, schema: AnySchema) -> set[str]:
    """Return the members that alternatives, conditions and `dependentSchemas` list or require."""
    branches = [branch for part in parts_of(document, schema) for branch in branches_of(part)]
    parts = applicable_parts(document, branches)
    return {name for part in parts for name in (*part.get("properties", ()), *part.get("required", ()))}


def direction_of(document: SchemaDocument, schema: AnySchema) -> Direction:
    """Return whether a member is only sent or only returned, by `readOnly` and `writeOnly`."""
    for part in parts_of(document, schema):
        if part.get("readOnly"):
            return "response"
        if part.get("writeOnly"):
            return "request"
    return "both"


def _schema_of_others(document: SchemaDocument, parts: Sequence[Schema], depth: int) -> AnySchema:
    """Return the schema of members without a name or a pattern; False if no choice accepts one."""
    others: AnySchema = True
    for part in parts:
        closing = [part[keyword] for keyword in _CLOSING if keyword in part]
        others = merge.both(others, closing[0] if closing else True)
        for keyword in ("anyOf", "oneOf"):
            branches = part.get(keyword, ()) if depth else ()
            if branches and all(_is_closed(document, branch, depth - 1) for branch in branches):
                return False
    return others


def _is_closed(document: SchemaDocument, branch: AnySchema, depth: int) -> bool:
    key = merge.identity(branch)
    if key not in document.closed_branches:
        document.closed_branches[key] = (
            _schema_of_others(document, parts_of(document, branch), depth) is False
        )
    return document.closed_branches[key]


def applicable_parts(
    document: SchemaDocument, schemas: Sequence[AnySchema], choose: Choose | None = None
) -> Iterator[Schema]:
    """Yield the schemas that hold or may hold for a value of all `schemas`, each once.

    choose: `branches_of` by default.
    """
    waiting, visited = list(reversed(schemas)), set[object]()
    while waiting and len(visited) < MAX_APPLICABLE:
        schema = waiting.pop()
        if (key := merge.identity(schema)) in visited:
            continue
        visited.add(key)
        parts = parts_of(document, schema)
        yield from parts
        waiting += reversed([branch for part in parts for branch in (choose or branches_of)(part)])


def branches_of(part: Schema) -> list[AnySchema]:
    """Return the schemas of one level that hold for the same value by a choice or a condition."""
    branches = [branch for keyword in ("anyOf", "oneOf") for branch in part.get(keyword, ())]
    branches += part.get("dependentSchemas", {}).values()
    return branches + [part[keyword] for keyword in ("then", "else") if keyword in part]


def parts_of(document: SchemaDocument, schema: AnySchema) -> list[Schema]:
    """Return the schemas that a value must all fit; one for nearly every schema."""
    level = document.level(schema)
    return [level.schema, *(document.level(part).schema for part in level.apart)]
