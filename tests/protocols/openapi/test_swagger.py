"""Swagger 2.0 is read as OpenAPI 3.0, and its calls go out as the document describes them."""

import pytest

from protocols.list_pages import UnreadableItemError
from protocols.openapi import contents
from protocols.openapi import request as openapi_request
from protocols.openapi import signature as openapi_signature
from tests.protocols.openapi.documents import cuts


def swagger(operation, *, method="post", item=None, **members):
    root = {"swagger": "2.0", "info": {"title": "Old", "version": "1"}, **members}
    return root | {
        "paths": {"/x/{id}": {method: {"operationId": "a", "responses": {}, **operation}, **(item or {})}}
    }


def read_signature(operation, **members):
    return openapi_signature.read_signature(cuts(swagger(operation, **members))["a"])


def build_request(operation, arguments, **members):
    return openapi_request.build(read_signature(operation, **members), {"id": 1, **arguments})


def param(name, place="query", **members):
    return {"name": name, "in": place, "type": "string", **members}


def list_param(name, place="query", form="csv", **members):
    return param(
        name, place, **{"type": "array", "items": {"type": "string"}, "collectionFormat": form, **members}
    )


def test_a_body_by_reference_is_taken_apart():
    definitions = {
        "Pet": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    }
    body = {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    signature_read = read_signature(
        {"parameters": [{"$ref": "#/parameters/pet"}]}, parameters={"pet": body}, definitions=definitions
    )
    assert [(parameter.name, parameter.required) for parameter in signature_read.inputs] == [
        ("id", True),
        ("name", True),
    ]
    assert openapi_request.build(signature_read, {"id": 1, "name": "Rex"}).content == b'{"name":"Rex"}'


@pytest.mark.parametrize(
    ("form", "query"), [("csv", "v=a,b"), ("multi", "v=a&v=b"), ("ssv", "v=a%20b"), ("pipes", "v=a%7Cb")]
)
def test_lists_in_the_query_take_their_form(form, query):
    assert build_request({"parameters": [list_param("v", form=form)]}, {"v": ["a", "b"]}).query == query


@pytest.mark.parametrize(
    "described",
    [
        list_param("v", form="tsv"),
        list_param("v", "header", "pipes"),
        list_param("v", "formData", "tsv"),
        list_param("v", "path", "ssv"),
    ],
)
def test_a_list_in_a_form_that_cannot_be_sent_rejects_its_operation(described):
    with pytest.raises(UnreadableItemError) as rejected:
        read_signature({"parameters": [described]})
    assert "“v”" in rejected.value.reason


@pytest.mark.parametrize(
    ("form", "content"), [("csv", b"n=x&v=a,b"), ("multi", b"n=x&v=a&v=b"), ("pipes", b"n=x&v=a%7Cb")]
)
def test_form_fields_are_a_form(form, content):
    call = build_request(
        {"parameters": [param("n", "formData", required=True), list_param("v", "formData", form)]},
        {"n": "x", "v": ["a", "b"]},
    )
    assert (call.headers["Content-Type"], call.content) == (contents.FORM, content)


def test_a_file_makes_the_form_multipart():
    fields = [param("f", "formData", type="file", required=True), param("n", "formData")]
    call = build_request({"parameters": fields}, {"f": "data:text/plain,hello", "n": "x"})
    assert call.headers["Content-Type"].startswith("multipart/form-data")
    assert b"filename=" in call.content
    assert b"hello" in call.content


def test_a_parameter_of_the_path_is_replaced_by_the_operations():
    signature_read = read_signature(
        {"parameters": [param("q", type="integer")]}, item={"parameters": [param("q"), param("r")]}
    )
    assert {parameter.name: parameter.type for parameter in signature_read.inputs} == {
        "id": "string",
        "r": "string",
        "q": "int",
    }


def test_consumes_and_produces_choose_the_media_types():
    operation = {
        "consumes": ["text/plain"],
        "produces": ["application/vnd.x+json"],
        "parameters": [{"name": "t", "in": "body", "required": True, "schema": {"type": "string"}}],
        "responses": {"200": {"$ref": "#/responses/good"}},
    }
    good = {
        "description": "",
        "schema": {"type": "object", "properties": {"n": {"type": "integer", "x-nullable": True}}},
    }
    signature_read = read_signature(operation, responses={"good": good}, consumes=["application/xml"])
    assert [output.name for output in signature_read.outputs] == ["n"]
    assert openapi_request.build(signature_read, {"id": 1, "body": "hi"}).content == b"hi"


@pytest.mark.parametrize(
    ("stated", "base"),
    [
        ({"host": "api.test", "basePath": "/v1", "schemes": ["https"]}, "https://api.test/v1"),
        ({"host": "api.test", "schemes": ["http", "https"]}, "https://api.test"),
        ({"host": "api.test:443", "basePath": "v1/"}, "https://api.test:443/v1"),
        ({"basePath": "/v1"}, "https://api.test/v1"),
        ({}, "https://api.test/"),
    ],
)
def test_calls_go_to_host_and_base_path(stated, base):
    document = cuts(swagger({}, **stated))["a"]
    assert openapi_request.base_of(document, "https://api.test/docs/swagger.json") == base


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ({"type": "basic"}, "a user name and password"),
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, "an API key"),
        ({"type": "oauth2", "flow": "accessCode", "scopes": {"s": ""}}, "an OAuth access token"),
    ],
)
def test_security_is_required_and_no_input(scheme, words):
    operation = {"parameters": [param("x-key", "header")], "security": [{"k": []}]}
    signature_read = read_signature(operation, securityDefinitions={"k": scheme})
    assert words in signature_read.requirements.secrets[0]
    assert ("x-key" in [parameter.name for parameter in signature_read.inputs]) == (
        scheme["type"] != "apiKey"
    )


def test_a_parameter_that_refers_to_nothing_rejects_its_operation():
    with pytest.raises(UnreadableItemError):
        read_signature({"parameters": [{"$ref": "#/parameters/none"}]})
