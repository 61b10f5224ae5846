"""Arguments are validated before a request is sent, with plain messages."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from core.canonical_json import canonical
from core.schema import complexity, validation
from protocols import parameters as json_schema
from protocols.calls import arguments
from protocols.signature import AllowedValue, Signature
from tests.core.schema import schemas
from tests.factories import make_parameter, make_signature


def signature_of(schema):
    shape = json_schema.read_schema(schema, "schema", whole_name="value")
    return Signature(name="t", description="", inputs=shape.parameters, schema_rest=shape.rest)


def an_object(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def problems(schema, **arguments_given):
    return arguments.find_problems(signature_of(schema), arguments_given)


def problem_of(schema, value):
    """Return the problem of the one property `a`."""
    return problems(an_object(a=schema), a=value).get("a")


ADDRESS = an_object(
    "zip", zip={"type": "string"}, lines={"type": "array", "items": {"type": "string"}}, of={}
)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, 1, "must be text"),
        ({"type": "integer"}, "x", "must be a whole number"),
        ({"type": "integer", "minimum": 1}, 0, "must be at least 1"),
        ({"type": "integer", "maximum": 1}, 2, "must be at most 1"),
        ({"type": "number"}, True, "must be a number"),
        ({"type": "boolean"}, 0, "must be true or false"),
        ({"type": "string", "maxLength": 2}, "abc", "must not be longer than 2 characters"),
        ({"type": "string", "enum": ["a", "b"]}, "c", "must be one of a, b"),
        ({"enum": [1, "b", None]}, "c", "must be one of 1, “b”, null"),
        ({"const": 1}, 2, "must be 1"),
        ({"type": "string", "minLength": 1}, "", "must have at least 1 character"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "A", "must match the pattern ^[a-z]+$"),
        ({"type": "string", "format": "date"}, "1 May", "must be a date such as 2027-03-09"),
        ({"type": "string", "format": "uri"}, "x y", "must be an address such as https://example.com/"),
        ({"type": "string", "format": "no-such-format"}, "x", None),
        ({"type": "number", "exclusiveMinimum": 0}, 0, "must be more than 0"),
        ({"type": "number", "exclusiveMaximum": 0}, 0, "must be less than 0"),
        ({"type": "integer", "multipleOf": 5}, 7, "must be a multiple of 5"),
        ({"type": ["string", "integer"]}, [], "must be text or a whole number"),
        ({"type": ["string", "null"]}, 1, "must be text"),
        ({"type": "array", "minItems": 1}, [], "must have at least 1 entry"),
        ({"type": "array", "maxItems": 1}, [1, 2], "must not have more than 1 entry"),
        ({"type": "array", "uniqueItems": True}, [1, 1], "must not hold the same entry twice"),
        ({"type": "array", "contains": {"const": 1}}, [], "has no entry that fits what the vendor asks for"),
        ({"type": "object", "minProperties": 1}, {}, "must have at least 1 member"),
        ({"type": "object", "maxProperties": 0}, {"b": 1}, "must not have more than 0 members"),
        (
            {"type": "object", "propertyNames": {"maxLength": 1}},
            {"bb": 1},
            "has a member whose name is not allowed",
        ),
        ({"not": {"type": "string"}}, "x", "is excluded by the vendor"),
        (False, 1, "must not be given"),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
            2,
            "fits more than one of the forms of which the vendor takes one",
        ),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, 3, "fits none of the forms that the vendor takes"),
        ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}, 1, "must be at least 3"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "must be a whole number"),
        # The form of OpenAPI 3.0.
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, "must be more than 1"),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": False}, 1, None),
        ({"type": "integer", "nullable": True, "maximum": 1}, None, None),
    ],
)
def test_each_rule_is_said_in_words(schema, value, expected):
    assert problem_of(schema, value) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ({"zip": 1}, "address.zip must be text"),
        ({}, "address.zip is required"),
        ({"zip": "1", "lines": ["x", 2]}, "address.lines[1] must be text"),
        ({"zip": 1, "lines": 2}, "address.lines must be a list; address.zip must be text"),
        ({"zip": "1", "of": {"deep": [1]}}, None),
    ],
)
def test_nested_problem_names_its_path(address, expected):
    assert problems(an_object(address=ADDRESS), address=address).get("address") == expected


def test_member_that_is_not_known_is_named():
    closed = ADDRESS | {"additionalProperties": False}
    problems_found = problems(an_object(address=closed), address={"zip": "1", "nope": 1})
    assert problems_found == {"address": "address.nope is not known here"}


def test_everything_wrong_is_said_at_once():
    schema = an_object("city", city={"type": "string"}, days={"type": "integer", "exclusiveMaximum": 8})
    assert problems(schema | {"additionalProperties": False}, days=9, when=1) == {
        "city": "is required",
        "days": "must be less than 8",
        "when": "is not an input of this tool",
    }


def test_required_and_null_are_not_the_same_where_null_is_a_value():
    schema = an_object("a", a={"type": ["string", "null"]}, b={"type": "string"})
    assert problems(schema, a=None) == {}
    assert problems(schema) == {"a": "is required"}
    assert arguments.arguments_to_send(signature_of(schema), {"a": None, "b": None}) == {"a": None}


@pytest.mark.parametrize(
    ("schema", "takes_null"),
    [
        (True, True),
        (False, False),
        ({"type": "null"}, True),
        ({"type": "string"}, False),
        ({"type": "string", "nullable": True}, True),
        ({"enum": ["a", None]}, True),
        ({"const": None}, True),
        ({"const": "a"}, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"oneOf": [{"type": "string"}, {"minimum": 1, "type": "integer"}]}, False),
        ({"$ref": "#/$defs/a"}, False),
        ({"$ref": "#/$defs/b"}, True),
        ({"allOf": [{"$ref": "#/$defs/b"}]}, True),
        ({"minLength": 1}, True),
    ],
)
def test_null_is_sent_only_to_inputs_that_take_it(schema, takes_null):
    defined = {"$defs": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}}
    sent_arguments = arguments.arguments_to_send(signature_of(an_object(a=schema) | defined), {"a": None})
    assert sent_arguments == ({"a": None} if takes_null else {})


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, {}),
        ({"additionalProperties": False}, {"x": "is not an input of this tool"}),
        ({"additionalProperties": True}, {}),
        ({"additionalProperties": {"type": "integer"}}, {"x": "must be a whole number"}),
        ({"patternProperties": {"^x": {"type": "integer"}}}, {"x": "must be a whole number"}),
        (
            {"patternProperties": {"^y": {}}, "additionalProperties": False},
            {"x": "is not an input of this tool"},
        ),
    ],
)
def test_names_are_unknown_unless_the_vendor_lets_others_in(members, expected):
    assert problems(an_object(a={}) | members, x="text") == expected


def test_rules_for_inputs_together_are_judged():
    schema = an_object(a={}, b={}, c={}) | {
        "dependentRequired": {"a": ["b"]},
        "anyOf": [{"required": ["a"]}, {"required": ["c"]}],
    }
    assert problems(schema, a=1) == {"b": "is required"}
    assert problems(schema, b=1) == {"": "The inputs as a whole are invalid: the value lacks a or c."}


def test_either_or_names_what_is_missing():
    forms = [{"required": ["id"]}, {"required": ["first", "last"]}]
    either = {"type": "object", "anyOf": forms}
    assert problem_of(either, {}) == "lacks id or first and last"
    assert problem_of(either, {"id": 1}) is None
    assert problem_of({"anyOf": [*forms, {"maxProperties": 0}]}, {"x": 1}) == (
        "fits none of the forms that the vendor takes"
    )


def test_definitions_are_found():
    schema = an_object(a={"$ref": "#/$defs/day"}) | {"$defs": {"day": {"type": "string", "format": "date"}}}
    assert problems(schema, a="x") == {"a": "must be a date such as 2027-03-09"}


def test_schema_may_lead_back_to_itself():
    schema = an_object(child={"$ref": "#"}, n={"type": "integer"})
    assert problems(schema, child={"child": {"n": "x"}}) == {"child": "child.child.n must be a whole number"}


def test_input_that_is_no_object_is_judged_whole():
    schema = {"type": "array", "items": {"type": "string"}}
    assert problems(schema) == {"value": "is required"}
    assert problems(schema, value={}) == {"value": "must be a list"}
    assert problems(schema, value=[1]) == {"value": "value[0] must be text"}
    assert problems(schema, value=["a"]) == {}


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-07/schema#", None])
def test_lists_of_items_are_understood_with_and_without_a_dialect(dialect):
    schema = {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}}
    members = {"$schema": dialect} if dialect else {}
    assert problems(an_object(a=schema) | members, a=[1, "x"]) == {
        "a": "a[0] must be text; a[1] must be a whole number"
    }


def test_the_dialect_that_is_named_is_the_one_that_counts():
    referring_schema = an_object(a={"$ref": "#/definitions/a", "maxLength": 1}) | {"definitions": {"a": {}}}
    old = referring_schema | {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert problems(referring_schema, a="long") == {"a": "must not be longer than 1 character"}
    assert problems(old, a="long") == {}


@pytest.mark.parametrize(
    ("schema", "value", "remark"),
    [
        ({"type": "string", "pattern": "(?=x)"}, "y", "validates “pattern” of “a”."),
        ({"pattern": "("}, "y", "validates “pattern” of “a”."),
        ({"pattern": "(a{1000}){1000}"}, "y", "validates “pattern” of “a”."),
        ({"type": "file"}, "y", "validates “type” of “a”."),
        ({"minimum": "x"}, 1, "validates “minimum” of “a”."),
        ({"required": ["b", 1]}, {"b": 1}, ""),
        ({"$ref": "#/$defs/none"}, 1, "validates “#/$defs/none”."),
        ({"$ref": "#/properties/a"}, 1, "validates “#/properties/a”."),
    ],
)
def test_rule_that_cannot_be_checked_is_named_and_stops_nobody(schema, value, remark):
    signature = signature_of(an_object("b", a=schema, b={"type": "integer"}))
    assert remark in arguments.unchecked(signature)
    assert arguments.find_problems(signature, {"a": value, "b": 1}) == {}
    assert "b" in arguments.find_problems(signature, {"a": value, "b": "x"})


NOWHERE = {"$ref": "#/$defs/none"}
AHEAD = "^(?!_)"


@pytest.mark.parametrize(
    "schema",
    [
        {"not": NOWHERE},
        {"not": {"type": "object", "properties": {"b": {"type": "file"}}}},
        {"oneOf": [NOWHERE, {"type": "object", "required": ["b"], "properties": {"b": NOWHERE}}]},
        {"if": NOWHERE, "then": {"required": ["z"]}},
        {"allOf": [NOWHERE], "unevaluatedProperties": False},
        {"patternProperties": {AHEAD: {}}, "additionalProperties": False},
        {"$ref": "#/$defs/x", "not": {"$ref": "#/$defs/y"}},
        {"properties": {"b": {"contains": NOWHERE, "maxContains": 0, "type": "array"}}},
    ],
    ids=str,
)
def test_what_is_left_out_refuses_nothing_elsewhere(schema):
    defined = {"x": NOWHERE, "y": {"properties": {"b": {"pattern": AHEAD}}}}
    signature = signature_of(an_object(a=schema) | {"$defs": defined})
    assert arguments.find_problems(signature, {"a": {"b": [1]}}) == {}
    assert arguments.unchecked(signature)


def test_schema_that_can_be_checked_has_no_remark():
    assert arguments.unchecked(signature_of(an_object(a={"pattern": "^(a+)+$"}))) == ""
    assert arguments.unchecked(make_signature()) == ""


def test_vendors_schema_is_left_as_it_is():
    schema = an_object("b", a={"required": ["b", 1], "type": "file"})
    before = repr(schema)
    arguments.find_problems(signature_of(schema), {"a": 1, "b": 2})
    assert repr(schema) == before


def doubling(times):
    """Each definition asks for the next one twice."""
    forms = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(times)}
    return an_object(a={"$ref": "#/$defs/d0"}) | {"$defs": forms | {f"d{times}": {"type": "string"}}}


def test_schema_that_would_take_years_is_not_judged():
    assert problems(doubling(2), a=1) == {"a": "fits none of the forms that the vendor takes"}
    assert problems(doubling(60), a=1) == {}
    assert "validates “a”" in arguments.unchecked(signature_of(doubling(60)))


def test_tree_that_would_take_years_is_not_judged_however_deep_the_value():
    schema = an_object(a={"allOf": [{"$ref": "#"}, {"$ref": "#"}]})
    value = {}
    for _ in range(50):
        value = {"a": value}
    assert problems(schema, **value) == {}


def test_leftovers_within_leftovers_count_what_they_cost():
    schema = an_object(a={})
    for _ in range(20):
        schema = {"type": "object", "allOf": [schema], "unevaluatedProperties": False}
    with pytest.raises(complexity.TooComplexError):
        complexity.require_bounded(schema, 1)


def test_wide_recursive_schema_is_judged():
    names = [f"p{number}" for number in range(50)]
    node = an_object(**{name: {"$ref": "#"} for name in names}, n={"type": "integer"})
    value = {"n": "x"}
    for _ in range(20):
        value = {"p1": value}
    assert problems(node, **value)["p1"].endswith(".n must be a whole number")


def test_either_or_in_a_tree_is_judged_to_its_leaves():
    leaf = {"type": "string"}
    forms = [leaf, an_object() | {"additionalProperties": {"$ref": "#/$defs/node"}}]
    forms.append({"type": "array", "items": {"$ref": "#/$defs/node"}})
    schema = an_object(a={"$ref": "#/$defs/node"}) | {"$defs": {"node": {"anyOf": forms}}}

    problems_found = problems(schema, a={"b": [{"c": {"d": [True]}}]})

    assert problems_found == {"a": "a.b[0].c.d[0] must be text or an object or a list"}


def test_many_entries_of_many_forms_are_judged_without_a_reason_for_each():
    forms = [{"const": f"{number}"} for number in range(1000)]
    schema = an_object(a={"type": "array", "items": {"anyOf": forms}})

    assert problems(schema, a=["7"] * 1000) == {}
    assert problems(schema, a=["x"] * 1000) == {
        "": "The inputs as a whole are invalid: the value does not fit the vendor's schema."
    }


def test_what_cannot_be_checked_costs_no_other_input():
    names = [f"p{number}" for number in range(50)]
    ahead = {name: {"type": "string", "pattern": "(?=x)"} for name in names}
    signature = signature_of(an_object(**ahead, n={"type": "integer"}))
    assert arguments.find_problems(signature, {"p1": 1, "n": "x"}).keys() == {"p1", "n"}
    endless = doubling(60) | {"type": "object"}
    endless["properties"] |= {"n": {"type": "integer"}}
    assert arguments.find_problems(signature_of(endless), {"a": 1, "n": "x"}).keys() == {"n"}


def test_schema_with_more_endless_inputs_than_can_be_left_out_is_not_checked():
    endless = doubling(60)
    endless["properties"] = {f"p{number}": {"$ref": "#/$defs/d0"} for number in range(1000)}
    assert "Pegboard cannot check" in arguments.unchecked(signature_of(endless))


def test_schema_deeper_than_any_that_is_read_is_not_checked():
    schema = {"type": "string"}
    for _ in range(2000):
        schema = {"properties": {"a": schema}}
    assert validation.checked(schema).validator is None


def test_patterns_take_linear_time():
    assert problem_of({"type": "string", "pattern": "^(a+)+$"}, "a" * 50_000 + "b").startswith("must match")


def test_only_so_many_patterns_are_made_ready():
    signature = signature_of(an_object(**{f"p{n}": {"pattern": "^a$"} for n in range(200)}))
    assert "most patterns" in arguments.unchecked(signature)


@pytest.mark.parametrize("value", [[[]] * 20_001, "nested"])
def test_value_out_of_bounds_is_not_sent(value):
    if value == "nested":
        value = []
        for _ in range(300):
            value = [value]
    assert problem_of({"type": "array"}, value) == "is too large or too deeply nested to be sent"


@given(schemas.schemas, schemas.values)
def test_verdicts_agree_with_a_second_implementation(schema, value):
    ready = validation.checked(schema)
    assume(validation.is_schema(schema) and not ready.remark)
    # Formats are only notes to the second implementation; a dialect of a vendor's is unknown to it.
    assume(
        not any(word in canonical(schema).decode() for word in ('"format"', "vendor.example", '"nullable"'))
    )
    validator = validator_for(schema, default=Draft202012Validator)(schema)
    assert (validation.faults(ready, value) == []) is validator.is_valid(value)


@settings(max_examples=60)
@given(schemas.objects(), st.dictionaries(schemas.names, schemas.values, max_size=4))
def test_no_schema_and_no_arguments_break_the_check(schema, sent_arguments):
    signature = signature_of(schema)
    problems = arguments.find_problems(signature, sent_arguments)
    assert all(isinstance(name, str) and message for name, message in problems.items())
    assert arguments.unchecked(signature) == "" or arguments.unchecked(signature).endswith(".")


def test_signatures_without_schemas_are_judged_by_their_members():
    unit = make_parameter("unit", type="enum", required=False, allowed_values=(AllowedValue("C"),))
    signature = make_signature(inputs=(make_parameter("city"), unit))
    assert arguments.find_problems(signature, {"unit": "K", "x": 1}) == {
        "x": "is not an input of this tool",
        "city": "is required",
        "unit": "must be one of C",
    }
    assert arguments.find_problems(signature, {"city": "Oslo", "unit": None}) == {}


@pytest.mark.parametrize("value", [5.0, 1e2, -0.0, [5.0], {"n": [5.0]}])
def test_a_number_with_a_zero_fraction_is_a_whole_number(value):
    schema = {"integer": {"type": "integer"}, "list": {"items": {"type": "integer"}}, "dict": {}}
    kind = {float: "integer"}.get(type(value), type(value).__name__)
    signature = signature_of(an_object(a=schema[kind]))
    assert arguments.find_problems(signature, {"a": value}) == {}
    assert "." not in canonical(arguments.arguments_to_send(signature, {"a": value})).decode()


def test_a_fraction_or_no_number_is_no_whole_number():
    assert problem_of({"type": "integer"}, 5.5)
    assert problem_of({"type": "integer"}, float("inf"))
    assert problem_of({"type": "integer", "maximum": 4}, 5.0)
