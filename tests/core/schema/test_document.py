"""Schemas of every draft in one internal form."""

import tracemalloc
from contextlib import suppress

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from core.schema import Dialect, SchemaBoundsError, read_document
from tests.core.schema.spellings import DRAFTS, URIS, VALIDATORS, schemas, values


def document_for(draft, root, anchored, identified, escaped):
    """A document in which references of every kind have somewhere to lead."""
    definitions = {"A": anchored, "B": identified, "x/y%": escaped}
    if draft in ("draft-06", "draft-07"):
        definitions["A"] = {"allOf": [anchored], "$id": "#an"}
        definitions["B"] = {"allOf": [identified], "$id": "b.json"}
        root = {"allOf": [root]}
    elif draft != "draft-04":
        definitions["A"] = {**anchored, "$anchor": "an"}
        inner = {"i": {"$anchor": "in", "type": "integer"}}
        definitions["B"] = {**identified, "$id": "b.json", "definitions": inner}
    root = {**root, "$schema": URIS[draft], "definitions": definitions}
    return root if draft == "draft-04" else {**root, "$id": "https://e.test/r.json"}


def references(draft):
    references_found = ["#/definitions/A", "#/definitions/x~1y%25", "#/definitions/x~1y%25/properties/a", "#"]
    if draft != "draft-04":
        references_found += ["#an", "https://e.test/b.json", "b.json"]
    if draft in ("2019-09", "2020-12"):
        references_found += ["b.json#in", "b.json#/definitions/i", "#/%64efinitions/A"]
    return references_found


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_internal_form_accepts_what_the_vendors_schema_accepts(draft):
    drawn = schemas(draft, references(draft)).map(lambda schema: schema if isinstance(schema, dict) else {})

    @settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
    @given(drawn, drawn, drawn, drawn, st.lists(values, min_size=5, max_size=8))
    def check(root, anchored, identified, escaped, values):
        schema = document_for(draft, root, anchored, identified, escaped)
        try:
            original = VALIDATORS[draft](schema, offline=True)
        except jsonschema_rs.ValidationError:
            assume(False)  # a reference into a definition that has no such member
        document = read_document(schema)
        codes = {finding.code for finding in document.findings}
        assume("ENDLESS_REF" not in codes)
        # Keywords beside a `$ref` that replaces its siblings are never followed.
        assert codes <= {"BROKEN_REF"}
        assert read_document(document.root).root == document.root
        internal_validator = jsonschema_rs.Draft202012Validator(document.root, offline=True)
        assert [internal_validator.is_valid(value) for value in values] == [
            original.is_valid(value) for value in values
        ]

    check()


A = {"type": "string", "maxLength": 9}


@pytest.mark.parametrize(
    ("reference", "definitions"),
    [
        ("#/$defs/A", {"A": A}),
        ("#x", {"A": {**A, "$anchor": "x"}}),
        ("#x", {"A": {**A, "$id": "#x"}}),
        ("#x", {"A": {"$defs": {"inner": {**A, "$anchor": "x"}}}}),
        ("a.json", {"A": {**A, "$id": "a.json"}}),
        ("a.json#x", {"A": {"$id": "a.json", "$defs": {"inner": {**A, "$anchor": "x"}}}}),
        ("a.json#/$defs/i", {"A": {"$id": "a.json", "$defs": {"i": A}}}),
        ("https://e.test/s.json#/$defs/A", {"A": A}),
        ("s.json#/$defs/A", {"A": A}),
        ("./s.json#x", {"A": {**A, "$anchor": "x"}}),
        ("/s.json#/$defs/A", {"A": A}),
        ("urn:l", {"A": {**A, "$id": "urn:l"}}),
        ("urn:l#x", {"A": {"$id": "urn:l", "properties": {"p": {**A, "$anchor": "x"}}}}),
        ("#/x-own/A", {}),
        ("#/%24defs/%41", {"A": A}),
    ],
)
def test_a_reference_leads_on_however_it_is_spelled(reference, definitions):
    schema = {
        "$id": "https://e.test/s.json",
        "$defs": definitions,
        "properties": {"p": {"$ref": reference, "title": "P"}},
        "x-own": {"A": A},
    }
    document = read_document(schema)
    assert document.findings == ()
    assert document.level(document.root["properties"]["p"]).schema == {"title": "P", **A}
    assert document.root["properties"]["p"]["$ref"].startswith("#/$defs/")


@pytest.mark.parametrize("keyword", ["$dynamicRef", "$recursiveRef"])
def test_a_dynamic_reference_leads_to_the_root_where_the_root_offers_itself(keyword):
    offer = {"$dynamicAnchor": "n"} if keyword == "$dynamicRef" else {"$recursiveAnchor": True}
    reference = {keyword: "#n" if keyword == "$dynamicRef" else "#"}
    tree = {"$id": "tree", **offer, "properties": {"below": reference}}
    schema = {"$id": "https://e.test/s", **offer, "$ref": "tree", "$defs": {"tree": tree}, "required": ["a"]}
    document = read_document(schema)
    assert document.root["$defs"]["tree"]["properties"]["below"] == {"$ref": "#"}
    alone = read_document({"$ref": "#/$defs/tree", "$defs": {"tree": tree}})
    assert alone.root["$defs"]["tree"]["properties"]["below"] == {"$ref": "#/$defs/tree"}


@pytest.mark.parametrize(
    ("schema", "code", "subject"),
    [
        ({"$ref": "https://elsewhere.test/s.json#/a"}, "REMOTE_REF", "https://elsewhere.test/s.json#/a"),
        ({"$ref": "#/$defs/none"}, "BROKEN_REF", "#/$defs/none"),
        ({"$ref": "#none"}, "BROKEN_REF", "#none"),
        ({"$ref": "#/title", "title": "T"}, "BROKEN_REF", "#/title"),
        ({"$ref": "#/%ff"}, "BROKEN_REF", "#/%ff"),
        ({"$ref": 5}, "BROKEN_REF", ""),
        ({"$ref": "#"}, "ENDLESS_REF", "#"),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "ENDLESS_REF", "#"),
        ({"pattern": 5}, "MALFORMED", "pattern"),
        ({"type": "file"}, "MALFORMED", "type"),
        ({"required": None}, "MALFORMED", "required"),
        ({"properties": []}, "MALFORMED", "properties"),
        ([], "MALFORMED", ""),
    ],
)
def test_what_no_reader_can_follow_is_left_out_and_named(schema, code, subject):
    document = read_document(schema)
    assert [(finding.code, finding.subject) for finding in document.findings] == [(code, subject)]
    assert "$ref" not in repr(document.root)


def test_two_definitions_that_refer_to_each_other_end_once():
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}], "type": "string"}},
    }
    document = read_document(schema)
    assert [finding.code for finding in document.findings] == ["ENDLESS_REF"]
    assert document.level(document.root).schema == {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "dialect", "expected_schema"),
    [
        ({"minimum": 1, "exclusiveMinimum": True}, None, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, None, {"maximum": 1}),
        ({"items": [True, A], "additionalItems": False}, None, {"prefixItems": [True, A], "items": False}),
        ({"items": A, "additionalItems": False}, None, {"items": A}),
        ({"type": "string", "nullable": True}, Dialect.OPENAPI_3_0, {"type": ["string", "null"]}),
        ({"nullable": True}, Dialect.OPENAPI_3_0, {}),
        ({"definitions": {"A": A}}, None, {"$defs": {"A": A}}),
        ({"dependencies": {"a": ["b"], "c": A}}, None,
         {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": A}}),
        ({"properties": {"a": {"type": "string", "required": True}, "b": {"required": False}}}, None,
         {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}),
        ({"$schema": URIS["draft-07"], "items": {"$ref": "#/definitions/A", "minLength": 1, "title": "T"},
          "definitions": {"A": A}}, None, {"items": {"$ref": "#/$defs/A", "title": "T"}, "$defs": {"A": A}}),
        ({"$id": "x", "$anchor": "y", "$dynamicAnchor": "z", "$comment": "c"}, None, {"$comment": "c"}),
        ({"minLength": 1.0, "type": ["string", "string"]}, None, {"minLength": 1, "type": ["string"]}),
    ],
)  # fmt: skip
def test_old_spellings_become_new_ones(schema, dialect, expected_schema):
    document = read_document(schema, dialect)
    assert (document.root, document.findings) == (expected_schema, ())


@pytest.mark.parametrize(("levels", "code"), [(63, None), (64, "SCHEMA_TOO_DEEP"), (900, "SCHEMA_TOO_DEEP")])
def test_a_schema_that_is_too_deep_is_refused_by_name(levels, code):
    if code is None:
        assert read_document(deep(levels)).findings == ()
    else:
        with pytest.raises(SchemaBoundsError) as caught:
            read_document(deep(levels))
        assert caught.value.code == code


def test_data_that_looks_like_a_schema_is_left_alone():
    schema = {
        "const": {"$ref": "#/nowhere", "nullable": True},
        "default": {"items": []},
        "properties": {"$ref": A},
    }
    document = read_document(schema)
    assert (document.root, document.findings) == (schema, ())


def deep(levels):
    schema = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


HOSTILE = {
    "900 levels": deep(900),
    "2 MB": {"properties": {f"p{n}": {"type": "string", "description": "d" * 90} for n in range(15_000)}},
    "many parts": {"allOf": [{"properties": {}} for _ in range(15_000)]},
    "a chain of references": {
        "$ref": "#/$defs/0",
        "$defs": {**{str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(9_000)}, "9000": A},
    },
    "a ring of references": {"$defs": {str(n): {"$ref": f"#/$defs/{(n + 1) % 9_000}"} for n in range(9_000)}},
    "doubling": {
        "$ref": "#/$defs/0",
        "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(2_000)},
    },
    "references to nothing": {"allOf": [{"$ref": f"#/$defs/{n}"} for n in range(9_000)]},
    "a long enum": {"enum": [str(n) for n in range(100_000)]},
    "two long enums": {"enum": [*range(100_000)], "allOf": [{"enum": [*range(50_000, 150_000)]}]},
    "bad patterns": {"allOf": [{"pattern": "("}, {"patternProperties": {"(" * 5_000: True}}]},
    "a pattern that explodes": {
        "patternProperties": {"(a{1000}){1000}": True},
        "allOf": [{"properties": {"a": A}}],
    },
    "identifiers": {"allOf": [{"$id": f"https://e.test/{n}", "$anchor": "a"} for n in range(9_000)]},
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_schema_is_rejected_or_read_at_once(schema):
    tracemalloc.start()
    with suppress(SchemaBoundsError):
        document = read_document(schema)
        document.level(document.root)
    _, peak_memory = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_memory < 100 * 2**20


@pytest.mark.parametrize(
    ("schema", "dialect", "root", "findings", "declared_dialect"),
    [
        (
            {"items": [{"type": 1}], "additionalItems": {"pattern": 2}},
            None,
            {"prefixItems": [{}], "items": {}},
            [("MALFORMED", ("items", "0"), "type"), ("MALFORMED", ("additionalItems",), "pattern")],
            "",
        ),
        (
            {"dependencies": {"a": {"minLength": -1}}, "dependentSchemas": {"b": {"minLength": -1}}},
            None,
            {"dependentSchemas": {"b": {}, "a": {}}},
            [
                ("MALFORMED", ("dependentSchemas", "b"), "minLength"),
                ("MALFORMED", ("dependencies", "a"), "minLength"),
            ],
            "",
        ),
        (
            {"definitions": {"A": {"type": 1}}, "$defs": {"A": {"$ref": "#/definitions/A"}, "A_2": True}},
            None,
            {"$defs": {"A": {"$ref": "#/$defs/A_3"}, "A_2": True, "A_3": {}}},
            [("MALFORMED", ("definitions", "A"), "type")],
            "",
        ),
        (
            {"properties": {"a": {"required": True}, "b": {"required": True}}, "required": ["b"]},
            None,
            {"properties": {"a": {}, "b": {}}, "required": ["b", "a"]},
            [],
            "",
        ),
        (
            {"x-own": {"deep": {"type": "null", "items": {"$ref": "#/x-own"}}}, "$ref": "#/x-own/deep"},
            None,
            {
                "x-own": {"deep": {"type": "null", "items": {"$ref": "#/x-own"}}},
                "$ref": "#/$defs/x-own~1deep",
                "$defs": {
                    "x-own/deep": {"type": "null", "items": {"$ref": "#/$defs/x-own"}},
                    "x-own": {"deep": {"type": "null", "items": {"$ref": "#/x-own"}}},
                },
            },
            [],
            "",
        ),
        (
            {"$ref": "#/x/y", "x": {"y": {"title": "T"}}, "$defs": {"x/y": {}}},
            None,
            {
                "x": {"y": {"title": "T"}},
                "$ref": "#/$defs/x~1y_2",
                "$defs": {"x/y": {}, "x/y_2": {"title": "T"}},
            },
            [],
            "",
        ),
        (
            {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"anyOf": [{"title": "T", "$ref": "#"}]}}},
            None,
            {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"anyOf": [{"title": "T"}]}}},
            [("ENDLESS_REF", ("$defs", "A", "anyOf", "0"), "#")],
            "",
        ),
        (
            {"$ref": "#/$defs/A", "type": "string", "$defs": {"A": {}}},
            Dialect.DRAFT_7,
            {"$ref": "#/$defs/A", "$defs": {"A": {}}},
            [],
            "draft-07",
        ),
        (
            {
                "$ref": "#/$defs/A",
                "$dynamicRef": "#/$defs/B",
                "$recursiveRef": "#/gone",
                "$defs": {"A": {}, "B": {}},
            },
            None,
            {"$ref": "#/$defs/A", "allOf": [{"$ref": "#/$defs/B"}], "$defs": {"A": {}, "B": {}}},
            [("BROKEN_REF", (), "#/gone")],
            "",
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "id": "a",
                "properties": {"x": {"exclusiveMinimum": True, "minimum": 2}},
            },
            None,
            {"id": "a", "properties": {"x": {"exclusiveMinimum": 2}}},
            [],
            "draft-04",
        ),
        (3, None, True, [("MALFORMED", (), "")], ""),
        (True, None, True, [], ""),
        (None, Dialect.DRAFT_7, True, [("MALFORMED", (), "")], "draft-07"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_internal_form_with_the_places_of_findings(schema, dialect, root, findings, declared_dialect):
    document = read_document(schema, dialect)
    assert document.root == root
    assert [(finding.code, finding.place, finding.subject) for finding in document.findings] == findings
    assert document.dialect == declared_dialect
