"""The members of an object, however its schema spells them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from core.schema import merge, types
from core.schema.dialects import AnySchema, Schema
from core.schema.document import Document

# `request`: sent and never returned (`writeOnly`). `response`: returned and never sent (`readOnly`).
Direction = Literal["both", "request", "response"]
# Alternatives inside alternatives; deeper ones add no members.
MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Member:
    """A named member. `schema` may be an `allOf` of all that holds for it. Read it with `Document.level`."""

    name: str
    schema: AnySchema
    is_required: bool
    direction: Direction


@dataclass(frozen=True, slots=True)
class ObjectSchema:
    """What a schema says about objects.

    `required` may name members that `members` does not have: an open object takes them all the same.
    `patterns` are schemas by pattern of a name, `others` is the schema of every other member: False where the
    object is closed. With `is_exact` these say all; else rules that are no member's own (alternatives,
    conditions, counts) hold beside them.
    """

    members: dict[str, Member]
    required: tuple[str, ...]
    patterns: dict[str, AnySchema] = field(default_factory=dict)
    others: AnySchema = True
    is_exact: bool = True

    @property
    def is_open(self) -> bool:
        """Return whether the object takes names that `members` does not have."""
        return self.others is not False or bool(self.patterns)


# The first of these that a schema has counts for members without a name or a pattern.
_CLOSING = ("additionalProperties", "unevaluatedProperties")
# Rules about an object that are no member's own.
_RULES = (
    *("anyOf", "oneOf", "not", "if", "dependentSchemas", "dependentRequired", "propertyNames"),
    *("minProperties", "maxProperties", "enum", "const"),
)


def read_object(document: Document, schema: AnySchema, *, alternatives: bool = False) -> ObjectSchema | None:
    """Return what a schema says about objects; None where it takes no object.

    Members come through `$ref` and `allOf`. With `alternatives` they come through `anyOf`, `oneOf`,
    conditions and `dependentSchemas` too: members that may be left out, of names that no other member has.
    """
    level = document.level(schema)
    if "object" not in types.types_of(level.schema) or level.schema.get("not") == {}:
        return None
    parts = parts_of(document, schema)
    properties: dict[str, AnySchema] = {}
    matched: dict[str, AnySchema] = {}
    for part in parts:
        for named, keyword in ((properties, "properties"), (matched, "patternProperties")):
            for name, rule in part.get(keyword, {}).items():
                named[name] = merge.both(named.get(name, True), rule)
    required = tuple(dict.fromkeys(name for part in parts for name in part.get("required", ())))
    if alternatives:
        found = list(_alternative_members(document, parts, MAX_DEPTH))
        for name in dict.fromkeys(name for name, _ in found if name not in properties):
            rules = [rule for other, rule in found if other == name and rule is not False]
            properties[name] = {"anyOf": rules} if len(rules) > 1 else rules[0] if rules else False
    return ObjectSchema(
        members={
            name: Member(name, rule, name in required, direction_of(document, rule))
            for name, rule in properties.items()
            if rule is not False
        },
        required=required,
        patterns=matched,
        others=_others(document, parts, MAX_DEPTH),
        is_exact=not level.apart and not any(keyword in level.schema for keyword in _RULES),
    )


def alternative_names(document: Document, schema: AnySchema) -> set[str]:
    """Return the members that alternatives, conditions and `dependentSchemas` list or require."""
    return set(_alternative_names(document, parts_of(document, schema), MAX_DEPTH))


def direction_of(document: Document, schema: AnySchema) -> Direction:
    """Return whether a member is only sent or only returned, by `readOnly` and `writeOnly`."""
    for part in parts_of(document, schema):
        if part.get("readOnly"):
            return "response"
        if part.get("writeOnly"):
            return "request"
    return "both"


def _others(document: Document, parts: Sequence[Schema], depth: int) -> AnySchema:
    """Return the schema of members without a name or a pattern; False where no choice takes one."""
    others: AnySchema = True
    for part in parts:
        closing = [part[keyword] for keyword in _CLOSING if keyword in part]
        others = merge.both(others, closing[0] if closing else True)
        for keyword in ("anyOf", "oneOf"):
            branches = part.get(keyword, ()) if depth else ()
            closed = [
                _others(document, parts_of(document, branch), depth - 1) is False for branch in branches
            ]
            if closed and all(closed):
                return False
    return others


def _alternative_members(
    document: Document, parts: Sequence[Schema], depth: int
) -> Iterator[tuple[str, AnySchema]]:
    for part in parts if depth else ():
        for branch in branches_of(part):
            inner = parts_of(document, branch)
            for each in inner:
                yield from each.get("properties", {}).items()
            yield from _alternative_members(document, inner, depth - 1)


def _alternative_names(document: Document, parts: Sequence[Schema], depth: int) -> Iterator[str]:
    for part in parts if depth else ():
        branches = [
            *(branch for keyword in ("anyOf", "oneOf") for branch in part.get(keyword, ())),
            *part.get("dependentSchemas", {}).values(),
            *(part[keyword] for keyword in ("then", "else") if "if" in part and keyword in part),
        ]
        for branch in branches:
            inner = parts_of(document, branch)
            for each in inner:
                yield from (*each.get("properties", ()), *each.get("required", ()))
            yield from _alternative_names(document, inner, depth - 1)


def branches_of(part: Schema) -> list[AnySchema]:
    """Return the schemas of one level that may hold for the same value."""
    branches = [branch for keyword in ("anyOf", "oneOf") for branch in part.get(keyword, ())]
    branches += part.get("dependentSchemas", {}).values()
    if "if" in part:
        branches += [part[keyword] for keyword in ("if", "then", "else") if keyword in part]
    return branches


def parts_of(document: Document, schema: AnySchema) -> list[Schema]:
    """Return the schemas that must all hold for a value; just one for nearly every schema."""
    level = document.level(schema)
    return [level.schema, *(document.level(part).schema for part in level.apart)]
