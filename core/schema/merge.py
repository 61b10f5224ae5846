"""Join several schemas into one with the rules of all: the only meaning that `allOf` has in this product.

`flatten` joins one level: it follows references, splits `allOf` and joins the parts keyword by keyword.
Rules that no single keyword can state stay apart, as schemas that apply too, so a reader that cannot use
them knows what it loses. Schemas of members and items become an `allOf`, which is flattened when a reader
gets there.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import lcm
from typing import Any

from core.schema import regular_expressions, types
from core.schema.dialects import ANNOTATIONS, AnySchema, Schema

NEVER: Schema = {"not": {}}
# A level that combines more schemas keeps the others apart.
MAX_PARTS = 1_000

_FLAGS = ("readOnly", "writeOnly", "deprecated")  # true where any part states it (validation, 9.3 and 9.4)
# Keywords of one rule: each has a meaning only beside the others.
_GROUPS: tuple[tuple[str, ...], ...] = (
    ("properties", "patternProperties", "additionalProperties"),
    ("prefixItems", "items"),
    ("contains", "minContains", "maxContains"),
    ("if", "then", "else"),
)
_GROUP_OF = {keyword: group for group in _GROUPS for keyword in group}
_UNEVALUATED = frozenset(("unevaluatedProperties", "unevaluatedItems"))
Follow = Callable[[str], AnySchema]


@dataclass(frozen=True, slots=True)
class Level:
    """The rules of a schema for a value itself: the value fits `schema` and each schema in `apart`.

    `schema` has neither `$ref` nor `allOf` nor `$defs`. `apart` is empty for nearly all schemas. It contains
    second rules of one keyword, such as a second `pattern`, and schemas with `unevaluatedProperties` or
    `unevaluatedItems`, which depend on everything inside them and cannot be joined with others.
    """

    schema: Schema
    apart: tuple[Schema, ...] = ()

    @property
    def properties(self) -> Mapping[str, AnySchema]:
        properties: Mapping[str, AnySchema] = self.schema.get("properties", {})
        return properties

    @property
    def patterns(self) -> Mapping[str, AnySchema]:
        """Return the schemas under `patternProperties`."""
        patterns: Mapping[str, AnySchema] = self.schema.get("patternProperties", {})
        return patterns

    @property
    def required(self) -> Sequence[str]:
        required: Sequence[str] = self.schema.get("required", ())
        return required


class _ApartError(Exception):
    """No keyword can state both rules."""


class _NeverError(Exception):
    """No value fits both."""


def flatten(schema: AnySchema, follow: Follow) -> Level:
    """Return one level of a schema in the internal form. `follow` returns the target of a `$ref`."""
    merged: Schema = {}
    inner: list[AnySchema] = [schema]
    # A schema that only refers to another one is replaced by it, even if that one cannot be joined.
    while len(inner) == 1 and not merged.keys() - ANNOTATIONS:
        part = inner[0]
        if isinstance(part, bool):
            return Level(merged if part else merged | NEVER)
        keywords, inner = _take_apart(part, follow)
        merged = _join(merged, keywords)[0]
    apart: list[Schema] = []
    try:
        for number, part in enumerate(_conjuncts(inner, follow)):
            if number >= MAX_PARTS or _UNEVALUATED & part.keys():
                apart.append(part)
                continue
            merged, remainder = _join(merged, part)
            if remainder:
                apart.append(remainder)
    except _NeverError:
        return Level({keyword: value for keyword, value in merged.items() if keyword in ANNOTATIONS} | NEVER)
    return Level(merged, tuple(apart))


def join(levels: Sequence[Schema]) -> Level:
    """Return one level with the rules of several. None of them has a reference or an `allOf`."""

    def follow(reference: str) -> AnySchema:
        raise LookupError(reference)

    return flatten({"allOf": list(levels)}, follow)


def both(one: AnySchema, other: AnySchema) -> AnySchema:
    """Return a schema that accepts what both accept."""
    if one is False or other is False:
        return False
    if one in (True, {}) or other in (True, {}) or types.is_equal(one, other):
        return other if one in (True, {}) else one
    parts: list[AnySchema] = []
    for schema in (one, other):
        is_joined = isinstance(schema, dict) and schema.keys() == {"allOf"}
        parts += schema["allOf"] if isinstance(schema, dict) and is_joined else [schema]
    return {"allOf": parts}


def identity(schema: AnySchema) -> object:
    """Return a key that is the same for the same schema, and for schemas that `both` made of the same parts.

    Without it, references in a cycle would give new schemas without end. It is valid while the schema exists.
    """
    is_joined = isinstance(schema, dict) and len(schema) == 1 and "allOf" in schema
    return tuple(map(id, schema["allOf"])) if isinstance(schema, dict) and is_joined else id(schema)


def _take_apart(schema: Schema, follow: Follow) -> tuple[Schema, list[AnySchema]]:
    """Return the own keywords of a schema, and the schemas that must fit too."""
    keywords = {
        keyword: value for keyword, value in schema.items() if keyword not in ("$ref", "allOf", "$defs")
    }
    inner: list[AnySchema] = [follow(schema["$ref"])] if "$ref" in schema else []
    inner += schema.get("allOf", ())
    for keyword in ("anyOf", "oneOf"):
        if len(keywords.get(keyword, ())) == 1:
            inner += keywords.pop(keyword)
    return keywords, inner


def _conjuncts(schemas: Sequence[AnySchema], follow: Follow) -> Iterator[Schema]:
    waiting, visited = list(reversed(schemas)), set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, bool):
            if not part:
                raise _NeverError
            continue
        if id(part) in visited:
            continue
        visited.add(id(part))
        if _UNEVALUATED & part.keys():
            yield part
            continue
        keywords, inner = _take_apart(part, follow)
        yield keywords
        waiting += reversed(inner)


def _join(one: Schema, other: Schema) -> tuple[Schema, Schema]:
    """Return one schema with the rules of both, and the rules of `other` that it cannot state."""
    merged, remainder = dict(one), dict[str, Any]()
    done: set[str] = set()
    for keyword in other:
        group = _GROUP_OF.get(keyword, (keyword,))
        if keyword in done:
            continue
        done.update(group)
        one_rule = {word: merged[word] for word in group if word in merged}
        other_rule = {word: other[word] for word in group if word in other}
        try:
            if not one_rule or types.is_equal(one_rule, other_rule):
                joined = other_rule
            elif keyword in _GROUP_OF:
                joined = _JOIN_GROUP[group[0]](one_rule, other_rule)
            elif keyword == "const":
                raise _NeverError
            elif join_values := _JOIN_VALUE.get(keyword):
                joined = {keyword: join_values(one_rule[keyword], other_rule[keyword])}
            else:
                # An annotation, or a keyword of the vendor's own: it is about the outer schema.
                joined = one_rule
        except _ApartError:
            remainder |= other_rule
            continue
        merged = {word: value for word, value in merged.items() if word not in one_rule} | joined
    return merged, remainder


def _join_members(one: Schema, other: Schema) -> Schema:
    sides = [_MemberRules(side) for side in (one, other)]
    properties: dict[str, AnySchema] = {}
    for name in {**sides[0].properties, **sides[1].properties}:
        properties[name] = both(*(side.rule_for(name) for side in sides))
    patterned: dict[str, AnySchema] = {}
    for side, opposite in (sides, reversed(sides)):
        for pattern, rule in side.patterns.items():
            if pattern in opposite.patterns:
                patterned[pattern] = both(rule, opposite.patterns[pattern])
            elif opposite.others is True:
                patterned[pattern] = rule
            elif opposite.others is False and not opposite.patterns:
                # The opposite side accepts only those of these names that it lists.
                for name in properties:
                    if _matches(pattern, name):
                        properties[name] = both(properties[name], rule)
            else:
                raise _ApartError
    others = both(sides[0].others, sides[1].others)
    if others is False:
        properties = {
            name: rule
            for name, rule in properties.items()
            if rule is not False or any(_matches(pattern, name) for pattern in patterned)
        }
    joined: Schema = {"properties": properties} if properties else {}
    joined |= {"patternProperties": patterned} if patterned else {}
    # True has a meaning too, beside `unevaluatedProperties`.
    is_stated = others is not True or any("additionalProperties" in side for side in (one, other))
    return joined | ({"additionalProperties": others} if is_stated else {})


class _MemberRules:
    """The rules of one schema for the members of an object."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.properties: Mapping[str, AnySchema] = schema.get("properties", {})
        self.patterns: Mapping[str, AnySchema] = schema.get("patternProperties", {})
        self.others: AnySchema = schema.get("additionalProperties", True)

    def rule_for(self, name: str) -> AnySchema:
        """Return the schema of a member, without those of patterns, which apply too."""
        if name in self.properties:
            return self.properties[name]
        return True if any(_matches(pattern, name) for pattern in self.patterns) else self.others


def _matches(pattern: str, name: str) -> bool:
    is_match = regular_expressions.matches(pattern, name)
    if is_match is None:
        raise _ApartError
    return is_match


def _join_items(one: Schema, other: Schema) -> Schema:
    sides = [(side.get("prefixItems", []), side.get("items", True)) for side in (one, other)]
    joined_heads = [
        both(*(head[number] if number < len(head) else others for head, others in sides))
        for number in range(max(len(head) for head, _ in sides))
    ]
    joined: Schema = {"prefixItems": joined_heads} if joined_heads else {}
    joined_items = both(*(others for _, others in sides))
    return joined | ({} if joined_items is True else {"items": joined_items})


def _join_whole(needed: str, one: Schema, other: Schema) -> Schema:
    # The other keywords have no meaning without the needed one.
    if needed in one and needed in other:
        raise _ApartError
    return one if needed in one else other


def _join_types(one: Any, other: Any) -> Any:
    sets = [types.types_of({"type": value}) for value in (one, other)]
    common = sets[0] & sets[1]
    if not common:
        raise _NeverError
    for value, values in zip((one, other), sets, strict=True):
        if values == common:
            return value
    words = types.words_of_types(common)
    return words[0] if len(words) == 1 else words


def _join_enums(one: list[Any], other: list[Any]) -> list[Any]:
    keys = set(map(types.value_key, other))
    common = [value for value in one if types.value_key(value) in keys]
    if not common:
        raise _NeverError
    return common


def _join_steps(one: float, other: float) -> float:
    if isinstance(one, int) and isinstance(other, int):
        return lcm(one, other)
    small, large = sorted((one, other))
    if Fraction(str(large)) % Fraction(str(small)):
        raise _ApartError
    return large


def _join_names(one: list[str], other: list[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


def _join_nots(one: AnySchema, other: AnySchema) -> AnySchema:
    return {"anyOf": [one, other]}


def _join_named(join: Callable[[Any, Any], Any], missing: Any, one: Schema, other: Schema) -> Schema:
    return one | {name: join(one.get(name, missing), value) for name, value in other.items()}


def _keep_apart(one: Any, other: Any) -> Any:
    raise _ApartError


_JOIN_GROUP: Mapping[str, Callable[[Schema, Schema], Schema]] = {
    "properties": _join_members,
    "prefixItems": _join_items,
    "contains": partial(_join_whole, "contains"),
    "if": partial(_join_whole, "if"),
}
# How two different values of one keyword are joined.
_JOIN_VALUE: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _join_types,
    "enum": _join_enums,
    "multipleOf": _join_steps,
    "required": _join_names,
    "dependentRequired": partial(_join_named, _join_names, []),
    "dependentSchemas": partial(_join_named, both, True),
    "propertyNames": both,
    "not": _join_nots,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("uniqueItems", *_FLAGS), operator.or_),
    **dict.fromkeys(("anyOf", "oneOf", "pattern", "format"), _keep_apart),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "contentSchema", *_UNEVALUATED), _keep_apart),
}
