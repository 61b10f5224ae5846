import pytest
from hypothesis import example, given

from core.canonical_json import canonical
from protocols import parameters as json_schema
from protocols import signature
from protocols.list_pages import UnreadableItemError
from protocols.signature import AllowedValue, Signature
from tests.core.schema import schemas


def read_shape(schema):
    return json_schema.read_schema(schema, "schema", whole_name="value")


def stored(shape):
    """Return the value as it comes back from the database, where a signature is JSON."""
    signature_stored = Signature(name="t", description="", inputs=shape.parameters, schema_rest=shape.rest)
    back = signature.from_json(signature.to_json(signature_stored))
    return back.inputs, back.schema_rest


def the_property(schema, **members):
    (parameter,) = read_shape({"type": "object", "properties": {"a": schema}, **members}).parameters
    return parameter


def keeps(schema):
    assert canonical(json_schema.write_schema(*stored(read_shape(schema)))) == canonical(schema)


@given(schemas.schemas)
def test_any_schema_is_written_as_it_was_read(schema):
    keeps(schema)


@given(schemas.objects())
def test_any_object_schema_is_written_as_it_was_read(schema):
    keeps(schema)


@pytest.mark.parametrize("uri", schemas.META_SCHEMAS)
def test_published_meta_schemas_are_written_as_they_were_read(uri):
    schema = schemas.META_SCHEMAS[uri]
    keeps(schema)
    keeps({"type": "object", "properties": {"a": schema}, "required": ["a"]})


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        False,
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": None},
        {"type": "object", "properties": None, "required": None},
        {"type": "object", "properties": {"a": {}}, "required": None},
        {"type": "object", "properties": {"a": {}}, "required": []},
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b", "a"]},
        {"type": "object", "properties": {"a": {}}, "required": ["a", "a"]},
        {"type": "object", "properties": {"a": {}}, "required": ["a", "elsewhere"]},
        {"type": "object", "properties": {"a": {}}, "required": ["a", 1]},
        {"type": "object", "properties": {"a": {"required": True}}, "required": True},
        {"type": None, "properties": {"a": {}}},
        {"properties": {"a": {}}},
        {"type": ["object", "null"], "properties": {"a": {}}},
        {"type": "object", "properties": {"": {}, "$": True, "a": False}},
        {"type": "object", "properties": {"a": None}},
        {"type": "object", "properties": {"a": {"enum": ["x", 1, None, "x"]}}},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1.0}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"type": "array", "items": {"type": "string"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"": 1, "unknown": [None]},
    ],
)
def test_odd_schemas_are_written_as_they_were_read(schema):
    keeps(schema)


def test_properties_become_parameters():
    shape = read_shape(
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where", "title": "City", "maxLength": 9},
                "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3},
                "unit": {"type": "string", "enum": ["C", "F"]},
                "exact": {"type": "boolean"},
            },
            "required": ["city"],
        }
    )
    city, days, unit, exact = shape.parameters
    assert (city.type, city.description, city.title, city.max_length) == ("string", "Where", "City", 9)
    assert (days.type, days.min, days.max, days.default) == ("int", 1, 7, 3)
    assert (unit.type, unit.allowed_values) == ("enum", (AllowedValue("C"), AllowedValue("F")))
    assert (city.required, exact.required, exact.type) == (True, False, "boolean")
    assert [parameter.schema for parameter in shape.parameters] == [None] * 4
    assert shape.rest == {}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string", "pattern": "^a"}, "string"),
        ({"type": ["string", "null"]}, "string"),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}, "int"),
        ({"type": "number", "exclusiveMinimum": 0}, "number"),
        ({"type": "string", "nullable": True}, "string"),
        ({"enum": ["a", "b"]}, "enum"),
        ({"const": "a"}, "enum"),
        ({"type": ["string", "null"], "enum": ["a", None]}, "enum"),
        ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "enum"),
        ({"type": "integer", "enum": [1, 2]}, "int"),
        ({"enum": ["a", 1]}, "json"),
        ({"type": ["string", "integer"]}, "json"),
        ({"type": "array"}, "json"),
        ({"$ref": "#/$defs/a"}, "json"),
        ({"type": "file"}, "json"),
        (True, "json"),
    ],
)
def test_what_a_parameter_cannot_say_stays_in_its_schema(schema, kind):
    parameter = the_property(schema)
    assert (parameter.type, parameter.schema) == (kind, schema)


def test_an_optional_form_shows_its_limits_and_values():
    limited = the_property({"anyOf": [{"type": "integer", "maximum": 9}, {"type": "null"}], "title": "N"})
    titled = the_property({"oneOf": [{"const": "a", "description": "The first"}, {"const": "b"}]})
    assert (limited.max, limited.title) == (9, "N")
    assert titled.allowed_values == (AllowedValue("a", "The first"), AllowedValue("b"))


def test_reference_within_the_document_shows_what_it_leads_to():
    units = {"enum": ["C", "F"], "type": "string", "title": "Unit", "description": "A unit"}
    defined = {"unit": units, "days": {"$ref": "#/$defs/count"}, "count": {"type": "integer", "maximum": 7}}
    unit = the_property({"$ref": "#/$defs/unit"}, **{"$defs": defined})
    maybe = the_property({"anyOf": [{"$ref": "#/$defs/unit"}, {"type": "null"}]}, **{"$defs": defined})
    days = the_property({"$ref": "#/$defs/days", "description": "How many"}, **{"$defs": defined})

    assert unit.allowed_values == maybe.allowed_values == (AllowedValue("C"), AllowedValue("F"))
    assert (unit.type, unit.description, unit.schema) == ("enum", "", {"$ref": "#/$defs/unit"})
    assert (days.type, days.max, days.description) == ("int", 7, "How many")


@pytest.mark.parametrize("reference", ["#/$defs/a", "#/$defs/none", "#", "#/$defs/b/0", "#a", ""])
def test_reference_that_shows_nothing_is_kept_all_the_same(reference):
    defined = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    parameter = the_property({"$ref": reference}, **{"$defs": defined})

    assert (parameter.type, parameter.schema) == ("json", {"$ref": reference})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://elsewhere.example/a"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "a.json#/$defs/b"},
        {"$ref": "//elsewhere.example/a"},
        {"items": {"anyOf": [{"$dynamicRef": "http://127.0.0.1/"}]}},
        {"$id": "https://vendor.example/a", "$ref": "b", "$defs": {"c": {"$id": "c"}}},
        {"properties": {"a": {"$ref": "http://[::1/"}}},
    ],
    ids=str,
)
def test_reference_to_another_document_costs_the_tool(schema):
    with pytest.raises(UnreadableItemError, match="those are never fetched") as refused:
        read_shape(schema)
    assert refused.value.code == "REMOTE_REF"


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "https://vendor.example/a", "$ref": "b", "$defs": {"b": {"$id": "b"}}},
        {"$id": "https://vendor.example/a", "items": {"$ref": "https://vendor.example/a#/$defs/b"}},
        {"properties": {"$ref": {"type": "string"}}, "examples": [{"$ref": "https://elsewhere.example"}]},
        {"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}},
    ],
    ids=str,
)
def test_reference_within_the_schema_is_kept(schema):
    keeps(schema)


def test_more_properties_than_the_limit_cost_the_tool():
    with pytest.raises(UnreadableItemError, match="1,001 properties; the limit is 1,000") as refused:
        read_shape({"type": "object", "properties": {f"p{number}": {} for number in range(1001)}})
    assert refused.value.code == "SCHEMA_TOO_BIG"


def test_required_names_without_a_property_count_as_properties():
    with pytest.raises(UnreadableItemError) as refused:
        read_shape({"type": "object", "required": [f"p{number}" for number in range(1001)]})
    assert refused.value.code == "SCHEMA_TOO_BIG"


@given(schemas.texts)
@example("\u202etxt.exe")
@example("'; DROP TABLE catalog_tool; --")
@example("<script>alert(1)</script>")
@example("Ωç√∫ 田中さん 👩\u200d👩\u200d👧")
def test_any_text_is_written_as_it_was_read(text):
    keeps(
        {
            "type": "object",
            "properties": {text: {"type": "string", "description": text, "enum": [text], "default": text}},
            "required": [text],
            text: text,
        }
    )


def test_rest_says_what_is_beside_the_properties():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/a"}},
        "definitions": {"a": {"type": "string"}},
        "additionalProperties": False,
    }
    assert read_shape(schema).rest == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"a": {"type": "string"}},
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "string", "enum": ["a"]},
        {"type": "array"},
        {"$ref": "#/$defs/a"},
        {"type": "object", "properties": {" ": {}}},
        {"type": "object", "properties": {"a": None}},
    ],
    ids=str,
)
def test_schema_that_has_no_properties_to_show_is_one_parameter(schema):
    (parameter,) = read_shape(schema).parameters
    assert (parameter.name, parameter.is_whole, parameter.required) == ("value", True, True)
    assert parameter.schema == schema


def nested(depth):
    schema = {"type": "object"}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (None, "BAD_SCHEMA"),
        ("object", "BAD_SCHEMA"),
        ([], "BAD_SCHEMA"),
        (nested(64), "SCHEMA_TOO_DEEP"),
        (nested(5000), "SCHEMA_TOO_DEEP"),
        ({"allOf": [{}] * 20_001}, "SCHEMA_TOO_BIG"),
        ({"properties": {"a": {"enum": list(range(60_000))}}}, "SCHEMA_TOO_BIG"),
        ({"items": {"properties": dict.fromkeys(map(str, range(60_000)), True)}}, "SCHEMA_TOO_BIG"),
        ({"$comment": "x" * 1024 * 1024}, "SCHEMA_TOO_BIG"),
        ({"properties": {"a": {"description": "x" * 40_000}}}, "TEXT_TOO_LONG"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_schema_out_of_bounds_costs_its_item(schema, code):
    with pytest.raises(UnreadableItemError) as refused:
        read_shape(schema)
    assert refused.value.code == code
    assert refused.value.reason.endswith(".")


def test_schema_at_the_limit_is_read():
    keeps(nested(62))
    keeps({"allOf": [{}] * 10_000})


NESTED = {"$id": "https://vendor.example/b/inner.json", "$defs": {"y": {"$id": "d.json", "type": "number"}}}


def test_reference_to_an_identifier_inside_another_one_is_not_remote():
    """The base of an identifier is the nearest one around it (core, 8.2.1)."""
    reference = {"$ref": "https://vendor.example/b/d.json"}
    assert the_property(reference, **{"$defs": {"x": NESTED}}).schema == reference
    with pytest.raises(UnreadableItemError) as refused:
        the_property({"$ref": "d.json"}, **{"$defs": {"x": NESTED}})
    assert refused.value.code == "REMOTE_REF"


def test_list_of_values_that_many_properties_share_is_repeated_a_limited_number_of_times():
    values = [f"value {n}" for n in range(9_000)]
    schema = {
        "type": "object",
        "$defs": {"Many": {"type": "string", "enum": values}},
        "properties": {f"p{n}": {"$ref": "#/$defs/Many"} for n in range(900)},
    }
    shape = read_shape(schema)
    counts = [len(parameter.allowed_values) for parameter in shape.parameters]
    assert (counts[0], sum(counts)) == (9_000, 54_000)
    assert {parameter.type for parameter in shape.parameters[6:]} == {"string"}
    assert json_schema.write_schema(shape.parameters, shape.rest) == schema
