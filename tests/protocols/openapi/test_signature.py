"""An operation in the normal form, and its document out of it again."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.canonical_json import canonical
from pegboard.web import api_reference
from protocols import parameters as json_schema
from protocols import signature
from protocols.list_pages import UnreadableItemError
from protocols.losses import losses
from protocols.openapi import holes
from protocols.openapi import signature as openapi_signature
from protocols.openapi.client import OpenApi
from protocols.signature import Annotations
from tests.core.schema import schemas
from tests.protocols.openapi.documents import answers, cut, cuts, document, operation, read_signature, takes


def ref(name, section="schemas"):
    return {"$ref": f"#/components/{section}/{name}"}


def parameter(name, place="query", **members):
    return {"name": name, "in": place, "schema": {"type": "string"}, **members}


def names(read_signature):
    return [parameter.name for parameter in read_signature.inputs]


def by_name(read_signature):
    return {parameter.name: parameter for parameter in read_signature.inputs}


def comes_back(api_document):
    for cut_document in cuts(api_document).values():
        stored = signature.from_json(signature.to_json(openapi_signature.read_signature(cut_document)))
        document_written = holes.write_document(stored)
        assert losses(cut_document, document_written) == []
        assert canonical(document_written) == canonical(cut_document)


def test_texts_of_an_operation_are_those_of_the_tool():
    signature_read = read_signature(
        operation("a", summary="Do it", description="Does it at once.", tags=["x", "y"])
    )
    assert (signature_read.name, signature_read.title, signature_read.description, signature_read.tags) == (
        "a",
        "Do it",
        "Does it at once.",
        ("x", "y"),
    )


def test_summary_stands_in_for_a_description():
    assert read_signature(operation("a", summary="Do it")).description == "Do it"


@pytest.mark.parametrize(
    ("method", "annotations"),
    [
        ("get", Annotations(read_only=True, destructive=False, idempotent=True)),
        ("head", Annotations(read_only=True, destructive=False, idempotent=True)),
        ("options", Annotations(read_only=True, destructive=False, idempotent=True)),
        ("put", Annotations(read_only=False, idempotent=True)),
        ("delete", Annotations(read_only=False, destructive=True, idempotent=True)),
        ("post", Annotations(read_only=False)),
        ("patch", Annotations(read_only=False)),
    ],
)
def test_method_says_what_a_call_may_do(method, annotations):
    assert read_signature(operation("a"), method=method).annotations == annotations


def test_parameters_become_inputs():
    parameters = [
        parameter("q", description="Words.", required=True),
        parameter("limit", schema={"type": "integer", "minimum": 1, "maximum": 50}),
        parameter("X-Trace", "header", deprecated=True),
        parameter("theme", "cookie", schema={"type": "string", "enum": ["a", "b"]}),
        parameter("id", "path"),
        {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
    ]
    parameters_by_name = by_name(read_signature(operation("a", parameters=parameters), path="/a/{id}"))
    assert set(parameters_by_name) == {"q", "limit", "X-Trace", "theme", "id", "filter"}
    assert (parameters_by_name["q"].description, parameters_by_name["q"].required) == ("Words.", True)
    assert (
        parameters_by_name["limit"].type,
        parameters_by_name["limit"].min,
        parameters_by_name["limit"].max,
    ) == ("int", 1, 50)
    assert parameters_by_name["X-Trace"].schema["deprecated"] is True
    assert [value.name for value in parameters_by_name["theme"].allowed_values] == ["a", "b"]
    assert parameters_by_name["id"].required
    assert parameters_by_name["filter"].type == "json"


def test_headers_that_http_decides_are_no_inputs():
    parameters = [
        parameter(name, "header") for name in ("Accept", "authorization", "Content-Type", "Host", "X-A")
    ]
    assert names(read_signature(operation("a", parameters=parameters))) == ["X-A"]


def test_name_in_the_path_that_nobody_describes_is_an_input():
    op = operation("a")
    (parameter_read,) = read_signature(op, path="/a/{id}").inputs
    assert (parameter_read.name, parameter_read.type, parameter_read.required) == ("id", "string", True)
    assert [note.code for note in OpenApi().notes(cut(op, "/a/{id}"), read_signature(op, "/a/{id}"))] == [
        "PATH_PARAMETER"
    ]


THING = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "string", "readOnly": True},
        "name": {"type": "string"},
        "count": {"type": "integer"},
    },
}


SENT = {
    **THING,
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
}


@pytest.mark.parametrize("schema", [THING, ref("Thing"), ref("Alias")])
def test_members_of_a_plain_body_stand_beside_the_parameters(schema):
    components = {"schemas": {"Thing": THING, "Alias": ref("Thing")}}
    op = operation("a", parameters=[parameter("q")], requestBody=takes(schema))
    signature_read = read_signature(op, components=components)
    assert names(signature_read) == ["q", "name", "count"]
    assert [parameter.required for parameter in signature_read.inputs] == [False, True, False]
    comes_back(document({"/a": {"post": op}}, components=components))


@pytest.mark.parametrize(
    ("schema", "is_required"),
    [
        ({"oneOf": [SENT, {"type": "string"}]}, True),
        ({"allOf": [SENT]}, True),
        ({**SENT, "anyOf": [{}]}, True),
        ({**SENT, "additionalProperties": True}, True),
        ({**SENT, "additionalProperties": {"type": "string"}}, True),
        ({**SENT, "patternProperties": {"^x": {}}}, True),
        ({**SENT, "minProperties": 1}, True),
        ({**SENT, "nullable": True}, True),
        ({**SENT, "type": ["object", "null"]}, True),
        ({**SENT, "required": ["elsewhere"]}, True),
        ({"type": "object"}, True),
        ({"type": "array", "items": SENT}, True),
        ({"type": "string"}, True),
        ({}, True),
        (True, True),
        (SENT, False),
    ],
)
def test_body_that_would_lose_something_is_one_input(schema, is_required):
    op = operation("a", requestBody=takes(schema, required=is_required))
    (parameter_read,) = read_signature(op).inputs
    assert (parameter_read.name, parameter_read.required) == ("body", is_required)
    assert canonical(json_schema.write_parameter(parameter_read)) == canonical(
        openapi_signature.as_json_schema(schema, is_dialect=False)
    )
    comes_back(document({"/a": {"post": op}}))


@pytest.mark.parametrize(
    ("schema", "expected_schema"),
    [
        ({"allOf": [THING]}, {"allOf": [SENT]}),
        ({"type": "array", "items": THING}, {"type": "array", "items": SENT}),
        ({"oneOf": [THING, {"type": "string"}]}, {"oneOf": [SENT, {"type": "string"}]}),
        # Without its `id`, a thing may fit the other one too.
        ({"oneOf": [THING, {"type": "object"}]}, {"anyOf": [SENT, {"type": "object"}]}),
    ],
)
def test_a_body_that_is_one_input_is_without_members_that_only_come_back(schema, expected_schema):
    op = operation("a", requestBody=takes(schema))
    (parameter_read,) = read_signature(op).inputs
    assert canonical(json_schema.write_parameter(parameter_read)) == canonical(expected_schema)
    comes_back(document({"/a": {"post": op}}))


def test_an_answer_is_without_members_that_are_only_sent():
    password = {"type": "string", "writeOnly": True}
    user = {"type": "object", "required": ["password"], "properties": {"password": password, "name": {}}}
    signature_read = read_signature(
        operation("a", responses=answers({"type": "object", "properties": {"user": user}}))
    )
    assert signature_read.outputs[0].schema == {"type": "object", "properties": {"name": {}}}


def test_optional_body_without_required_members_stands_beside_the_parameters():
    schema = {**THING, "required": ["id"]}
    assert names(read_signature(operation("a", requestBody=takes(schema, required=False)))) == [
        "name",
        "count",
    ]


def test_one_name_in_several_places_is_kept_apart():
    parameters = [parameter("id", "header"), parameter("id", "query"), parameter("id", "path")]
    op = operation("a", parameters=parameters, requestBody=takes({"properties": {"id": {}, "query_id": {}}}))
    signature_read = read_signature(op, path="/a/{id}")
    assert names(signature_read) == ["id", "query_id", "header_id", "body_id", "body_query_id"]
    assert by_name(signature_read)["id"].required
    comes_back(document({"/a/{id}": {"post": op}}))


@pytest.mark.parametrize(
    ("media", "invocable"),
    [
        ("application/json", True),
        ("application/merge-patch+json", True),
        ("application/json; charset=utf-8", True),
        ("*/*", True),
        ("text/plain", True),
        ("application/x-www-form-urlencoded", True),
        ("multipart/form-data", True),
        ("application/x-ndjson", True),
        ("application/octet-stream", False),
        ("application/xml", False),
    ],
)
def test_body_that_cannot_be_sent_keeps_a_tool_from_being_run(media, invocable):
    op = operation("a", requestBody=takes(THING, media))
    assert (OpenApi().why_not_run(read_signature(op)) is None) == invocable
    comes_back(document({"/a": {"post": op}}))


def test_json_is_chosen_among_several_bodies():
    content = {**takes({"type": "string"}, "application/xml")["content"], **takes(THING)["content"]}
    assert names(read_signature(operation("a", requestBody={"required": True, "content": content}))) == [
        "name",
        "count",
    ]


@pytest.mark.parametrize(
    ("schema", "outputs"),
    [
        (THING, ["id", "name", "count"]),
        (ref("Thing"), ["id", "name", "count"]),
        ({"type": "array", "items": ref("Thing")}, ["result"]),
        ({"type": "string"}, ["result"]),
        ({"oneOf": [ref("Thing")]}, ["result"]),
        ({"type": "object"}, []),
    ],
)
def test_first_good_json_answer_gives_the_outputs(schema, outputs):
    op = operation("a", responses={"400": {"description": "Bad"}, **answers(schema)})
    components = {"schemas": {"Thing": THING}}
    assert [output.name for output in read_signature(op, components=components).outputs] == outputs
    comes_back(document({"/a": {"post": op}}, components=components))


def test_recursive_schemas_keep_their_definitions():
    node = {"type": "object", "properties": {"name": {"type": "string"}, "below": {"items": ref("Node")}}}
    op = operation("a", requestBody=takes(ref("Node")), responses=answers(ref("Node")))
    signature_read = read_signature(op, components={"schemas": {"Node": node}})
    assert names(signature_read) == ["name", "below"]
    assert signature_read.schema_rest["$defs"]["Node"]["properties"]["below"] == {
        "items": {"$ref": "#/$defs/Node"}
    }
    assert signature_read.outputs_rest["$defs"].keys() == {"Node"}
    comes_back(document({"/a": {"post": op}}, components={"schemas": {"Node": node}}))


DIALECT = [
    ({"type": "string", "nullable": True}, {"type": ["string", "null"], "nullable": True}),
    ({"type": "string", "nullable": False}, {"type": "string", "nullable": False}),
    ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
    ({"maximum": 9, "exclusiveMaximum": True}, {"exclusiveMaximum": 9}),
    ({"maximum": 9, "exclusiveMaximum": False}, {"maximum": 9}),
    ({"exclusiveMaximum": True}, {}),
    ({"type": "file"}, {}),
    ({"type": "string", "required": True}, {"type": "string"}),
    (
        {"items": {"type": "string", "nullable": True}},
        {"items": {"type": ["string", "null"], "nullable": True}},
    ),
    ({"properties": {"nullable": {"nullable": True}}}, {"properties": {"nullable": {"nullable": True}}}),
    ({"example": {"nullable": True, "type": "x"}}, {"example": {"nullable": True, "type": "x"}}),
]


@pytest.mark.parametrize(("schema", "expected"), DIALECT)
def test_dialect_of_3_0_becomes_json_schema_and_comes_back(schema, expected):
    op = operation("a", parameters=[parameter("p", schema=schema)])
    (parameter_read,) = read_signature(op, openapi="3.0.3").inputs
    assert json_schema.write_parameter(parameter_read) == expected
    comes_back(document({"/a": {"post": op}}, openapi="3.0.3"))


@pytest.mark.parametrize(("schema", "_"), DIALECT)
def test_components_in_the_dialect_come_back(schema, _):
    op = operation("a", requestBody=takes({"items": ref("S")}), responses=answers(ref("S")))
    comes_back(document({"/a": {"post": op}}, openapi="3.0.3", components={"schemas": {"S": schema}}))


SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "k"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "c"},
    "bearer": {"type": "http", "scheme": "Bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "oauth": {"type": "oauth2", "flows": {}},
    "cert": {"type": "mutualTLS"},
}


@pytest.mark.parametrize(
    ("security", "secrets", "scopes"),
    [
        ([{"key": []}], ("key: an API key in the header “X-Key”",), ()),
        ([{"query": []}], ("query: an API key in the query “k”",), ()),
        ([{"bearer": []}, {"basic": []}], ("bearer: a bearer token",), ()),
        ([{"basic": []}], ("basic: a user name and password",), ()),
        ([{"oauth": ["a", "b"]}], ("oauth: an OAuth access token, entered as a bearer token",), ("a", "b")),
        ([{"key": []}, {}], (), ()),
        ([{"none": []}], ("none: something that the document does not describe",), ()),
        ([], (), ()),
        (5, (), ()),
        ([5], (), ()),
    ],
)
def test_security_says_what_the_credential_must_be(security, secrets, scopes):
    signature_read = read_signature(
        operation("a", security=security), components={"securitySchemes": SCHEMES}
    )
    assert (signature_read.requirements.secrets, signature_read.requirements.scopes) == (secrets, scopes)


@pytest.mark.parametrize(("name", "code"), [("cookie", "CREDENTIAL_KIND"), ("cert", "CREDENTIAL_KIND")])
def test_credential_that_nobody_can_enter_is_noted(name, code):
    op = operation("a", security=[{name: []}])
    cut_document = cut(op, components={"securitySchemes": SCHEMES})
    assert [
        note.code for note in OpenApi().notes(cut_document, openapi_signature.read_signature(cut_document))
    ] == [code]


@pytest.mark.parametrize(
    ("op", "code"),
    [
        ({"summary": 5}, "SHAPE"),
        ({"tags": "x"}, "SHAPE"),
        ({"tags": [5]}, "SHAPE"),
        ({"description": "x" * 40_000}, "TEXT_TOO_LONG"),
        ({"parameters": [parameter(f"p{n}") for n in range(1_001)]}, "SCHEMA_TOO_BIG"),
    ],
)
def test_operation_that_cannot_be_held_is_refused(op, code):
    with pytest.raises(UnreadableItemError) as caught:
        read_signature(op)
    assert caught.value.code == code


def with_references(schema):
    """References of JSON Schema led to components, so that the document can be cut."""
    text = json.dumps(schema)
    for old in ("#/$defs/a", "#/properties/a", "https://elsewhere.example/a.json", "file:///etc/passwd"):
        text = text.replace(json.dumps(old), '"#/components/schemas/A"')
    return json.loads(text.replace('"$ref": "#"', '"$ref": "#/components/schemas/B"'))


object_schemas = schemas.schemas.map(with_references)


@given(object_schemas, object_schemas, object_schemas, st.sampled_from(["3.0.3", "3.1.0"]), st.booleans())
def test_every_document_comes_back(first, second, third, openapi, is_required):
    op = operation(
        "a",
        parameters=[parameter("p", schema=first, description="Said."), parameter("q", schema=second)],
        requestBody=takes(third, required=is_required),
        responses=answers(second),
    )
    api_document = document(
        {"/a": {"post": op}}, openapi=openapi, components={"schemas": {"A": first, "B": third}}
    )
    with suppress(UnreadableItemError):
        comes_back(api_document)


def test_the_document_of_a_generator_comes_back():
    """Our own REST interface as drf-spectacular describes it: some hundred operations of every shape."""
    comes_back(json.loads(api_reference.document()))
