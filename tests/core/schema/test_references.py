"""References become pointers from the top, and those of no meaning are listed."""

import copy

import pytest

from core.schema import loops
from core.schema.references import References, Resource, UnresolvedReferenceError, remote_reference

LEAF = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "rewritten"),
    [
        ({"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}),
        (
            {"$ref": "#a", "$defs": {"A": {"$anchor": "a"}}},
            {"$ref": "#/$defs/A", "$defs": {"A": {"$anchor": "a"}}},
        ),
        (
            {"$dynamicRef": "#a", "$defs": {"x y/z~": {"$dynamicAnchor": "a"}}},
            {"$ref": "#/$defs/x%20y~1z~0", "$defs": {"x y/z~": {"$dynamicAnchor": "a"}}},
        ),
        (
            {"$ref": "#/$defs/A", "$dynamicRef": "#a", "$defs": {"A": {"$dynamicAnchor": "a"}}},
            {
                "$ref": "#/$defs/A",
                "allOf": [{"$ref": "#/$defs/A"}],
                "$defs": {"A": {"$dynamicAnchor": "a"}},
            },
        ),
        (
            {
                "$ref": "#b",
                "$dynamicRef": "#a",
                "allOf": [LEAF],
                "$defs": {"A": {"$dynamicAnchor": "a", "$anchor": "b"}},
            },
            {
                "$ref": "#/$defs/A",
                "allOf": [LEAF, {"$ref": "#/$defs/A"}],
                "$defs": {"A": {"$dynamicAnchor": "a", "$anchor": "b"}},
            },
        ),
        (
            {
                "$id": "http://a.example/root",
                "properties": {"a": {"$ref": "inner"}},
                "$defs": {"A": {"$id": "inner"}},
            },
            {"$id": "http://a.example/root", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}},
        ),
        (
            {"items": {"$ref": "#gone"}, "not": {"$ref": "http://b.example/"}},
            {"items": {"$ref": "#gone"}, "not": {"$ref": "http://b.example/"}},
        ),
        (
            {"items": {"$recursiveRef": "#"}, "not": {"$ref": "#gone"}},
            {"items": {"$ref": "#"}, "not": {"$ref": "#gone"}},
        ),
    ],
)
def test_references_become_pointers(schema, rewritten):
    before = copy.deepcopy(schema)
    result = loops.with_pointers(schema)
    assert result == rewritten
    assert list(result) == [keyword if keyword != "$dynamicRef" else "$ref" for keyword in result]
    assert schema == before


def test_a_schema_with_pointers_alone_is_returned_itself():
    schema = {"$ref": "#/$defs/A", "items": {"$ref": "#"}, "$defs": {"A": {"$id": "inner"}}}
    assert loops.with_pointers(schema) is schema


@pytest.mark.parametrize(
    ("reference", "is_pointer"),
    [("#", True), ("#/", True), ("#/a", True), ("#a", False), ("", False), ("/a", False), ("a#/b", False)],
)
def test_pointer_within_the_document(reference, is_pointer):
    assert loops.is_pointer(reference) is is_pointer


@pytest.mark.parametrize(
    ("schema", "is_found"),
    [
        ({"items": {"$ref": "#"}}, True),
        ({"$dynamicRef": "#a"}, True),
        ({"$recursiveRef": "#"}, True),
        ({"properties": {"$ref": {}}, "enum": [{"$ref": "#"}]}, False),
        (True, False),
    ],
)
def test_document_with_a_reference(schema, is_found):
    assert loops.has_references(schema) is is_found


ROOT = {
    "$id": "http://a.example/root",
    "$anchor": "top",
    "properties": {"a": {"$anchor": "here"}, "b": {"$id": "#old", "type": "null"}},
    "$defs": {
        "Inner": {
            "$id": "sub/inner",
            "$anchor": "here",
            "$defs": {"A": {"title": "inner A"}},
            "items": {"$ref": "#/$defs/A"},
        },
        "A": {"title": "outer A"},
        "x y/z~%": True,
        "list": {"prefixItems": [{}, {"title": "second"}]},
    },
    "x-own": {"title": "own", "items": {"$ref": "#here"}},
}


@pytest.mark.parametrize(
    ("reference", "steps"),
    [
        ("#", ()),
        ("", ()),
        ("#top", ()),
        ("#here", ("properties", "a")),
        ("#old", ("properties", "b")),
        ("root#here", ("properties", "a")),
        ("http://a.example/root", ()),
        ("http://a.example/root#/$defs/A", ("$defs", "A")),
        ("sub/inner", ("$defs", "Inner")),
        ("sub/inner#", ("$defs", "Inner")),
        ("sub/inner#here", ("$defs", "Inner")),
        ("sub/inner#/$defs/A", ("$defs", "Inner", "$defs", "A")),
        ("http://a.example/sub/inner", ("$defs", "Inner")),
        ("#/$defs/x%20y~1z~0%25", ("$defs", "x y/z~%")),
        ("#/$defs/list/prefixItems/1", ("$defs", "list", "prefixItems", "1")),
        ("#/x-own", ("x-own",)),
    ],
)
def test_target_of_a_reference(reference, steps):
    schema = {**ROOT, "not": {"$ref": reference}}
    assert References(schema, loops.Dialect.DRAFT_2020).target("$ref", schema["not"])[0] == steps


def test_a_pointer_inside_an_identifier_counts_from_there_or_from_the_top():
    document = copy.deepcopy(ROOT)
    inner = document["$defs"]["Inner"]
    references = References(document, loops.Dialect.DRAFT_2020)
    assert references.target("$ref", inner["items"])[1] == {"title": "inner A"}
    inner["items"]["$ref"] = "#/$defs/list"
    assert references.target("$ref", inner["items"])[0] == ("$defs", "list")
    inner["items"]["$ref"] = "#old"
    assert references.target("$ref", inner["items"])[0] == ("properties", "b")
    inner["items"]["$ref"] = "#here"
    assert references.target("$ref", inner["items"])[0] == ("$defs", "Inner")
    assert references.resources[id(inner["items"])] == Resource(
        "http://a.example/sub/inner", ("$defs", "Inner")
    )


def test_schemas_below_an_own_keyword_are_read_when_they_are_reached():
    document = {**ROOT, "not": {"$ref": "#/x-own"}}
    references = References(document, loops.Dialect.DRAFT_2020)
    own = document["x-own"]
    assert id(own["items"]) not in references.resources
    assert references.target("$ref", document["not"]) == (("x-own",), own)
    assert references.target("$ref", own["items"])[0] == ("properties", "a")


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        *((reference, "BROKEN_REF") for reference in ("#gone", "#/gone", "#/$defs/list/type", 3)),
        *(
            (reference, "BROKEN_REF")
            for reference in ("#/$defs/list/prefixItems/2", "#/$id", "root#/gone", "#%FF")
        ),
        *((reference, "REMOTE_REF") for reference in ("http://b.example/", "other", "other#here")),
    ],
)
def test_reference_without_a_target(reference, code):
    document = {**ROOT, "not": {"$ref": reference}, "type": "string"}
    references = References(document, loops.Dialect.DRAFT_2020)
    with pytest.raises(UnresolvedReferenceError) as error:
        references.target("$ref", document["not"])
    assert error.value.code == code
    assert error.value.reference == str(error.value) == (reference if isinstance(reference, str) else "")


def test_a_dynamic_reference_points_to_the_outermost_anchor():
    inner = {"$id": "inner", "$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}}
    document = {"$id": "http://a.example/root", "$dynamicAnchor": "node", "$defs": {"A": inner}}
    references = References(document, loops.Dialect.DRAFT_2020)
    assert references.target("$dynamicRef", inner["items"])[0] == ()
    alone = {"$defs": {"A": inner}}
    assert References(alone, loops.Dialect.DRAFT_2020).target("$dynamicRef", inner["items"])[0] == (
        "$defs",
        "A",
    )
    plain = {"$id": "plain", "$anchor": "node", "items": {"$dynamicRef": "#node"}}
    document = {"$dynamicAnchor": "node", "$defs": {"A": plain}}
    references = References(document, loops.Dialect.DRAFT_2020)
    assert references.target("$dynamicRef", plain["items"])[0] == ("$defs", "A")
    several = {"$defs": {"A": inner, "B": {"$id": "other", "$dynamicAnchor": "node"}}}
    with pytest.raises(UnresolvedReferenceError) as error:
        References(several, loops.Dialect.DRAFT_2020).target("$dynamicRef", inner["items"])
    assert (error.value.code, error.value.reference) == ("AMBIGUOUS_REF", "#node")


def test_a_recursive_reference_points_to_the_outermost_schema():
    inner = {"$id": "inner", "$recursiveAnchor": True, "items": {"$recursiveRef": "#"}}
    document = {"$id": "http://a.example/root", "$recursiveAnchor": True, "$defs": {"A": inner}}
    assert References(document, loops.Dialect.DRAFT_2019).target("$recursiveRef", inner["items"])[0] == ()
    alone = {"$id": "http://a.example/root", "$defs": {"A": inner}}
    assert References(alone, loops.Dialect.DRAFT_2019).target("$recursiveRef", inner["items"])[0] == (
        "$defs",
        "A",
    )
    several = {"$defs": {"A": inner, "B": {**inner, "$id": "other"}}}
    with pytest.raises(UnresolvedReferenceError) as error:
        References(several, loops.Dialect.DRAFT_2019).target("$recursiveRef", inner["items"])
    assert (error.value.code, error.value.reference) == ("AMBIGUOUS_REF", "#")
    plain = {"$id": "inner", "items": {"$recursiveRef": "#"}}
    document = {"$recursiveAnchor": True, "$defs": {"A": plain}}
    assert References(document, loops.Dialect.DRAFT_2019).target("$recursiveRef", plain["items"])[0] == (
        "$defs",
        "A",
    )


def test_identifiers_of_old_drafts():
    document = {
        "id": "http://a.example/root",
        "definitions": {"A": {"id": "inner"}},
        "not": {"$ref": "inner"},
    }
    references = References(document, loops.Dialect.DRAFT_4)
    assert references.target("$ref", document["not"])[0] == ("definitions", "A")
    with pytest.raises(UnresolvedReferenceError):
        References(document, loops.Dialect.DRAFT_7).target("$ref", document["not"])
    document = {"definitions": {"A": {"id": "#a"}, "B": {"id": "#"}}, "not": {"$ref": "#a"}}
    assert References(document, loops.Dialect.DRAFT_4).target("$ref", document["not"])[0] == (
        "definitions",
        "A",
    )
    # Up to draft 7 an identifier beside a reference has no effect.
    beside = {"definitions": {"A": {"$id": "inner", "$ref": "#"}}, "not": {"$ref": "inner"}}
    with pytest.raises(UnresolvedReferenceError):
        References(beside, loops.Dialect.DRAFT_7).target("$ref", beside["not"])
    assert References(beside, loops.Dialect.DRAFT_2020).target("$ref", beside["not"])[0] == (
        "definitions",
        "A",
    )


@pytest.mark.parametrize(
    ("schema", "reference"),
    [
        ({"$ref": "#/gone"}, ""),
        ({"items": {"$ref": "other#/a"}}, "other#/a"),
        ({"$defs": {"A": {"$id": "other"}}, "items": {"$ref": "other"}}, ""),
        ({"not": {"$dynamicRef": "https://b.example/#a"}}, "https://b.example/#a"),
        (True, ""),
    ],
)
def test_reference_to_another_document(schema, reference):
    assert remote_reference(schema) == reference


@pytest.mark.parametrize(
    ("schema", "endless", "required"),
    [
        ({"properties": {"a": LEAF}}, [], []),
        ({"$ref": "#"}, [{"$ref": "#"}], [{"$ref": "#"}]),
        ({"properties": {"a": {"$ref": "#"}}}, [], []),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}, [], [{"$ref": "#"}]),
        ({"items": {"$ref": "#"}}, [], [{"$ref": "#"}]),
        ({"allOf": [{"$ref": "#"}]}, [{"$ref": "#"}], [{"$ref": "#"}]),
        (
            {"$defs": {"A": {"$ref": "#/$defs/A"}, "B": {"$ref": "#/$defs/A"}, "C": {"$ref": "#/$defs/B"}}},
            [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
            [{"$ref": "#/$defs/A"}],
        ),
        ({"$ref": "#/gone"}, [], []),
    ],
)
def test_references_without_an_end(schema, endless, required):
    assert loops.endless_references(schema) == endless
    assert loops.required_recursions(schema) == required


def test_target_of_a_schema_without_a_reference():
    assert loops.target_of(loops.references_of(LEAF), LEAF) is None
    schema = {"$ref": "#/$defs/A", "$dynamicRef": "#", "$defs": {"A": LEAF}}
    assert loops.target_of(loops.references_of(schema), schema) is schema["$defs"]["A"]


@pytest.mark.parametrize("schema", [{"$ref": "#/gone"}, {"items": {"$ref": "#/x"}, "x": 3}])
def test_reference_to_nothing_is_listed(schema):
    (holder,) = loops.dangling_references(schema)
    assert holder is (schema if "$ref" in schema else schema["items"])
