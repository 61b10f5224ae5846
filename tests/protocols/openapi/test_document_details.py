"""Operations that are cut out of a document, what they lack, and the exact reasons of rejections."""

import json

import pytest

from core.outbound.errors import ProtocolViolationError, RefusedError
from protocols.list_pages import UnreadableItemError
from protocols.openapi import document as openapi_document
from tests.protocols.openapi.documents import answers, cut, cuts, document, operation, parsed, takes

SHAPE, BAD_REF = "SHAPE", "BAD_REF"
DEAD_END = "It refers to “{}”, which is not in the document."
NO_PLACE = "“parameters[0]” needs a name and one of path, query, header, cookie as its place."
OLD = "Pegboard reads Swagger 2.0 and OpenAPI 3. Ask the vendor for one of these, or convert it and upload"


def refusal(op, **members):
    with pytest.raises(UnreadableItemError) as caught:
        cut(op, **members)
    return caught.value.code, caught.value.reason


def named(name, place="query", **members):
    return {"name": name, "in": place, **members}


@pytest.mark.parametrize(
    ("op", "code", "reason"),
    [
        (7, SHAPE, "The operation is not an object."),
        ({"parameters": 7}, SHAPE, "“parameters” is not an array."),
        ({"parameters": [7]}, SHAPE, "“parameters[0]” is not an object."),
        ({"parameters": [{"name": "a"}]}, SHAPE, NO_PLACE),
        ({"parameters": [named(" ")]}, SHAPE, NO_PLACE),
        ({"parameters": [named(7)]}, SHAPE, NO_PLACE),
        ({"parameters": [named("a", "body")]}, SHAPE, NO_PLACE),
        ({"parameters": [named("a", "querystring")]}, SHAPE, NO_PLACE),
        ({"parameters": [named("a"), 7]}, SHAPE, "“parameters[1]” is not an object."),
        ({"requestBody": {"$ref": "#/none"}}, BAD_REF, DEAD_END.format("#/none")),
        ({"requestBody": {"$ref": "#"}}, BAD_REF, DEAD_END.format("#")),
        (
            {"requestBody": {"$ref": "https://x.example/y"}},
            "REMOTE_REF",
            "It refers to another document (“https://x.example/y”), and those are never fetched.",
        ),
        (operation(requestBody=takes({"$ref": "#/components/schemas/No"})), BAD_REF, DEAD_END.format("No")),
        (operation(requestBody=takes({"$ref": "#/x/y"})), BAD_REF, DEAD_END.format("#/x/y")),
        (
            {"requestBody": {"$ref": "#/components/requestBodies/Loop"}},
            BAD_REF,
            "The operation's references lead back to themselves.",
        ),
        (
            {"description": "x" * openapi_document.MAX_ITEM_BYTES},
            "SCHEMA_TOO_BIG",
            "The operation is 1,048,681 bytes of JSON; the limit is 1,048,576.",
        ),
        (
            {"x": [[] for _ in range(openapi_document.MAX_PARTS)]},
            "SCHEMA_TOO_BIG",
            "With all that it refers to, the operation is too large to be read.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isupper() else "",
)
def test_reasons_of_an_operation_that_cannot_be_cut_out(op, code, reason):
    loop = {"content": {"a/b": {"$ref": "#/components/requestBodies/Loop"}}}
    assert refusal(op, components={"requestBodies": {"Loop": loop}}) == (code, reason)


def test_reasons_of_query_strings():
    def refused(*parameters):
        with pytest.raises(UnreadableItemError) as caught:
            cuts(document({"/a": {"get": {"parameters": [*parameters]}}}, openapi="3.2.0"))
        return caught.value.code, caught.value.reason

    querystring = named("q", "querystring", content={"application/json": {"schema": {}}})
    several = "A query string is the whole query: no other parameter may be in the query."
    assert refused(querystring, named("a")) == (SHAPE, several)
    assert refused(querystring, querystring | {"name": "r"}) == (SHAPE, several)
    assert refused({**querystring, "content": {}}) == (
        SHAPE,
        "“parameters[0]” is a query string without “content”.",
    )
    assert refused(named("a", "body")) == (SHAPE, NO_PLACE.replace("cookie", "cookie, querystring"))


@pytest.mark.parametrize(
    ("body", "kind", "code", "message"),
    [
        (b"\xef\xbb\xbf \n", ProtocolViolationError, "EMPTY_REPLY", "The reply is empty."),
        (
            b" <html>",
            ProtocolViolationError,
            "NOT_JSON",
            "This is a web page. Enter the address of the OpenAPI document itself, in JSON or YAML.",
        ),
        (
            b'{"info": {}}',
            ProtocolViolationError,
            SHAPE,
            "The reply is not an OpenAPI document: it has no “openapi” at its top.",
        ),
        (
            b'{"openapi": "3.1.0", "paths": 7}',
            ProtocolViolationError,
            SHAPE,
            "“paths” is not an object, so there are no operations.",
        ),
        (
            b'{"swagger": "1.2"}',
            RefusedError,
            "OLD_OPENAPI",
            f"This is a Swagger 1.2 document. {OLD} the result.",
        ),
        (
            b'{"openapi": "2.9", "swagger": "2.0"}',
            RefusedError,
            "OLD_OPENAPI",
            "This is OpenAPI 2.9. Pegboard reads OpenAPI 3.0 to 3.2.",
        ),
        (
            b'{"openapi": "3.1.0", "webhooks": {"paid": {}, "lost": {}}}',
            RefusedError,
            "WEBHOOKS_ONLY",
            "The document describes webhooks alone (paid, lost): requests that the vendor sends to you."
            " There is nothing in it that an agent could call. Ask the vendor for the document of its API.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isupper() else "",
)
def test_reasons_of_a_document_that_is_not_read(body, kind, code, message):
    with pytest.raises(kind) as caught:
        openapi_document.parse(body)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_notes_about_a_document():
    text = '{"openapi": "3.1.0", "a": 1, "a": 2, "paths": {%s}}'
    assert [(note.code, note.message) for note in openapi_document.parse((text % "").encode()).notes] == [
        ("DUPLICATE_KEY", "Keys stand twice in one object of the document (“a”); the last one counts.")
    ]
    elsewhere = {"/a": {"$ref": "a.yaml"}, "/b": {"$ref": 7}, "/c": {"$ref": "#/paths/~1d"}, "/d": {}}
    ending = "kept in other documents, which are never fetched; their operations are missing."
    assert [note.message for note in parsed(document(elsewhere)).notes] == [f"2 paths are {ending}"]
    assert [note.message for note in parsed(document({"/a": {"$ref": "#/no"}})).notes] == [
        f"1 path is {ending}"
    ]
    assert parsed(document({"/d": {}})).notes == []


@pytest.mark.parametrize(
    ("of_operation", "of_path", "of_document", "expected"),
    [
        (None, None, [{"url": "/v1"}], None),
        ([{"url": "/a"}], None, [{"url": "/v1"}], [{"url": "/a"}]),
        (None, [{"url": "/b"}], [{"url": "/v1"}], [{"url": "/b"}]),
        ([{"url": "/a"}], [{"url": "/b"}], None, [{"url": "/a"}]),
        ([{"url": "/v1"}], [{"url": "/b"}], [{"url": "/v1"}], None),
        ([], None, [{"url": "/v1"}], None),
    ],
)
def test_servers_of_an_operation(of_operation, of_path, of_document, expected):
    def with_servers(holder, servers):
        return holder if servers is None else {**holder, "servers": servers}

    path = with_servers({"get": with_servers(operation("a"), of_operation)}, of_path)
    parsed_document = parsed(with_servers(document({"/a": path}), of_document))
    assert parsed_document.own_servers(parsed_document.operations[0]) == expected
    cut_document = parsed_document.cut(parsed_document.operations[0])
    assert cut_document["paths"]["/a"]["get"].get("servers") == expected
    assert cut_document.get("servers") == of_document


def test_schemas_are_left_out_where_inputs_or_outputs_are_too_large():
    def schema(size, *names):
        fill = {"description": "x" * size}
        return fill | {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in names]}

    body = schema(1, "A", "B", "C", "D")
    reply = {"$ref": "#/components/schemas/E"}
    schemas = {
        "A": schema(120_000),
        "B": schema(120_000),
        "C": schema(120_000, "Below"),
        "D": schema(1_000),
        "Below": schema(1),
        "E": schema(60_000, "F", "A", "G"),
        "F": schema(60_000),
        "G": schema(1_000),
    }
    components = cut(
        operation(requestBody=takes(body), responses=answers(reply)), components={"schemas": schemas}
    )["components"]["schemas"]
    left_out = {openapi_document.LEFT_OUT: True, "description": openapi_document._TOO_LARGE["description"]}
    expected = {name: left_out if name in ("C", "F") else schemas[name] for name in "ABCDEFG"}
    assert components == expected
    assert list(components) == ["A", "B", "C", "D", "E", "F", "G"]


def test_parts_of_a_cut_document():
    schemes = {"key": {"$ref": "#/x-key"}, "other": {"type": "http"}}
    raw_document = document(
        {
            "/a/{id}": {
                "parameters": [named("id", "path"), named("q", description="of the path")],
                "post": operation(
                    "",
                    parameters=[named("q", description="own"), named("r")],
                    summary={"$ref": "#/components/examples/Text"},
                    security=[{"key": []}, {"missing": []}, 7],
                    example={"$ref": "#/kept"},
                    **{"x-note": {"$ref": "#/kept"}},
                ),
            }
        },
        components={"securitySchemes": schemes, "examples": {"Text": "Short"}},
        security=[{"other": []}],
        servers=[{"url": "/v1"}],
        **{"x-key": {"type": "apiKey"}},
    )
    assert cuts(raw_document) == {
        "POST:/a/(id)": {
            "openapi": "3.1.0",
            "info": {"title": "Test", "version": "1"},
            "paths": {
                "/a/{id}": {
                    "post": {
                        "responses": {"200": {"description": "Good"}},
                        "parameters": [named("id", "path"), named("q", description="own"), named("r")],
                        "summary": "Short",
                        "security": [{"key": []}, {"missing": []}, 7],
                        "example": {"$ref": "#/kept"},
                        "x-note": {"$ref": "#/kept"},
                    }
                }
            },
            "servers": [{"url": "/v1"}],
            "components": {"securitySchemes": {"key": {"type": "apiKey"}}},
        }
    }


@pytest.mark.parametrize(("revision", "summary"), [("3.0.3", "Far"), ("3.1.0", "Near")])
def test_texts_beside_a_reference_count_since_3_1(revision, summary):
    far = {"summary": "Far", "description": "Far", "content": {}}
    op = {"requestBody": {"$ref": "#/components/requestBodies/B", "summary": "Near", "content": 7}}
    raw_document = document({"/a": {"put": op}}, openapi=revision, components={"requestBodies": {"B": far}})
    (only,) = cuts(raw_document).values()
    assert only["paths"]["/a"]["put"]["requestBody"] == far | {"summary": summary}


def test_suspect_documents_lose_single_operations():
    text = json.dumps(document({"/a": {"get": {"summary": "?"}}, "/b": {"get": {"summary": "fine"}}}))
    parsed_document = openapi_document.parse(text.replace('"?"', r'"\ud800"').encode())
    bad, good = parsed_document.operations
    with pytest.raises(UnreadableItemError) as caught:
        parsed_document.cut(bad)
    assert caught.value.reason.startswith("The operation holds ")
    assert parsed_document.cut(good)["paths"]["/b"]["get"] == {"summary": "fine"}


def test_schema_of_items_in_a_stream_keeps_its_reference():
    row = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Row"}}}
    stream = {"application/jsonl": {"itemSchema": {"$ref": "#/components/schemas/Row"}}}
    op = operation(responses={"200": {"description": "Rows", "content": stream}})

    own = cut(op, components={"schemas": {"Row": row}})

    assert own["paths"]["/things"]["post"]["responses"]["200"]["content"] == stream
    assert own["components"]["schemas"] == {"Row": row}
