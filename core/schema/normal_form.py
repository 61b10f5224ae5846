"""One level of a schema, written in one way, so that two schemas can be compared rule by rule.

A level of `Document` has references followed and `allOf` joined. In the normal form, short forms are also
spelled out, unions that only list types become a list of types, and rules that allow everything are absent.
"""

from collections.abc import Sequence, Set
from typing import Any

from core.schema import types
from core.schema.dialects import ANNOTATIONS, AnySchema, Schema
from core.schema.document import SchemaDocument
from core.schema.merge import Level
from core.schema.types import EVERY_TYPE, NUMBER

MAX_DEPTH = 64  # unions inside each other
MAX_BRANCHES = 50  # a larger union is left as it is

# The types that a keyword limits: a minimum has no effect on text.
APPLIES_TO = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), NUMBER),
    **dict.fromkeys(
        ("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType", "contentSchema"),
        frozenset({"string"}),
    ),
    "format": NUMBER | {"string"},
    **dict.fromkeys(
        (
            *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
            *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas"),
            "unevaluatedProperties",
        ),
        frozenset({"object"}),
    ),
    **dict.fromkeys(
        (
            *("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
            *("minContains", "maxContains", "unevaluatedItems"),
        ),
        frozenset({"array"}),
    ),
}
COMBINING = frozenset(("type", "enum", "anyOf", "oneOf", "not", "if", "then", "else"))
CONSTRAINING = COMBINING | APPLIES_TO.keys()
# Of no meaning to a model or a call.
_DROPPED = ("$comment", "id")
_ALLOWING_WHEN_EMPTY = frozenset(
    (
        *("properties", "patternProperties", "dependentSchemas", "dependentRequired", "required"),
        *("prefixItems", "minLength", "minItems", "minProperties", "uniqueItems"),
    )
)
_OTHERS = ("additionalProperties", "items", "unevaluatedProperties", "unevaluatedItems")
_EVALUATING = ("anyOf", "oneOf", "if", "dependentSchemas", "contains")


class NormalForms:
    """The normal forms of the schemas of one document, each computed once."""

    def __init__(self, document: SchemaDocument) -> None:
        self.document = document
        self._depth = 0
        # By identity. The schema stays beside its level, so that no other one can get its id.
        self._levels: dict[int, tuple[AnySchema, Level]] = {}

    def level(self, schema: AnySchema) -> Level:
        """Return one level. `{"enum": []}` is the schema that no value fits."""
        entry = self._levels.get(id(schema))
        if entry is None:
            level = self.document.level(schema)
            if self._depth < MAX_DEPTH:
                self._depth += 1
                for keyword in ("anyOf", "oneOf"):
                    level = self._without_union(level, keyword)
                self._depth -= 1
            # Leave out the rules that allow everything. `is_alone`: no other schema is apart.
            rules = _spelled_out(level.schema)
            is_alone = not level.apart
            for loose, strict in (
                ("unevaluatedProperties", "additionalProperties"),
                ("unevaluatedItems", "items"),
            ):
                if strict in rules:
                    rules.pop(loose, None)
                elif loose in rules and is_alone and not any(keyword in rules for keyword in _EVALUATING):
                    rules[strict] = rules.pop(loose)
            rules = {
                keyword: value
                for keyword, value in rules.items()
                if not (keyword in _ALLOWING_WHEN_EMPTY and not value)
                and not (keyword in _OTHERS and value in (True, {}))
            }
            if isinstance(rules.get("type"), list) and types.types_of(rules) == EVERY_TYPE:
                del rules["type"]
            entry = self._levels[id(schema)] = schema, Level(rules, level.apart)
        return entry[1]

    def root_without_members(self, names: Set[str], own_names: Set[str]) -> Level:
        """Return the level of the root without the schemas of its members.

        names: members that count as listed, because `additionalProperties` depends on them. Only rules from
        elsewhere, such as `allOf`, remain of them.
        own_names: those that the root itself may require, which is left out.
        """
        root = self.document.root
        if isinstance(root, bool):
            return self.level(root)
        required = [name for name in root.get("required", ()) if name not in own_names]
        level = self.level({**root, "properties": dict.fromkeys(names, True), "required": required})
        others = {
            name: rule for name, rule in level.properties.items() if rule is not True or name not in names
        }
        rules = {keyword: value for keyword, value in level.schema.items() if keyword != "properties"}
        return Level(rules | ({"properties": others} if others else {}), level.apart)

    def _without_union(self, level: Level, keyword: str) -> Level:
        """Return an equal level in which a union of types is a list of types, if it is one.

        A `oneOf` in which no value fits two branches becomes an `anyOf`.
        """
        branches: Sequence[AnySchema] = level.schema.get(keyword, ())
        if not 0 < len(branches) <= MAX_BRANCHES:
            return level
        branch_levels = [self.level(branch) for branch in branches]
        others = {name: value for name, value in level.schema.items() if name != keyword}
        union = None
        if not any(branch.apart for branch in branch_levels):
            union = _union_of_types([branch.schema for branch in branch_levels])
        if union is not None:
            joined = self.document.level({"allOf": [others, union]})
            if not joined.apart:
                return Level(joined.schema, level.apart)
        # Surely no value fits two of the schemas.
        if (
            keyword == "oneOf"
            and "anyOf" not in others
            and all(
                self._exclude_each_other(one, other)
                for number, one in enumerate(branch_levels)
                for other in branch_levels[number + 1 :]
            )
        ):
            return Level({**others, "anyOf": branches}, level.apart)
        return level

    def _exclude_each_other(self, one: Level, other: Level) -> bool:
        type_sets = [types.types_of(level.schema) for level in (one, other)]
        if type_sets[0].isdisjoint(type_sets[1]) or _have_other_values(one.schema, other.schema):
            return True
        if type_sets[0] | type_sets[1] != {"object"}:
            return False
        # A member such as a kind distinguishes the values of the two.
        other_required = frozenset(other.required)
        members = [
            [self.document.level(level.properties.get(name, True)).schema for level in (one, other)]
            for name in one.required
            if name in other_required
        ]
        return any(_have_other_values(*pair) for pair in members)


def is_constraining(level: Level) -> bool:
    """Return whether the level has a rule that some value breaks."""
    return bool(level.apart) or not CONSTRAINING.isdisjoint(level.schema)


def _have_other_values(one: Schema, other: Schema) -> bool:
    value_lists = [types.values_of(schema) for schema in (one, other)]
    if value_lists[0] is None or value_lists[1] is None:
        return False
    return {types.value_key(value) for value in value_lists[0]}.isdisjoint(
        map(types.value_key, value_lists[1])
    )


def _spelled_out(schema: Schema) -> Schema:
    if schema.get("not") in ({}, True):
        return {name: value for name, value in schema.items() if name in ANNOTATIONS} | {"enum": []}
    rules = {name: value for name, value in schema.items() if name not in (*_DROPPED, "const")}
    if "const" in schema:
        rules["enum"] = types.listed_values(schema)
    if "dependentRequired" in rules:
        dependencies = rules["dependentRequired"].items()
        rules["dependentRequired"] = {name: sorted(names) for name, names in dependencies if names}
    return rules


def _union_of_types(branches: Sequence[Schema]) -> Schema | None:
    """Return one schema for branches that each limit other types; None where two touch the same type."""
    type_sets = [types.types_of(branch) for branch in branches]
    every = frozenset[str]().union(*type_sets)
    if sum(map(len, type_sets)) > len(every):
        return None
    value_lists = [types.values_of(branch) for branch in branches]
    finite_lists = [values for values in value_lists if values is not None]
    if len(finite_lists) == len(branches):
        return {"enum": [value for values in finite_lists for value in values]}
    union: Schema = {}
    for branch, branch_types in zip(branches, type_sets, strict=True):
        rules = (branch.keys() & CONSTRAINING) - {"type"}
        limited = frozenset[str]().union(*(APPLIES_TO.get(keyword, EVERY_TYPE) for keyword in rules))
        if not limited & every <= branch_types or rules & union.keys():
            return None
        union |= {keyword: branch[keyword] for keyword in rules}
    # Each branch has a `type`: one with listed values alone touches every type, and ends above.
    return {**union, "type": [word for branch in branches for word in types.type_words(branch)]}


def shown_type(schema: Schema) -> Any:
    """Return the type as a person reads it in a list of changes."""
    if "type" in schema:
        return schema["type"]
    type_set = types.types_of(schema)
    if type_set == EVERY_TYPE:
        return "anything"
    return sorted("number" if name == "fraction" else name for name in type_set - {"integer"})
