"""Schemas that a vendor may send to cost time or to break the comparison."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.rules.diff import compare, schemas
from catalog.rules.diff.schemas import Comparer
from core.canonical_json import digest
from core.schema import audience
from core.schema.normal_form import APPLIES_TO, COMBINING
from core.schema.normalization import normalized
from protocols import parameters
from protocols.signature import Parameter, Signature

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3)
WORDS = sorted(
    {
        *APPLIES_TO,
        *COMBINING,
        "allOf",
        "$ref",
        "additionalItems",
        "dependencies",
        "const",
        "nullable",
        "$defs",
        "$id",
        "title",
        "default",
        "examples",
    }
)
REFERENCES = st.sampled_from(["#", "#/", "#/$defs/a", "#/properties/a", "#/items/0", "a.json", "#a"])
TYPES = st.sampled_from(["string", "integer", "number", "object", "array", "null", "boolean", "list"])


def several(values):
    named_members = st.dictionaries(st.sampled_from(["a", "b", "~/"]), values, max_size=2)
    keyword_members = st.dictionaries(st.sampled_from(WORDS), values, max_size=4)
    return st.one_of(named_members, keyword_members, keyword_members, st.lists(values, max_size=3))


JUNK = st.recursive(SCALARS | REFERENCES | TYPES, several, max_leaves=12)


def changes(side, old, new):
    return Comparer(side, old, new).compare_parts((side, "it"), (), ())


@given(st.sampled_from(["inputs", "outputs"]), JUNK, JUNK)
def test_no_schema_breaks_the_comparison(side, old, new):
    for change in (*changes(side, old, new), *changes(side, new, old)):
        assert change.sentence.endswith(".")
        assert change.path.startswith(f"{side}/it")


@given(JUNK, JUNK)
def test_no_schema_of_a_parameter_breaks_it_either(old, new):
    one, other = (
        Signature(
            name="book",
            description="",
            inputs=(Parameter(id="p", name="p", type="json", required=True, description="", schema=schema),),
            schema_rest={"$defs": {"a": schema}},
        )
        for schema in (old, new)
    )
    comparison = compare(one, other)
    assert all(change.sentence for change in comparison.changes)
    schemas_written = [
        parameters.write_schema(signature.inputs, signature.schema_rest) for signature in (one, other)
    ]
    forms = [audience.canonical_schema(normalized(schema), None, digest) for schema in schemas_written]
    assert comparison.changes or digest(forms[0]) == digest(forms[1])


@given(JUNK)
def test_no_schema_differs_from_its_copy(schema):
    assert changes("inputs", schema, json.loads(json.dumps(schema))) == []


def chain(length, last):
    definitions = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{length}": last}}


def doubling(depth, last, member):
    """Small to write, and 2 to the power of `depth` when it is written out."""
    definitions = {}
    for number in range(depth):
        next_one = [{"$ref": f"#/$defs/d{number + 1}"}, {"$ref": f"#/$defs/d{number + 1}"}]
        schema = {"properties": {"l": next_one[0], "r": next_one[1]}}
        definitions[f"d{number}"] = schema if member == "properties" else {member: next_one}
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{depth}": last}}


def wide(length):
    """Branches that are all alike and all different."""
    return [
        {"type": "object", "properties": {f"m{n}": {"maxLength": n + length}}, "required": [f"m{n}"]}
        for n in range(50)
    ]


CLOSED = {"additionalProperties": False}
HOSTILE = {
    "a long chain of references": (chain(5_000, {"type": "string"}), chain(5_000, {"type": "integer"})),
    **{
        f"doubling {member}": (
            doubling(60, {"type": "string"}, member),
            doubling(60, {"type": "integer"}, member),
        )
        for member in ("properties", "anyOf", "oneOf", "allOf")
    },
    "a reference to itself": ({"$ref": "#"}, {"$ref": "#", "maxLength": 1}),
    "a branch that is the union": (
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        {"anyOf": [{"$ref": "#"}, {"type": "string"}]},
    ),
    "unions in unions": (
        {"anyOf": [{"properties": {f"m{n}": {"anyOf": wide(1)}}} for n in range(20)]},
        {"anyOf": [{"properties": {f"m{n}": {"anyOf": wide(2)}}} for n in range(20)]},
    ),
    "closed parts": (
        {"allOf": [{"properties": {"a": {}, f"a{n}": {}}, **CLOSED} for n in range(500)]},
        {"allOf": [{"properties": {"b": {}, f"b{n}": {}}, **CLOSED} for n in range(500)]},
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_the_work_is_bounded_and_the_doubt_is_told(case):
    old, new = HOSTILE[case]
    comparer = Comparer("inputs", old, new)
    changes = comparer.compare_parts(("inputs", "it"), (), ())
    assert 0 < len(changes) <= schemas.MAX_CHANGES + 1
    assert {change.effect for change in changes} & {"widens_risk", "breaks_callers"}


def test_a_tree_that_contains_itself_is_followed_once():
    def tree(leaf):
        node = {"type": "object", "properties": {"kids": {"items": {"$ref": "#/$defs/node"}}, "leaf": leaf}}
        return {"$ref": "#/$defs/node", "$defs": {"node": node}}

    changes_found = changes("inputs", tree({"type": "integer"}), tree({"type": "number"}))
    assert {change.effect for change in changes_found} == {"compatible"}
    renamed = json.loads(json.dumps(tree({"type": "integer"})).replace("node", "knot"))
    assert changes("inputs", tree({"type": "integer"}), renamed) == []


def test_of_very_many_changes_the_gravest_are_told():
    old = {"type": "object", "properties": {f"m{n}": {"type": "string", "title": "A"} for n in range(400)}}
    new = {"type": "object", "properties": {f"m{n}": {"type": "string", "title": "B"} for n in range(399)}}
    changes_found = changes("inputs", old, new)
    assert len(changes_found) == schemas.MAX_CHANGES + 1
    assert (changes_found[0].kind, changes_found[0].effect) == ("removed", "breaks_callers")


class CountedName(str):
    """A name that counts how often it is compared with another one."""

    comparisons = 0

    def __eq__(self, other):
        CountedName.comparisons += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_required_names_are_looked_up_and_not_searched(monkeypatch):
    monkeypatch.setattr(CountedName, "comparisons", 0)
    old, new = ({"required": [CountedName(f"{letter}{n}") for n in range(1_500)]} for letter in "ab")
    assert len(changes("inputs", old, new)) == schemas.MAX_CHANGES + 1
    assert CountedName.comparisons < 50_000


def test_members_of_a_shared_definition_are_compared_once(monkeypatch):
    compared, compare_pair = [], Comparer.compare

    def count_pairs(comparer, *pair):
        compared.append(1)
        return compare_pair(comparer, *pair)

    monkeypatch.setattr(Comparer, "compare", count_pairs)
    place = {"type": "object", "properties": {f"m{n}": {"type": "string"} for n in range(500)}}
    old, new = (
        {
            "$defs": {"Place": place},
            "properties": {f"p{n}": {"$ref": "#/$defs/Place", "description": text} for n in range(500)},
        }
        for text in ("Before", "After")
    )
    comparer = Comparer("inputs", old, new)

    for n in range(500):
        steps = ("properties", f"p{n}")
        assert comparer.compare_parts(("inputs", f"p{n}"), steps, steps) == []

    assert len(compared) < 2_000
