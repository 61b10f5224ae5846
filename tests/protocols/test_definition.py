"""Tools that are defined here, in the form of the Tool System: read, and written as they were."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.canonical_json import canonical
from protocols import signature
from protocols.definition import (
    Definition,
    Parts,
    activity_of,
    check_inputs,
    check_output,
    document_of,
    parts_of,
)
from protocols.list_pages import UnreadableItemError
from tests.core.schema import schemas

SENTIMENT = {
    "type": "object",
    "description": "Analyzes text sentiment",
    "properties": {
        "_tool": {"type": "string", "const": "sentimentAnalysis"},
        "text": {"type": "string", "description": "Text to analyze"},
        "_output": {
            "type": "object",
            "properties": {"sentiment": {"type": "string"}, "confidence": {"type": "number"}},
        },
    },
}
WEATHER = {
    "type": "object",
    "title": "Weather",
    "description": "The weather at a place",
    "properties": {
        "_tool": {"type": "string", "const": "weatherCheck"},
        "_activity": {"type": "string", "const": "weatherCheck"},
        "location": {"type": "string"},
        "_output": {
            "type": "object",
            "properties": {"temperature": {"type": "number"}, "conditions": {"type": "string"}},
        },
    },
    "required": ["_tool", "location"],
}
SEND = {
    "type": "object",
    "description": "Sends a mail",
    "properties": {
        "_tool": {"type": "string", "const": "sendEmail", "description": "Which tool"},
        "_reasoningForCall": {"type": "string", "description": "Why"},
        "recipient": {"type": "string", "format": "email"},
        "subject": {"type": "string", "maxLength": 200},
        "_output": {"type": "object", "properties": {"sent": {"type": "boolean"}}, "required": ["sent"]},
    },
    "required": ["recipient", "subject"],
    "additionalProperties": False,
}
SHARED = {
    "type": "object",
    "properties": {
        "_tool": {"const": "move"},
        "_activity": {"const": ""},
        "from": {"$ref": "#/$defs/place"},
        "_output": {
            "type": "object",
            "properties": {"way": {"type": "array", "items": {"$ref": "#/$defs/place"}}},
        },
    },
    "$defs": {"place": {"type": "object", "properties": {"within": {"$ref": "#/$defs/place"}}}},
}


def there_and_back(document):
    stored = signature.from_json(signature.to_json(Definition().read(document)))
    return Definition().write(stored, "an id", "1")


@pytest.mark.parametrize("document", [SENTIMENT, WEATHER, SEND, SHARED])
def test_examples_of_the_tool_system_come_back_as_they_were(document):
    assert canonical(there_and_back(document)) == canonical(document)


def test_a_signature_has_inputs_and_outputs_without_the_fields_of_the_system():
    signature_read = Definition().read(SEND)
    assert (signature_read.name, signature_read.description) == ("sendEmail", "Sends a mail")
    assert [(parameter.name, parameter.required) for parameter in signature_read.inputs] == [
        ("recipient", True),
        ("subject", True),
    ]
    assert [(output.name, output.type) for output in signature_read.outputs] == [("sent", "boolean")]
    properties_written = there_and_back(WEATHER)["properties"]
    assert list(properties_written) == ["_tool", "_activity", "location", "_output"]


@pytest.mark.parametrize("document", [SENTIMENT, SEND])
def test_parts_hold_all_that_a_definition_says(document):
    assert canonical(document_of(parts_of(document))) == canonical(document)


def test_activity_is_named_or_empty_or_not_said():
    assert activity_of(WEATHER) == "weatherCheck"
    assert activity_of(SHARED) == ""
    assert activity_of(SEND) is None


def test_output_stands_for_itself():
    output = parts_of(SHARED).output
    assert output["$defs"] == SHARED["$defs"]
    assert output["properties"]["way"]["items"] == {"$ref": "#/$defs/place"}

    tree = {"type": "object", "properties": {"below": {"$ref": "#"}, "at": {"$ref": "#/$defs/a"}}}
    parts = Parts("grow", "", "Grows", {"type": "object"}, tree | {"$defs": {"a": {"type": "string"}}})
    output_written = document_of(parts)["properties"]["_output"]
    assert output_written["properties"]["below"] == {"$ref": "#/properties/_output"}
    assert output_written["properties"]["at"] == {"$ref": "#/properties/_output/$defs/a"}
    assert parts_of(document_of(parts)) == parts


def definitions(properties, members, output):
    own_properties = {"_tool": {"type": "string", "const": "any"}, "_output": output}
    named_properties = {
        name: property_schema for name, property_schema in properties.items() if not name.startswith("_")
    }
    return {**members, "type": "object", "properties": {**own_properties, **named_properties}}


@given(st.dictionaries(schemas.names, schemas.schemas, max_size=4), schemas.objects(), schemas.schemas)
def test_any_definition_that_can_be_read_comes_back_as_it_was(properties, members, output):
    document = definitions(properties, members, output)
    document_written = document
    with suppress(UnreadableItemError):
        document_written = there_and_back(document)
        parts = parts_of(document)
        again = parts_of(document_of(parts))
        assert canonical(again) == canonical(parts)
    assert canonical(document_written) == canonical(document)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"_tool": {"const": "two words"}}, "A name begins with a letter"),
        ({"_tool": {"type": "string"}}, "A name begins with a letter"),
        ({"_output": None}, "“_output” is missing"),
        ({"_secret": {"type": "string"}}, "“_secret” begins with an underscore"),
        ({"_activity": {"type": "string"}}, "must have a “const”"),
        ({"_output": {"$ref": "#/properties/text"}}, "outside of it"),
        ({"_output": {"$ref": "https://elsewhere.example/schema"}}, "outside of it"),
        ({"text": {"$ref": "#/properties/_output/properties/sentiment"}}, "outside of it"),
    ],
)
def test_what_is_no_definition_is_refused_with_a_sentence(broken, message):
    document = SENTIMENT | {"properties": SENTIMENT["properties"] | broken}
    with pytest.raises(UnreadableItemError, match=message):
        Definition().read(document)


def deep(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string"}, "“type”: “object”"),
        ({}, "“type”: “object”"),
        ({"type": "object", "description": "Mine"}, "The description belongs to the tool"),
        (
            {"type": "object", "properties": {"a": {"type": "txt"}}},
            r"“inputs.properties.a.type” must be one of",
        ),
        ({"type": "object", "properties": {"a": {"minLength": "3"}}}, r"a.minLength” must be a whole number"),
        ({"type": "object", "properties": {"a": 3}}, r"“inputs.properties.a” must be"),
        ({"type": "object", "required": "a"}, r"“inputs.required” must be a list"),
        ({"type": "object", "properties": {"_x": {}}}, "begins with an underscore"),
        ({"type": "object", "properties": {" ": {}}}, "needs a name"),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}},
            "cannot check: “#/\\$defs/b”",
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "https://x.example/"}}},
            "refers to another document",
        ),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "cannot check: “pattern” of “a”"),
        (deep(40), "more than 64 levels"),
        ({"type": "object", "properties": {str(n): {} for n in range(1_001)}}, "the limit is 1,000"),
    ],
)
def test_inputs_that_calls_could_not_be_judged_by_are_refused_at_their_place(schema, message):
    with pytest.raises(UnreadableItemError, match=message):
        check_inputs(schema)


@pytest.mark.parametrize("schema", [None, True, {}, {"type": "nothing"}, {"$ref": "#/$defs/b"}])
def test_an_output_is_needed_and_is_a_schema(schema):
    with pytest.raises(UnreadableItemError):
        check_output(schema)


def test_outputs_of_any_kind_are_taken():
    place = {"$ref": "#/$defs/place", "$defs": {"place": {"type": "string"}}}
    for schema in ({"type": "string"}, {"type": "array", "items": {"type": "object"}}, place):
        check_output(schema)
        document = document_of(Parts("any", "", "Any", {"type": "object"}, schema))
        assert parts_of(document).output == schema


@pytest.mark.parametrize("required", [[{}], [["x"]], [None], "x", {"x": True}])
def test_malformed_required_names_are_left_out(required):
    document = {
        "type": "object",
        "properties": {"_tool": {"const": "look"}, "x": {"type": "string"}, "_output": {"type": "string"}},
        "required": required,
    }
    parts = parts_of(document)
    assert parts.inputs == {"type": "object", "properties": {"x": {"type": "string"}}}
    assert parts.reserved == {"_tool": {}}
