"""The guarantees of the schema comparison, checked against an independent validator."""

import json

import jsonschema_rs
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catalog.rules.diff.schemas import Comparer

SAFE = {"compatible", "text", "cosmetic"}
MAX_EXAMPLES = 75  # ten times as many find rarer mistakes
NAMES = ["a", "b", "c"]
TEXTS = ["", "a", "b", "abc", "abcdef"]
NUMBERS = [-1, 0, 1, 2, 3, 6, 0.5, 2.5, 1.0]


def optional(**members):
    """A dict with some of the members, each drawn when it is there."""
    return st.fixed_dictionaries({}, optional=members)


def typed(word, members):
    return members.map(lambda members: {"type": word} | members)


TEXT = typed(
    "string",
    optional(
        minLength=st.integers(0, 3),
        maxLength=st.integers(0, 6),
        enum=st.lists(st.sampled_from(TEXTS), min_size=1, unique=True),
        pattern=st.sampled_from(["^a", "b"]),
        description=st.sampled_from(["One.", "Two."]),
    ),
)
NUMBER = optional(
    minimum=st.integers(-1, 3),
    maximum=st.integers(0, 6),
    exclusiveMinimum=st.integers(-1, 2),
    exclusiveMaximum=st.integers(1, 6),
    multipleOf=st.sampled_from([1, 2, 3, 0.5]),
).flatmap(lambda members: st.sampled_from(["integer", "number"]).map(lambda word: {"type": word} | members))
PLAIN = st.one_of(
    TEXT,
    NUMBER,
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, {"const": "a"}, {"enum": [1, "a", None]}]),
    st.sampled_from([{"type": ["string", "null"]}, {"type": ["integer", "string"], "minimum": 1}, True]),
    st.sampled_from(["#/$defs/one", "#/$defs/two"]).map(lambda target: {"$ref": target}),
)


def objects(schemas):
    return typed(
        "object",
        optional(
            properties=st.dictionaries(st.sampled_from(NAMES), schemas, max_size=3),
            required=st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
            additionalProperties=st.just(False) | schemas,
            minProperties=st.integers(0, 2),
            maxProperties=st.integers(1, 3),
        ),
    )


def arrays(schemas):
    return typed(
        "array",
        optional(
            items=schemas,
            prefixItems=st.lists(schemas, min_size=1, max_size=2),
            minItems=st.integers(0, 2),
            maxItems=st.integers(1, 3),
            uniqueItems=st.booleans(),
            contains=schemas,
        ),
    )


def combined(schemas):
    several = st.lists(schemas, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda parts: {"anyOf": parts}),
        several.map(lambda parts: {"oneOf": parts}),
        several.map(lambda parts: {"allOf": parts}),
        schemas.map(lambda part: {"not": part}),
        st.tuples(schemas, schemas).map(lambda pair: {"type": "object"} | {"if": pair[0], "then": pair[1]}),
        st.tuples(TEXT, several).map(lambda pair: pair[0] | {"anyOf": pair[1]}),
    )


SCHEMAS = st.recursive(PLAIN, lambda s: st.one_of(objects(s), arrays(s), combined(s)), max_leaves=8)
DOCUMENTS = st.tuples(SCHEMAS, PLAIN, SCHEMAS).map(
    lambda parts: {"allOf": [parts[0]], "$defs": {"one": parts[1], "two": _without_references(parts[2])}}
)


def _without_references(schema):
    if isinstance(schema, dict):
        return {n: _without_references(s) for n, s in schema.items() if n != "$ref"}
    return [_without_references(child) for child in schema] if isinstance(schema, list) else schema


def mutations(schema):
    """The same schema with something about it taken away, put in or changed."""
    if isinstance(schema, dict) and schema:
        name = st.sampled_from(sorted(schema))
        inside = name.flatmap(lambda n: mutations(schema[n]).map(lambda new: schema | {n: new}))
        without = name.map(lambda n: {m: v for m, v in schema.items() if m != n})
        return st.one_of(
            inside, inside, without, PLAIN.filter(lambda p: isinstance(p, dict)).map(schema.__or__)
        )
    if isinstance(schema, list) and schema:
        number = st.integers(0, len(schema) - 1)
        inside = number.flatmap(
            lambda n: mutations(schema[n]).map(lambda new: [*schema[:n], new, *schema[n + 1 :]])
        )
        return inside | st.just(schema[1:] or schema) | st.just(schema[::-1])
    if isinstance(schema, bool):
        return st.just(not schema)
    if isinstance(schema, int | float):
        return st.sampled_from([schema + 1, max(schema - 1, 1)])
    return st.just(schema)


SCALARS = [*TEXTS, *NUMBERS, True, False, None]
FEW = ["", "abc", 1, 2.5, None, True]
FLAT = [
    *([one, other] for one in FEW for other in FEW),
    *({name: one} for name in NAMES for one in SCALARS),
    *({"a": one, "b": other} for one in FEW for other in FEW),
    *({"a": one, "b": other, "c": "abc"} for one in FEW for other in FEW),
    *([], {}, [1, 1, 1], ["a", "b", "abc"]),
]
VALUES = [
    *SCALARS,
    *([one] for one in SCALARS),
    *FLAT,
    *([one] for one in FLAT),
    *({name: one} for name in NAMES for one in FLAT[::3]),
    *({"a": one, "b": other} for one in FEW for other in FLAT[::7]),
]


def validator(schema):
    try:
        return jsonschema_rs.Draft202012Validator(schema)
    except (jsonschema_rs.ValidationError, ValueError):
        return None


def changes(side, old, new):
    changes_found = Comparer(side, old, new).compare_parts((side, "it"), (), ())
    assert all(change.sentence.endswith(".") for change in changes_found)
    return changes_found


def fitting(check):
    return {number for number, value in enumerate(VALUES) if check.is_valid(value)}


def is_safe(changes):
    # A new member is compatible for callers who sent nothing under its name before.
    return all(change.effect in SAFE and change.kind != "added" for change in changes)


PAIRS = DOCUMENTS.flatmap(lambda old: st.tuples(st.just(old), mutations(old) | DOCUMENTS))


@settings(max_examples=MAX_EXAMPLES)
@given(PAIRS)
def test_what_is_called_safe_is_safe(pair):
    """Callers send the old arguments; readers know the old outputs; an empty comparison means no change."""
    checks = [validator(schema) for schema in pair]
    assume(all(checks))
    values = [fitting(check) for check in checks]
    for old, new in ((0, 1), (1, 0)):
        changes_found = changes("inputs", pair[old], pair[new])
        if is_safe(changes_found):
            assert [VALUES[n] for n in values[old] - values[new]] == [], changes_found
        if {change.effect for change in changes_found} <= {"text", "cosmetic"}:
            assert values[old] == values[new], changes_found
        changes_found = changes("outputs", pair[old], pair[new])
        if is_safe(changes_found) and not any(change.kind == "widened" for change in changes_found):
            assert [VALUES[n] for n in values[new] - values[old]] == [], changes_found


@given(DOCUMENTS)
def test_a_schema_does_not_differ_from_itself(schema):
    copy = json.loads(json.dumps(schema))
    assert changes("inputs", schema, copy) == changes("outputs", schema, copy) == []
