"""One document, cut into one document for each operation."""

import json

import pytest

from core.canonical_json import canonical
from core.outbound.errors import ProtocolViolationError, RefusedError
from protocols.list_pages import UnreadableItemError
from protocols.openapi import document as openapi_document
from protocols.openapi import request as openapi_request
from protocols.openapi import signature as openapi_signature
from protocols.openapi.cut import cut_of
from tests.protocols.openapi.documents import answers, cut, cuts, document, operation, parsed, takes


def ids(document):
    return [(operation.tool_id, operation.name) for operation in parsed(document).operations]


def ref(name, section="schemas"):
    return {"$ref": f"#/components/{section}/{name}"}


def refused(op, **members):
    with pytest.raises(UnreadableItemError) as caught:
        cut(op, **members)
    assert caught.value.reason.endswith(".")
    return caught.value.code


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"", ProtocolViolationError, "EMPTY_REPLY"),
        (b"<!doctype html>", ProtocolViolationError, "NOT_JSON"),
        (b"[]", ProtocolViolationError, "SHAPE"),
        (b"just words", ProtocolViolationError, "SHAPE"),
        (b'{"tools": []}', ProtocolViolationError, "SHAPE"),
        (b'{"openapi": "3.1.0", "paths": []}', ProtocolViolationError, "SHAPE"),
        (b'{"swagger": "1.2", "paths": {}}', RefusedError, "OLD_OPENAPI"),
        (b"swagger: 1.2\npaths: {}", RefusedError, "OLD_OPENAPI"),
        (b'{"openapi": "2.9", "paths": {}}', RefusedError, "OLD_OPENAPI"),
        (b'{"openapi": "4.0.0", "paths": {}}', RefusedError, "OLD_OPENAPI"),
        (b'{"openapi": ', ProtocolViolationError, "JSON_SYNTAX"),
    ],
)
def test_what_is_no_openapi_document_is_named(body, kind, code):
    with pytest.raises(kind) as caught:
        openapi_document.parse(body)
    assert caught.value.code == code
    assert caught.value.message.endswith(".")


def test_yaml_and_json_give_the_same_operations():
    text = (
        "openapi: 3.0.3\ninfo: {title: Test, version: '1'}\npaths:\n  /a:\n    get:\n      operationId: a\n"
    )
    text += "      responses: {200: {description: Good}}\n"
    (from_yaml,) = openapi_document.parse(text.encode()).operations
    (from_json,) = parsed(document({"/a": {"get": operation("a")}}, openapi="3.0.3")).operations
    assert canonical(from_yaml.operation) == canonical(from_json.operation)


def test_key_that_stands_twice_is_noted():
    parsed_document = openapi_document.parse(b'{"openapi": "3.1.0", "openapi": "3.1.0", "paths": {}}')
    assert [note.code for note in parsed_document.notes] == ["DUPLICATE_KEY"]


def test_own_id_is_the_id_where_it_is_the_only_one():
    paths = {
        "/a": {"get": operation("a.list/all"), "post": operation("twice")},
        "/b/{id}": {"get": operation("twice"), "delete": operation()},
    }
    assert ids(document(paths)) == [
        ("a.list/all", "a_list_all"),
        ("POST:/a", "post_a"),
        ("GET:/b/(id)", "get_b_id"),
        ("DELETE:/b/(id)", "delete_b_id"),
    ]


def test_operations_never_share_an_id_or_a_name():
    paths = {
        "/a/{x}": {"get": operation()},
        "/a/(x)": {"get": operation()},
        "/a/x": {"get": operation("a.b"), "post": operation("a-b"), "put": operation("a/b")},
        "/b": {"get": operation("GET:/a/x"), "put": operation("a_b")},
        "/" + "long/" * 80: {"get": operation()},
        "/" + "long/" * 81: {"get": operation()},
        "/ä": {"get": operation("日本"), "post": operation("漢字")},
        "/": {"get": operation(), "put": operation("x" * 300)},
    }
    identities = ids(document(paths))
    assert (
        len({tool_id for tool_id, _ in identities})
        == len({name for _, name in identities})
        == len(identities)
    )
    assert all(0 < len(tool_id) <= 255 and 0 < len(name) <= 64 for tool_id, name in identities)
    assert ("a_b", "a_b") in identities


def test_name_that_was_marked_is_kept_with_the_item():
    cut_documents = cuts(document({"/a": {"get": operation("a.b"), "post": operation("a/b")}}))
    names = [cut_document.get("x-tool-name") for cut_document in cut_documents.values()]
    assert all(name.startswith("a_b_") for name in names)
    assert len(set(names)) == 2


def test_parameters_of_the_path_are_those_of_each_operation_unless_it_has_its_own():
    shared = [{"name": "id", "in": "path", "required": True}, {"name": "q", "in": "query"}]
    parameters = [{"name": "q", "in": "query", "description": "Mine."}, {"name": "q", "in": "header"}]
    api_document = document({"/a/{id}": {"parameters": shared, "get": operation("a", parameters=parameters)}})
    (cut_document,) = cuts(api_document).values()
    assert cut_document["paths"]["/a/{id}"]["get"]["parameters"] == [shared[0], *parameters]


def test_everything_but_schemas_is_put_in_place():
    components = {
        "parameters": {"page": {"name": "page", "in": "query", "schema": ref("Page")}},
        "requestBodies": {"thing": takes(ref("Thing"))},
        "responses": {"good": {"description": "Good", "headers": {"X-Left": ref("left", "headers")}}},
        "headers": {"left": {"schema": {"type": "integer"}}},
        "schemas": {"Page": {"type": "integer"}, "Thing": {"type": "object"}, "Other": {}},
    }
    op = {
        "parameters": [ref("page", "parameters")],
        "requestBody": ref("thing", "requestBodies"),
        "responses": {"200": ref("good", "responses")},
    }
    cut_document = cut(op, components=components)
    inside = cut_document["paths"]["/things"]["post"]
    assert inside["parameters"] == [components["parameters"]["page"]]
    assert inside["requestBody"] == takes(ref("Thing"))
    assert inside["responses"]["200"]["headers"]["X-Left"] == {"schema": {"type": "integer"}}
    assert cut_document["components"]["schemas"] == {"Page": {"type": "integer"}, "Thing": {"type": "object"}}


def test_path_may_stand_elsewhere_in_the_document():
    api_document = document(
        {"/a": {"$ref": "#/components/pathItems/a"}}, components={"pathItems": {"a": {"get": operation("a")}}}
    )
    assert ids(api_document) == [("a", "a")]


def test_change_elsewhere_in_the_document_leaves_an_item_as_it_was():
    schemas = {"A": {"properties": {"b": ref("B")}}, "B": {"type": "string"}, "C": {"type": "string"}}
    paths = {
        "/a": {"get": operation("a", responses=answers(ref("A")))},
        "/c": {"get": operation("c", responses=answers(ref("C")))},
    }
    before = cuts(document(paths, components={"schemas": schemas}))
    after = cuts(document(paths, components={"schemas": {**schemas, "B": {"type": "integer"}}}))
    assert before["a"] != after["a"]
    assert before["c"] == after["c"]


def test_schemas_that_refer_to_each_other_are_all_there():
    schemas = {
        "A": {"properties": {"next": ref("B")}},
        "B": {"items": {"oneOf": [ref("A"), ref("C")]}},
        "C": {"properties": {"$ref": ref("D"), "default": ref("E")}, "default": ref("F"), "x-a": ref("F")},
        "D": {},
        "E": {},
        "F": {},
    }
    cut_document = cut(operation("a", responses=answers(ref("A"))), components={"schemas": schemas})
    assert sorted(cut_document["components"]["schemas"]) == ["A", "B", "C", "D", "E"]


def test_schema_that_stands_elsewhere_becomes_a_component_named_by_its_place():
    paths = {
        "/a~b/{id}": {"get": operation("a", responses=answers({"properties": {"x": {"type": "string"}}}))},
        "/c": {
            "get": operation(
                "c",
                responses=answers(
                    {
                        "$ref": "#/paths/~1a~0b~1%7Bid%7D/get/responses/200/content/application~1json/schema"
                        "/properties/x"
                    }
                ),
            )
        },
    }
    cut_document = cuts(document(paths))["c"]
    (name, schema), *_ = cut_document["components"]["schemas"].items()
    assert schema == {"type": "string"}
    assert name.startswith("/paths/")
    used = cut_document["paths"]["/c"]["get"]["responses"]["200"]["content"]["application/json"]["schema"][
        "$ref"
    ]
    assert used.startswith("#/components/schemas/")


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (5, "SHAPE"),
        ({"parameters": 5}, "SHAPE"),
        ({"parameters": [5]}, "SHAPE"),
        ({"parameters": [{"name": "a", "in": "body"}]}, "SHAPE"),
        ({"parameters": [{"name": " ", "in": "query"}]}, "SHAPE"),
        ({"parameters": [{"in": "query"}]}, "SHAPE"),
        ({"parameters": [ref("none", "parameters")]}, "BAD_REF"),
        ({"responses": {"200": ref("loop", "responses")}}, "BAD_REF"),
        ({"responses": answers(ref("None"))}, "BAD_REF"),
        ({"responses": answers({"$ref": "#anchor"})}, "BAD_REF"),
        ({"responses": answers({"$ref": "https://elsewhere.example/a.json#/A"})}, "REMOTE_REF"),
        ({"responses": answers({"items": {"$ref": "file:///etc/passwd"}})}, "REMOTE_REF"),
        ({"requestBody": {"$ref": "bodies.yaml"}}, "REMOTE_REF"),
        ({"responses": {"200": ref("bomb9", "responses")}}, "SCHEMA_TOO_BIG"),
        ({"description": "x" * 1_100_000}, "SCHEMA_TOO_BIG"),
        ({"summary": "\0"}, "JSON_NUL"),
    ],
)
def test_operation_that_cannot_be_cut_out_is_refused_alone(op, code):
    bomb = {f"bomb{n}": {"links": [ref(f"bomb{n - 1}", "responses")] * 10} for n in range(1, 10)}
    responses = {"loop": {"links": [ref("loop", "responses")] * 2}, "bomb0": {"description": "x"}, **bomb}
    assert refused(op, components={"responses": responses}) == code


def test_far_end_of_endless_schemas_is_left_out_in_the_same_way_each_time():
    schemas = {
        f"S{n}": {"description": "x" * 5_000, "properties": {"next": ref(f"S{n + 1}")}} for n in range(99)
    }
    api_document = document(
        {"/a": {"get": operation("a", responses=answers(ref("S0")))}},
        components={"schemas": {**schemas, "S99": {}}},
    )
    (first,), (second,) = (
        cuts(api_document).values(),
        cuts(json.loads(json.dumps(api_document, sort_keys=True))).values(),
    )
    assert canonical(first) == canonical(second)
    kept_schemas = first["components"]["schemas"]
    left_out = [name for name, schema in kept_schemas.items() if "x-left-out" in schema]
    assert 10 < len(kept_schemas) < 20
    assert left_out == [f"S{len(kept_schemas) - 1}"]


def test_security_and_servers_that_apply_go_along():
    schemes = {"key": {"type": "apiKey"}, "other": {"type": "http"}}
    paths = {
        "/a": {"get": operation("a"), "post": operation("b", security=[], servers=[{"url": "/own"}])},
        "/c": {"get": operation("c"), "servers": [{"url": "/path"}]},
    }
    cut_documents = cuts(
        document(
            paths,
            security=[{"key": []}],
            servers=[{"url": "/all"}],
            components={"securitySchemes": schemes},
        )
    )
    operations = [cut_of(cut_document).own_servers for cut_document in cut_documents.values()]
    assert operations == [None, [{"url": "/own"}], [{"url": "/path"}]]
    assert {cut_document["servers"][0]["url"] for cut_document in cut_documents.values()} == {"/all"}
    assert cut_documents["a"]["components"] == {"securitySchemes": {"key": {"type": "apiKey"}}}
    assert cut_documents["a"]["paths"]["/a"]["get"]["security"] == [{"key": []}]
    assert "components" not in cut_documents["b"]
    assert cut_documents["b"]["paths"]["/a"]["post"]["security"] == []


def test_what_is_no_operation_is_passed_over():
    paths = {
        "/a": {"trace": operation("t"), "summary": "x", "x-get": operation("x"), "get": operation("a")},
        "/b": 5,
        "/c": {"$ref": "#/nowhere"},
        "x-paths": {"get": operation("y")},
    }
    assert ids(document(paths)) == [("a", "a")]


def test_paths_in_other_documents_are_noted_and_not_fetched():
    api_document = document(
        {"/a": {"$ref": "a.yaml"}, "/b": {"$ref": "#/nowhere"}, "/c": {"get": operation("c")}}
    )
    assert ids(api_document) == [("c", "c")]
    assert [note.code for note in parsed(api_document).notes] == ["PATH_ELSEWHERE"]


def of_3_2(**item):
    return {"openapi": "3.2.0", "info": {"title": "T", "version": "1"}, "paths": {"/a": item}}


def test_methods_of_3_2_become_tools():
    cut_documents = cuts(of_3_2(query=operation("find"), additionalOperations={"COPY": operation("copy")}))
    calls = {
        tool: openapi_request.build(openapi_signature.read_signature(cut_document), {})
        for tool, cut_document in cut_documents.items()
    }
    assert {tool: call.method for tool, call in calls.items()} == {"find": "QUERY", "copy": "COPY"}


@pytest.mark.parametrize("method", ["GET", "Post", "TRACE", "A B", ""])
def test_a_method_that_cannot_be_added_is_rejected_by_its_name(method):
    parsed_document = parsed(of_3_2(additionalOperations={method: operation("a")}, get=operation("b")))
    (rejected,) = [operation for operation in parsed_document.operations if operation.method == method]
    with pytest.raises(UnreadableItemError) as refused:
        parsed_document.cut(rejected)
    assert refused.value.code == "SHAPE"


def test_methods_of_3_2_are_none_in_earlier_documents():
    assert not parsed(
        {**of_3_2(query=operation("a"), additionalOperations={"COPY": {}}), "openapi": "3.1.0"}
    ).operations


@pytest.mark.parametrize(
    ("media", "value", "query"),
    [
        ("application/x-www-form-urlencoded", {"a": "x y", "b": [1, 2]}, "a=x%20y&b=1&b=2"),
        ("application/json", {"a": 1}, "%7B%22a%22%3A1%7D"),
        ("text/plain", "a b", "a%20b"),
    ],
)
def test_a_query_string_is_one_input(media, value, query):
    described = {"name": "all", "in": "querystring", "required": True, "content": {media: {"schema": {}}}}
    (cut_document,) = cuts(of_3_2(get=operation("a", parameters=[described]))).values()
    assert (
        openapi_request.build(openapi_signature.read_signature(cut_document), {"all": value}).query == query
    )


@pytest.mark.parametrize(
    "other", [{"name": "q", "in": "query", "schema": {}}, {"name": "all", "in": "querystring"}]
)
def test_a_query_string_beside_another_query_is_rejected(other):
    described = {"name": "s", "in": "querystring", "content": {"text/plain": {"schema": {}}}}
    with pytest.raises(UnreadableItemError):
        cuts(of_3_2(get=operation("a", parameters=[described, other])))
