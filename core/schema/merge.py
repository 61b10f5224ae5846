"""One schema that says what several say together: the only meaning that `allOf` has in this product.

`flatten` looks at one level: it follows references, takes `allOf` apart and joins the parts keyword by
keyword. What no keyword can say of two stays apart, as a schema that holds too; a reader that cannot hold it
knows what it loses. Schemas of members and items are joined as `allOf`, for the reader that goes there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from core.schema import regular_expressions, types
from core.schema.dialects import ANNOTATIONS, AnySchema, Schema

NEVER: Schema = {"not": {}}
# A level that combines more schemas keeps the others apart.
MAX_PARTS = 1_000

_FLAGS = ("readOnly", "writeOnly", "deprecated")  # true where any part says so (validation, 9.3 and 9.4)
# Keywords of one rule: one of them means something beside the others alone.
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
    """What a schema says about a value itself: the value fits `schema` and each schema that is `apart`.

    `schema` has neither `$ref` nor `allOf` nor `$defs`. `apart` is empty for nearly all schemas. It holds
    second rules of one keyword, such as a second `pattern`, and schemas with `unevaluatedProperties` or
    `unevaluatedItems`, which judge by all that stands inside them and cannot be joined with anything.
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
    """No keyword says what two say."""


class _NeverError(Exception):
    """No value fits both."""


def flatten(schema: AnySchema, follow: Follow) -> Level:
    """Return one level of a schema in the internal form. `follow` returns the target of a `$ref`."""
    merged: Schema = {}
    inner: list[AnySchema] = [schema]
    # A schema that only refers to another one stands for it, also where that one cannot be joined.
    while len(inner) == 1 and not merged.keys() - ANNOTATIONS:
        part = inner[0]
        if isinstance(part, bool):
            return Level(merged if part else merged | NEVER)
        own, inner = _take_apart(part, follow)
        merged = _join(merged, own)[0]
    apart: list[Schema] = []
    try:
        for number, part in enumerate(_conjuncts(inner, follow)):
            if number >= MAX_PARTS or _UNEVALUATED & part.keys():
                apart.append(part)
                continue
            merged, left = _join(merged, part)
            if left:
                apart.append(left)
    except _NeverError:
        return Level({keyword: value for keyword, value in merged.items() if keyword in ANNOTATIONS} | NEVER)
    return Level(merged, tuple(apart))


def join(levels: Sequence[Schema]) -> Level:
    """Return one level that says what several say. None of them has a reference or an `allOf`."""

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


def _take_apart(schema: Schema, follow: Follow) -> tuple[Schema, list[AnySchema]]:
    """Return what a schema says itself, and the schemas that must hold beside it."""
    own = {keyword: value for keyword, value in schema.items() if keyword not in ("$ref", "allOf", "$defs")}
    inner: list[AnySchema] = [follow(schema["$ref"])] if "$ref" in schema else []
    inner += schema.get("allOf", ())
    for keyword in ("anyOf", "oneOf"):
        if len(own.get(keyword, ())) == 1:
            inner += own.pop(keyword)
    return own, inner


def _conjuncts(schemas: Sequence[AnySchema], follow: Follow) -> Iterator[Schema]:
    waiting, seen = list(reversed(schemas)), set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, bool):
            if not part:
                raise _NeverError
            continue
        if id(part) in seen:
            continue
        seen.add(id(part))
        if _UNEVALUATED & part.keys():
            yield part
            continue
        own, inner = _take_apart(part, follow)
        yield own
        waiting += reversed(inner)


def _join(one: Schema, other: Schema) -> tuple[Schema, Schema]:
    """Return one schema that says what both say, and the rules of `other` that it does not."""
    merged, left = dict(one), dict[str, Any]()
    done: set[str] = set()
    for keyword in other:
        group = _GROUP_OF.get(keyword, (keyword,))
        if keyword in done:
            continue
        done.update(group)
        mine = {each: merged[each] for each in group if each in merged}
        theirs = {each: other[each] for each in group if each in other}
        try:
            joined = _join_rule(keyword, mine, theirs)
        except _ApartError:
            left |= theirs
            continue
        merged = {each: value for each, value in merged.items() if each not in mine} | joined
    return merged, left


def _join_rule(keyword: str, mine: Schema, theirs: Schema) -> Schema:
    if not mine or types.is_equal(mine, theirs):
        return theirs
    if keyword in _GROUP_OF:
        return _JOIN_GROUP[_GROUP_OF[keyword][0]](mine, theirs)
    if keyword in ANNOTATIONS and keyword not in _FLAGS:
        return mine
    join = _JOIN_VALUE.get(keyword)
    # A keyword of the vendor's own is about the schema that stands outside.
    return mine if join is None else {keyword: join(mine[keyword], theirs[keyword])}


def _join_members(mine: Schema, theirs: Schema) -> Schema:
    sides = [_Members(side) for side in (mine, theirs)]
    properties: dict[str, AnySchema] = {}
    for name in {**sides[0].properties, **sides[1].properties}:
        properties[name] = both(*(side.rule_for(name) for side in sides))
    patterned: dict[str, AnySchema] = {}
    for one, other in (sides, reversed(sides)):
        for pattern, rule in one.patterns.items():
            if pattern in other.patterns:
                patterned[pattern] = both(one.patterns[pattern], other.patterns[pattern])
            elif other.others is True:
                patterned[pattern] = rule
            elif other.others is False and not other.patterns:
                # The other side takes none of these names but those that it lists.
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
    # Also true means something beside `unevaluatedProperties`.
    is_stated = others is not True or any("additionalProperties" in side for side in (mine, theirs))
    return joined | ({"additionalProperties": others} if is_stated else {})


class _Members:
    """What one schema says about the members of an object."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.properties: Mapping[str, AnySchema] = schema.get("properties", {})
        self.patterns: Mapping[str, AnySchema] = schema.get("patternProperties", {})
        self.others: AnySchema = schema.get("additionalProperties", True)

    def rule_for(self, name: str) -> AnySchema:
        """Return the schema of a member without those of patterns, which hold beside it."""
        if name in self.properties:
            return self.properties[name]
        return True if any(_matches(pattern, name) for pattern in self.patterns) else self.others


def _matches(pattern: str, name: str) -> bool:
    is_match = regular_expressions.matches(pattern, name)
    if is_match is None:
        raise _ApartError
    return is_match


def _join_items(mine: Schema, theirs: Schema) -> Schema:
    heads = [side.get("prefixItems", []) for side in (mine, theirs)]
    others = [side.get("items", True) for side in (mine, theirs)]
    sides = list(zip(heads, others, strict=True))
    joined_heads = [
        both(*(head[number] if number < len(head) else other for head, other in sides))
        for number in range(max(map(len, heads)))
    ]
    joined: Schema = {"prefixItems": joined_heads} if joined_heads else {}
    rest = both(*others)
    return joined | ({} if rest is True else {"items": rest})


def _join_contains(mine: Schema, theirs: Schema) -> Schema:
    return _join_whole("contains", mine, theirs)


def _join_conditions(mine: Schema, theirs: Schema) -> Schema:
    return _join_whole("if", mine, theirs)


def _join_whole(needed: str, mine: Schema, theirs: Schema) -> Schema:
    # Without the keyword that is needed, the others say nothing.
    if needed in mine and needed in theirs:
        raise _ApartError
    return mine if needed in mine else theirs


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


def _join_constants(one: Any, other: Any) -> Any:
    if not types.is_equal(one, other):
        raise _NeverError
    return one


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


def _join_named_names(one: dict[str, list[str]], other: dict[str, list[str]]) -> dict[str, list[str]]:
    return one | {name: _join_names(one.get(name, []), names) for name, names in other.items()}


def _join_named_schemas(one: dict[str, AnySchema], other: dict[str, AnySchema]) -> dict[str, AnySchema]:
    return one | {name: both(one.get(name, True), schema) for name, schema in other.items()}


def _keep_apart(one: Any, other: Any) -> Any:
    raise _ApartError


def _is_any(one: bool, other: bool) -> bool:
    return one or other


_JOIN_GROUP: Mapping[str, Callable[[Schema, Schema], Schema]] = {
    "properties": _join_members,
    "prefixItems": _join_items,
    "contains": _join_contains,
    "if": _join_conditions,
}
# What holds of a keyword that both schemas have, with values that differ.
_JOIN_VALUE: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _join_types,
    "enum": _join_enums,
    "const": _join_constants,
    "multipleOf": _join_steps,
    "required": _join_names,
    "dependentRequired": _join_named_names,
    "dependentSchemas": _join_named_schemas,
    "propertyNames": both,
    "not": _join_nots,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("uniqueItems", *_FLAGS), _is_any),
    **dict.fromkeys(("anyOf", "oneOf", "pattern", "format"), _keep_apart),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "contentSchema", *_UNEVALUATED), _keep_apart),
}
