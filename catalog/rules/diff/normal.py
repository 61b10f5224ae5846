"""One schema in one form, so that two of them can be compared member by member.

`normal` looks at a single level: local references are put in place, short forms are spelt out, and
unions that are only a way to write several types become a list of types. Schemas below stay as they
came. Nothing is fetched: a reference that does not lead into the same document stays what it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from core.canonical_json import canonical
from core.schema import pointers
from core.schema.types import EVERY_TYPE, NUMBER, type_of

Schema = dict[str, Any]

MAX_DEPTH = 64  # references and unions inside each other
MAX_BRANCHES = 50  # of a union, beyond which no two are held against each other

# What a type cannot have does not limit it: a minimum says nothing about text.
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
            *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"),
            "unevaluatedProperties",
        ),
        frozenset({"object"}),
    ),
    **dict.fromkeys(
        (
            *("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
            *("minContains", "maxContains", "unevaluatedItems", "additionalItems"),
        ),
        frozenset({"array"}),
    ),
}
# Said to people and models; no value is refused for it.
ANNOTATIONS = frozenset(
    {"title", "description", "examples", "example", "default", "deprecated", "readOnly", "writeOnly"}
)
COMBINING = frozenset({"type", "enum", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "$ref"})
CONSTRAINING = COMBINING | APPLIES_TO.keys() | {"$dynamicRef", "$recursiveRef"}
# Names and places that other schemas refer to.
_SCAFFOLD = ("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$defs", "definitions", "$comment")
# Members that mean something only beside each other.
_TOGETHER = (
    {"if", "then", "else"},
    {"contains", "minContains", "maxContains"},
    {"contentEncoding", "contentMediaType", "contentSchema"},
)
_UNEVALUATED = {"unevaluatedProperties", "unevaluatedItems"}
_TYPES = {
    **{name: frozenset({name}) for name in EVERY_TYPE - {"fraction"}},
    "number": NUMBER,
}


def is_constraining(schema: Mapping[str, Any]) -> bool:
    return not CONSTRAINING.isdisjoint(schema)


def pointed_at(root: object, reference: object) -> Any:
    """What a local reference leads to, or None."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    try:
        return pointers.resolve(root, pointers.split_fragment(reference))
    except pointers.PointerError:
        return None


def is_schema(value: object) -> TypeGuard[Schema | bool]:
    return isinstance(value, dict | bool)


class Document:
    """What the references of a schema lead into. Reads each schema once, however often it is asked for."""

    def __init__(self, root: object) -> None:
        self.root = root
        named = root.get("$schema") if isinstance(root, dict) else None
        # Up to draft 7, what stands beside a reference does not count.
        self._is_old_dialect = isinstance(named, str) and "draft-0" in named
        # The schema stays beside what was read, so that no other one can get its id.
        self._read: dict[int, tuple[Schema, Schema]] = {}
        self._open: set[int] = set()

    def normal(self, schema: object) -> Schema:
        """Not to be changed by the caller; `{"enum": []}` is what no value fits."""
        if not isinstance(schema, dict):
            return {"enum": []} if schema is False else {}
        if id(schema) in self._read:
            return self._read[id(schema)][1]
        if id(schema) in self._open or len(self._open) >= MAX_DEPTH:
            return schema  # It leads back to itself, and what it would add is being read already.
        self._open.add(id(schema))
        if _UNEVALUATED & schema.keys():
            # It asks what the schemas beside it have looked at, so they have to stay beside it.
            found = _standard_form(dict(schema))
        else:
            found = self._joined(self._united(_standard_form(self._dereferenced(schema))))
        found = _without_defaults({m: v for m, v in found.items() if m not in _SCAFFOLD})
        self._open.remove(id(schema))
        self._read[id(schema)] = schema, found
        return found

    def _dereferenced(self, schema: Schema) -> Schema:
        target = pointed_at(self.root, schema.get("$ref"))
        if not is_schema(target) or id(target) in self._open:
            return dict(schema)
        kept = ANNOTATIONS if self._is_old_dialect else schema.keys() - {"$ref"}
        beside = {member: value for member, value in schema.items() if member in kept}
        merged = _merged(beside, self.normal(target))
        # Both hold, and neither can be written into the other.
        return merged if merged is not None else {**beside, "allOf": [*_list(beside.get("allOf")), target]}

    def _joined(self, schema: Schema) -> Schema:
        # `allOf` is written into the schema around it, as far as nothing in it is said twice.
        parts = schema.pop("allOf", None)
        if not isinstance(parts, list):
            return schema
        left = []
        for part in parts:
            merged = _merged(schema, self.normal(part)) if is_schema(part) else None
            if merged is None:
                left.append(part)
            else:
                schema = merged
        return {**schema, "allOf": left} if left else schema

    def _united(self, schema: Schema) -> Schema:
        # Unions of plain types as a list of types; `oneOf` as `anyOf` where no value fits two branches.
        for member in ("anyOf", "oneOf"):
            branches = schema.get(member)
            if not isinstance(branches, list) or not 0 < len(branches) <= MAX_BRANCHES:
                continue
            if not all(is_schema(branch) for branch in branches):
                continue
            read = [self.normal(branch) for branch in branches]
            rest = {name: value for name, value in schema.items() if name != member}
            union = read[0] if len(read) == 1 else _as_types(read)
            merged = None if union is None else _merged(rest, union)
            if merged is not None:
                schema = merged
            elif member == "oneOf" and "anyOf" not in schema and _are_disjoint(read):
                schema = {**rest, "anyOf": branches}
        return schema


def _standard_form(schema: Schema) -> Schema:
    if "const" in schema:
        const = schema.pop("const")
        listed = schema.get("enum", [const])
        schema["enum"] = (
            [v for v in listed if same_json(v, const)][:1] if isinstance(listed, list) else [const]
        )
    if schema.pop("nullable", False) is True and "type" in schema:
        schema["type"] = [*_list(schema["type"]), "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and plain in schema:
            schema[exclusive] = schema.pop(plain)
    # Older drafts have a list of schemas under `items`, and the schema of all further items beside it.
    others = schema.pop("additionalItems", None)
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if others is not None:
            schema["items"] = others
    return schema


def _without_defaults(schema: Schema) -> Schema:
    # Without members that mean the same as when they are left out.
    _evaluate(schema)
    empty: tuple[object, ...] = ({}, [])
    for member in ("properties", "patternProperties", "dependentSchemas", "required", "prefixItems", "allOf"):
        if schema.get(member, None) in empty:
            del schema[member]
    for member in ("additionalProperties", "items", "unevaluatedProperties", "unevaluatedItems"):
        if schema.get(member) is True or schema.get(member) == {}:
            del schema[member]
    for member in ("minLength", "minItems", "minProperties", "uniqueItems"):
        if member in schema and (schema[member] is False or schema[member] == 0):
            del schema[member]
    if isinstance(schema.get("type"), list) and types(schema) == EVERY_TYPE:
        del schema["type"]
    return schema


def _merged(one: Schema, other: Schema) -> Schema | None:
    # A schema that says what both say; None when that takes more than putting members side by side.
    merged = {**one}
    for member, value in other.items():
        if member in ANNOTATIONS or member not in CONSTRAINING:
            merged.setdefault(member, value)
        elif member not in merged or same_json(merged[member], value):
            merged[member] = value
        elif member == "required" and isinstance(value, list) and isinstance(merged[member], list):
            merged[member] = [*merged[member], *(name for name in value if name not in merged[member])]
        elif member == "properties" and _may_join(merged[member], value):
            merged[member] = {**merged[member], **value}
        else:
            return None
    return None if _reach_across(one, other) or _reach_across(other, one) else merged


def _evaluate(schema: Schema) -> None:
    # With nothing beside it that looks at members too, the newer word says what the older one does.
    applying = ("allOf", "anyOf", "oneOf", "if", "dependentSchemas", "contains", "$ref", "$dynamicRef")
    for loose, tight in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        if tight in schema:
            schema.pop(loose, None)
        elif loose in schema and not any(member in schema for member in applying):
            schema[tight] = schema.pop(loose)


def _reach_across(one: Schema, other: Schema) -> bool:
    # Whether a rule of `one` about all other members would apply to other ones beside what `other` names.
    named = set(other.get("properties") or ()) - set(one.get("properties") or ())
    named |= set(other.get("patternProperties") or ()) - set(one.get("patternProperties") or ())
    if _UNEVALUATED & one.keys() or (named and "additionalProperties" in one):
        return True
    if "prefixItems" in other and "prefixItems" not in one and "items" in one:
        return True
    return any(group & one.keys() and group & other.keys() for group in _TOGETHER)


def _may_join(one: object, other: object) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(other, dict)
        and all(same_json(one[name], other[name]) for name in one.keys() & other.keys())
    )


def _as_types(branches: list[Schema]) -> Schema | None:
    listed = [types(branch) for branch in branches]
    if sum(map(len, listed)) > len(frozenset().union(*listed)):
        return None
    finite = [values(branch) for branch in branches]
    if all(each is not None for each in finite):
        return {"enum": [value for each in finite if each is not None for value in each]}
    merged: Schema = {}
    every = frozenset().union(*listed)
    for branch, its_types in zip(branches, listed, strict=True):
        said = (branch.keys() & CONSTRAINING) - {"type"}
        # What a branch says must not touch the types of another one.
        touched = frozenset().union(*(APPLIES_TO.get(member, EVERY_TYPE) for member in said))
        if not touched & every <= its_types or said & merged.keys():
            return None
        merged |= {member: branch[member] for member in said}
    words = [word for branch in branches for word in _words(branch)]
    return {**merged, "type": words}


def _are_disjoint(branches: list[Schema]) -> bool:
    return all(
        _is_apart(one, other) for number, one in enumerate(branches) for other in branches[number + 1 :]
    )


def _is_apart(one: Schema, other: Schema) -> bool:
    # Whether surely no value fits both.
    if types(one).isdisjoint(types(other)):
        return True
    listed, others = values(one), values(other)
    if listed is not None and others is not None:
        return {text(value) for value in listed}.isdisjoint(map(text, others))
    if types(one) | types(other) != {"object"}:
        return False
    needed = set(_list(one.get("required"))) & set(_list(other.get("required")))
    return any(_differs_in(name, one, other) for name in needed if isinstance(name, str))


def _differs_in(name: str, one: Schema, other: Schema) -> bool:
    # Whether the member `name`, such as a kind, tells values of the two schemas apart.
    read = [_standard_form(dict(_member(each, name))) for each in (one, other)]
    listed, others = values(read[0]), values(read[1])
    if listed is None or others is None:
        return False
    return {text(value) for value in listed}.isdisjoint(map(text, others))


def _member(schema: Schema, name: str) -> Schema:
    properties = schema.get("properties")
    member = properties.get(name) if isinstance(properties, dict) else None
    return member if isinstance(member, dict) else {}


def types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that a value may have, by `type` and by the values of `enum`."""
    named = EVERY_TYPE
    if "type" in schema:
        named = frozenset().union(*(_TYPES.get(w, {w}) for w in _list(schema["type"]) if isinstance(w, str)))
    listed = schema.get("enum")
    return named & frozenset(map(type_of, listed)) if isinstance(listed, list) else named


def values(schema: Mapping[str, Any]) -> list[Any] | None:
    """All values that fit, where the schema lists them; None where it does not."""
    listed = schema.get("enum")
    if isinstance(listed, list):
        named = types({"type": schema["type"]}) if "type" in schema else EVERY_TYPE
        return [value for value in listed if type_of(value) in named]
    return [None] if types(schema) == {"null"} else None


def same_json(one: object, other: object) -> bool:
    # To Python, 1 and true are equal.
    return one is other or canonical(one) == canonical(other)


def text(value: object) -> str:
    """Its JSON; the same for 1 and 1.0, which JSON Schema does not tell apart."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return canonical(value).decode()


def _words(schema: Mapping[str, Any]) -> Iterable[str]:
    if "type" in schema:
        return [word for word in _list(schema["type"]) if isinstance(word, str)]
    return sorted("number" if word == "fraction" else word for word in types(schema))


def _list(value: object) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
