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
# The least common multiple of a few hundred numbers has more digits than JSON readers convert.
MAX_STEP_BITS = 1_024

_FLAGS = ("readOnly", "writeOnly", "deprecated")  # true where any part states it (validation, 9.3 and 9.4)
# Keywords of one rule: each has a meaning only beside the others.
_MEMBERS = ("properties", "patternProperties", "additionalProperties")
_GROUPS: tuple[tuple[str, ...], ...] = (
    _MEMBERS,
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
    joiner = _Joiner()
    merged = joiner.schema
    inner: list[AnySchema] = [schema]
    # A schema that only refers to another one is replaced by it, even if that one cannot be joined.
    while len(inner) == 1 and not merged.keys() - ANNOTATIONS:
        part = inner[0]
        if isinstance(part, bool):
            return Level(merged if part else merged | NEVER)
        keywords, inner = _take_apart(part, follow)
        joiner.add(keywords)
    apart: list[Schema] = []
    try:
        for number, part in enumerate(_split_conjuncts(inner, follow)):
            if number >= MAX_PARTS or _UNEVALUATED & part.keys():
                apart.append(part)
                continue
            if remainder := joiner.add(part):
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
    if one in (True, {}) or other in (True, {}) or _is_equal(one, other):
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


def _split_conjuncts(schemas: Sequence[AnySchema], follow: Follow) -> Iterator[Schema]:
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


class _Joiner:
    """Joins schemas one after another. `schema` is one schema with the rules of all.

    A part that only lists members of an object costs what it lists, and not what was listed before.
    """

    def __init__(self) -> None:
        self.schema: Schema = {}
        # No vendor's object, so that members can be added to it.
        self._own_properties: dict[str, AnySchema] = {}
        # Members that the last part listed as {}. The next part makes them True.
        self._empty_names: list[str] = []

    def add(self, other: Schema) -> Schema:
        """Add the rules of `other`, and return those that the joined schema cannot state.

        Raises _NeverError, and adds nothing then.
        """
        changes: list[tuple[Schema, Schema]] = []
        members: dict[str, AnySchema | None] | None = None
        own_properties, remainder, done = self._own_properties, dict[str, Any](), set[str]()
        for keyword in other:
            group = _GROUP_OF.get(keyword, (keyword,))
            if keyword in done:
                continue
            done.update(group)
            one_rule = {word: self.schema[word] for word in group if word in self.schema}
            other_rule = {word: other[word] for word in group if word in other}
            try:
                if group is not _MEMBERS:
                    joined = _join_rules(keyword, one_rule, other_rule)
                elif (
                    own_properties
                    and not other_rule.get("patternProperties")
                    and other_rule.get("additionalProperties", True) is True
                ):
                    joined, members = _join_listed_members(one_rule, other_rule)
                else:
                    joined = _join_rules(keyword, one_rule, other_rule)
                    own_properties = {} if joined is other_rule else joined.get("properties", {})
            except _ApartError:
                remainder |= other_rule
                continue
            changes.append((one_rule, joined))
        for one_rule, joined in changes:
            for word in one_rule:
                del self.schema[word]
            self.schema |= joined
        if members is not None:
            self._extend_properties(members)
        elif own_properties is not self._own_properties:
            self._own_properties = own_properties
            self._empty_names = [name for name, rule in own_properties.items() if rule == {}]
        return remainder

    def _extend_properties(self, members: Mapping[str, AnySchema | None]) -> None:
        properties = self._own_properties
        properties |= dict.fromkeys(self._empty_names, True)
        self._empty_names = [name for name, rule in members.items() if rule == {}]
        for name, rule in members.items():
            if rule is None:
                properties.pop(name, None)
            else:
                properties[name] = rule
        if not properties:
            del self.schema["properties"]


def _join_rules(keyword: str, one_rule: Schema, other_rule: Schema) -> Schema:
    """Return the rules of one keyword, or of its group, that state both."""
    if not one_rule or _is_equal(one_rule, other_rule):
        return other_rule
    if group := _GROUP_OF.get(keyword):
        return _JOIN_GROUP[group[0]](one_rule, other_rule)
    if keyword == "const":
        raise _NeverError
    if join_values := _JOIN_VALUE.get(keyword):
        return {keyword: join_values(one_rule[keyword], other_rule[keyword])}
    # An annotation, or a keyword of the vendor's own: it is about the outer schema.
    return one_rule


def _is_equal(one: AnySchema, other: AnySchema) -> bool:
    """Return what `types.is_equal` does, and return early where a joined schema has grown."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(rule, other[word]) for word, rule in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return types.is_equal(one, other)


def _join_listed_members(one: Schema, other: Schema) -> tuple[Schema, dict[str, AnySchema | None]]:
    """Join `one` with a schema that only lists members, without copying the members of `one`.

    Return the joined schema with the properties of `one`, and the properties that change: their new schema,
    or None for one that is removed. The result means the same as that of `_join_members`.
    """
    side = _MemberRules(one)
    others = both(side.others, True)
    members: dict[str, AnySchema | None] = {}
    for name, rule in other.get("properties", {}).items():
        joined = both(side.rule_for(name), rule)
        is_absent = joined is False and others is False
        members[name] = (
            None
            if is_absent and not any(_name_matches(pattern, name) for pattern in side.patterns)
            else joined
        )
    is_stated = others is not True or "additionalProperties" in {**one, **other}
    listed_rules = {word: rule for word, rule in one.items() if word != "additionalProperties" and rule}
    return listed_rules | ({"additionalProperties": others} if is_stated else {}), members


def _join_members(one: Schema, other: Schema) -> Schema:
    sides = [_MemberRules(side) for side in (one, other)]
    properties: dict[str, AnySchema] = {**sides[0].properties, **sides[1].properties}
    # Where both sides accept other members, those of the other side alone stay as they are.
    are_open = all(side.others is True and not side.patterns for side in sides)
    for name in sides[0].properties if are_open else properties:
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
                    if _name_matches(pattern, name):
                        properties[name] = both(properties[name], rule)
            else:
                raise _ApartError
    others = both(sides[0].others, sides[1].others)
    if others is False:
        properties = {
            name: rule
            for name, rule in properties.items()
            if rule is not False or any(_name_matches(pattern, name) for pattern in patterned)
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
        return True if any(_name_matches(pattern, name) for pattern in self.patterns) else self.others


def _name_matches(pattern: str, name: str) -> bool:
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
        step = lcm(one, other)
        if step.bit_length() > MAX_STEP_BITS:
            raise _ApartError
        return step
    small, large = sorted((one, other))
    if Fraction(str(large)) % Fraction(str(small)):
        raise _ApartError
    return large


def _join_names(one: list[str], other: list[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


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
    "not": lambda one, other: {"anyOf": [one, other]},
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("uniqueItems", *_FLAGS), operator.or_),
    **dict.fromkeys(("anyOf", "oneOf", "pattern", "format"), _keep_apart),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "contentSchema", *_UNEVALUATED), _keep_apart),
}
