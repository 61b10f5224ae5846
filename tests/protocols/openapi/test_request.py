"""Requests are built according to the document, and replies are read by their media type."""

import json
from email.parser import BytesParser
from email.policy import HTTP
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.outbound.errors import ProtocolViolationError, RefusedError
from core.outbound.reply import Reply
from protocols.openapi import multipart
from protocols.openapi import request as openapi_request
from protocols.openapi.request import UnusableArgumentError
from tests.protocols.openapi.documents import answers, operation, read_signature, takes

COLORS = ["blue", "black", "brown"]
POINT = {"R": 100, "G": 200, "B": 150}


def parameter(name, place="query", **members):
    return {"name": name, "in": place, "schema": {}, **members}


def built(described, value, path="/x", **op):
    cut_document = read_signature(operation("a", parameters=[described], **op), path, "get")
    return openapi_request.build(cut_document, {described["name"]: value})


# The table of https://spec.openapis.org/oas/v3.1.1.html#style-examples
PATHS = [
    ("simple", False, "blue", "blue"),
    ("simple", False, COLORS, "blue,black,brown"),
    ("simple", False, POINT, "R,100,G,200,B,150"),
    ("simple", True, COLORS, "blue,black,brown"),
    ("simple", True, POINT, "R=100,G=200,B=150"),
    ("label", False, "blue", ".blue"),
    ("label", False, COLORS, ".blue,black,brown"),
    ("label", False, POINT, ".R,100,G,200,B,150"),
    ("label", True, COLORS, ".blue.black.brown"),
    ("label", True, POINT, ".R=100.G=200.B=150"),
    ("matrix", False, "blue", ";color=blue"),
    ("matrix", False, COLORS, ";color=blue,black,brown"),
    ("matrix", False, POINT, ";color=R,100,G,200,B,150"),
    ("matrix", True, COLORS, ";color=blue;color=black;color=brown"),
    ("matrix", True, POINT, ";R=100;G=200;B=150"),
]
QUERIES = [
    ("form", False, "blue", "color=blue"),
    ("form", False, "", "color="),
    ("form", False, COLORS, "color=blue,black,brown"),
    ("form", False, POINT, "color=R,100,G,200,B,150"),
    ("form", True, COLORS, "color=blue&color=black&color=brown"),
    ("form", True, POINT, "R=100&G=200&B=150"),
    ("form", True, [], ""),
    ("form", False, [], ""),
    ("spaceDelimited", False, COLORS, "color=blue%20black%20brown"),
    ("spaceDelimited", False, POINT, "color=R%20100%20G%20200%20B%20150"),
    ("spaceDelimited", True, COLORS, "color=blue&color=black&color=brown"),
    ("pipeDelimited", False, COLORS, "color=blue%7Cblack%7Cbrown"),
    ("pipeDelimited", False, POINT, "color=R%7C100%7CG%7C200%7CB%7C150"),
    ("deepObject", True, POINT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ("deepObject", True, {"a": {"b": [1, 2]}}, "color%5Ba%5D%5Bb%5D%5B%5D=1&color%5Ba%5D%5Bb%5D%5B%5D=2"),
]


@pytest.mark.parametrize(("style", "explode", "value", "expected"), PATHS)
def test_path_is_expanded_in_every_style(style, explode, value, expected):
    described = parameter("color", "path", style=style, explode=explode, required=True)
    assert built(described, value, "/x/{color}/y").path == f"/x/{expected}/y"


@pytest.mark.parametrize(("style", "explode", "value", "expected"), QUERIES)
def test_query_is_written_in_every_style(style, explode, value, expected):
    assert built(parameter("color", style=style, explode=explode), value).query == expected


def test_query_of_no_style_is_an_exploded_form():
    assert built(parameter("color"), COLORS).query == "color=blue&color=black&color=brown"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (0.5, "0.5"),
        ("ä&=+ #", "%C3%A4%26%3D%2B%20%23"),
        ([None], ""),
    ],
)
def test_values_are_written_as_json_says_them(value, expected):
    assert built(parameter("p"), value).query == f"p={expected}"


def test_reserved_characters_stay_where_the_vendor_allows_them():
    assert built(parameter("p", allowReserved=True), "a/b?c&d=e#f").query == "p=a/b?c%26d%3De%23f"
    assert built(parameter("p"), "a/b?").query == "p=a%2Fb%3F"


def test_parameter_of_a_media_type_travels_as_json():
    described = {"name": "p", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}
    assert unquote(built(described, {"a": [1]}).query) == 'p={"a":[1]}'


@pytest.mark.parametrize(
    ("explode", "value", "expected"),
    [
        (False, "a b", "a b"),
        (False, COLORS, "blue,black,brown"),
        (False, POINT, "R,100,G,200,B,150"),
        (True, POINT, "R=100,G=200,B=150"),
        (False, 5, "5"),
    ],
)
def test_headers_are_simple(explode, value, expected):
    assert built(parameter("X-A", "header", explode=explode), value).headers["X-A"] == expected


def test_cookies_go_into_one_header():
    parameters = [parameter("a", "cookie"), parameter("b", "cookie", explode=False)]
    signature_read = read_signature(operation("a", parameters=parameters))
    assert (
        openapi_request.build(signature_read, {"a": "x;y", "b": [1, 2]}).headers["Cookie"] == "a=x%3By; b=1,2"
    )


def test_what_was_not_given_is_not_sent():
    signature_read = read_signature(operation("a", parameters=[parameter("p"), parameter("X-A", "header")]))
    call = openapi_request.build(signature_read, {"p": None})
    assert (call.query, call.headers, call.content) == ("", {}, None)


def test_path_argument_must_not_be_empty():
    described = parameter("id", "path")
    with pytest.raises(UnusableArgumentError) as caught:
        built(described, "", "/x/{id}")
    assert caught.value.name == "id"


def test_value_in_the_path_never_leaves_its_place():
    assert built(parameter("id", "path"), "../a?b#c/d%", "/x/{id}").path == "/x/..%2Fa%3Fb%23c%2Fd%25"
    assert built(parameter("id", "path"), "{x}", "/x/{id}/{id}").path == "/x/%7Bx%7D/%7Bx%7D"


def test_fixed_query_of_a_path_is_kept_and_a_fragment_is_not():
    signature_read = read_signature(operation("a", parameters=[parameter("p")]), "/x?action=do#frag")
    call = openapi_request.build(signature_read, {"p": "1"})
    assert (call.path, call.query) == ("/x", "action=do&p=1")


def build_request(schema, arguments, media="application/json", **media_members):
    op = operation("a", requestBody=takes(schema, media, **media_members))
    return openapi_request.build(read_signature(op), arguments)


MEMBERS = {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}}


def test_members_become_a_json_object():
    call = build_request(MEMBERS, {"a": [1, None], "b": {"x": "ü"}, "c": None})
    assert json.loads(call.content) == {"a": [1, None], "b": {"x": "ü"}, "c": None}
    assert call.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("media", "content"),
    [("application/json", b'{"a":null}'), ("application/x-www-form-urlencoded", b"")],
)
def test_null_is_sent_where_a_member_takes_it_and_the_body_can_say_it(media, content):
    members = {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}}
    call = build_request({"type": "object", "properties": members}, {"a": None, "b": None}, media)
    assert call.content == content


def test_null_is_sent_where_it_means_something():
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}}
    assert json.loads(build_request(schema, {"a": None, "b": None}).content) == {"a": None}


def test_required_body_is_sent_even_if_it_is_empty():
    assert build_request(MEMBERS, {}).content == b"{}"


def test_optional_body_is_left_out_when_nothing_was_given():
    op = operation("a", requestBody=takes(MEMBERS, required=False))
    assert openapi_request.build(read_signature(op), {}).content is None


def test_renamed_inputs_go_back_to_their_places():
    op = operation(
        "a",
        parameters=[parameter("id"), parameter("body")],
        requestBody=takes({"type": "object", "properties": {"id": {}}}),
    )
    call = openapi_request.build(read_signature(op), {"id": "q", "body_id": "b", "body": "x"})
    assert (call.query, json.loads(call.content)) == ("id=q&body=x", {"id": "b"})


@pytest.mark.parametrize("value", [[1, 2], "text", 5, False, {"free": 1}])
def test_whole_body_is_sent_as_it_is(value):
    call = build_request({"oneOf": [{}]}, {"body": value})
    assert json.loads(call.content) == value


@pytest.mark.parametrize(
    ("media", "header"),
    [
        ("application/merge-patch+json", "application/merge-patch+json"),
        ("application/json; charset=utf-8", "application/json; charset=utf-8"),
        ("*/*", "application/json"),
    ],
)
def test_body_says_what_it_is(media, header):
    assert build_request(MEMBERS, {"a": 1}, media).headers["Content-Type"] == header


def test_plain_text_is_sent_as_text():
    assert build_request({"type": "string"}, {"body": "ü"}, "text/plain").content == "ü".encode()


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("value", "encoding", "expected"),
    [
        ("a b&c", {}, "a=a%20b%26c"),
        ([1, 2], {}, "a=1&a=2"),
        ([1, 2], {"a": {"explode": False}}, "a=1,2"),
        ({"x": 1}, {}, "a=%7B%22x%22%3A1%7D"),
        ([{"x": 1}], {}, "a=%5B%7B%22x%22%3A1%7D%5D"),
        ({"x": {"y": 1}}, {"a": {"style": "deepObject", "explode": True}}, "a%5Bx%5D%5By%5D=1"),
        ({"x": 1}, {"a": {"style": "form"}}, "x=1"),
        ([1, 2], {"a": {"style": "deepObject", "explode": True}}, "a=1&a=2"),
    ],
)
def test_form_is_written_as_its_encoding_says(value, encoding, expected):
    assert build_request(MEMBERS, {"a": value}, FORM, encoding=encoding).content.decode() == expected


UPLOAD = {
    "type": "object",
    "required": ["photo"],
    "properties": {
        "photo": {"type": "string", "format": "binary"},
        "pages": {"type": "array", "items": {"type": "string", "contentMediaType": "text/csv"}},
        "title": {"type": "string"},
        "size": {"type": "integer"},
        "place": {"type": "object"},
    },
}


def parts(call):
    """Return the parts as a server reads them: name, file name, media type and content."""
    head = f"Content-Type: {call.headers['Content-Type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + call.content)
    assert not message.defects
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part.get_content_type() if "content-type" in part else None,
            part.get_payload(decode=True),
        )
        for part in message.iter_parts()
    ]


def test_files_and_fields_go_as_parts_of_a_multipart_body():
    arguments = {
        "photo": "data:image/png;base64,iVBORw0KGgo=",
        "pages": ["a,b", "c,d"],
        "title": "Bent rim, ø 622",
        "size": 7,
        "place": {"row": 1},
    }
    call = build_request(UPLOAD, arguments, "multipart/form-data")
    octets = "application/octet-stream"
    assert parts(call) == [
        ("photo", "photo", "image/png", b"\x89PNG\r\n\x1a\n"),
        ("pages", "pages", octets, b"a,b"),
        ("pages", "pages", octets, b"c,d"),
        ("title", None, None, "Bent rim, ø 622".encode()),
        ("size", None, None, b"7"),
        ("place", None, "application/json", b'{"row":1}'),
    ]
    encoding = {"photo": {"contentType": "image/webp"}, "pages": {"contentType": "a, b"}}
    parts_named = parts(build_request(UPLOAD, arguments, "multipart/form-data", encoding=encoding))
    assert [media for _, _, media, _ in parts_named[:2]] == ["image/webp", octets]


@pytest.mark.parametrize(
    "schema",
    [
        {**UPLOAD, "additionalProperties": True},
        {"allOf": [{"$ref": "#/components/schemas/Upload"}, {"required": ["photo"]}]},
        {"oneOf": [{"type": "object"}, {"$ref": "#/components/schemas/Upload"}]},
        {"$ref": "#/components/schemas/Upload", "description": "A photo."},
        {"type": "object", "additionalProperties": {"type": "string", "format": "binary"}},
        {**UPLOAD, "properties": {"photo": {"anyOf": [{"type": "null"}, {"format": "binary"}]}}},
    ],
)
@pytest.mark.parametrize("required", [True, False])
def test_files_are_found_in_every_multipart_body(schema, required):
    op = operation("a", requestBody={**takes(schema, "multipart/form-data"), "required": required})
    signature_read = read_signature(op, components={"schemas": {"Upload": UPLOAD}})
    arguments = {"photo": "data:image/png;base64,iVBORw0KGgo="}
    is_taken_apart = signature_read.inputs[0].name == "photo"
    call = openapi_request.build(signature_read, arguments if is_taken_apart else {"body": arguments})
    assert parts(call) == [("photo", "photo", "image/png", b"\x89PNG\r\n\x1a\n")]


@pytest.mark.parametrize(
    ("url", "media", "content"),
    [
        ("data:text/csv;charset=utf-8;name=a.txt;base64,YSxi", "text/csv", b"a,b"),
        ("DATA:;base64,YSxi", "application/octet-stream", b"a,b"),
        ("data:text/csv;charset=utf-8,a%2Cb", "text/csv", b"a,b"),
        ("dates,data:", "application/octet-stream", b"dates,data:"),
    ],
)
def test_a_data_url_stands_for_what_it_holds(url, media, content):
    assert parts(build_request(UPLOAD, {"photo": url}, "multipart/form-data")) == [
        ("photo", "photo", media, content)
    ]


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,no base64!", "data:image;base64,YSxi", "data: 5 rows", "data:a/b;c,YSxi"]
)
@pytest.mark.parametrize(("required", "fault"), [(True, "photo"), (False, "body")])
def test_file_that_cannot_be_read_is_the_inputs_fault(url, required, fault):
    op = operation("a", requestBody=takes(UPLOAD, "multipart/form-data", required=required))
    arguments = {"photo": url}
    with pytest.raises(UnusableArgumentError, match="data URL") as refused:
        openapi_request.build(read_signature(op), arguments if required else {"body": arguments})
    assert refused.value.name == fault


@given(name=st.text(min_size=1, max_size=20).filter(lambda name: name != "last"), text=st.text())
def test_no_value_ends_its_part(name, text):
    boundary, content = multipart.encode({name: text, "last": "1"}, set(), {})
    assert content.count(f"--{boundary}".encode()) == 3
    assert content.endswith(f"\r\n1\r\n--{boundary}--\r\n".encode())
    assert content.count(b"Content-Disposition") == 2 + text.count("Content-Disposition") + name.count(
        "Content-Disposition"
    )


def test_lines_of_json_are_sent_and_read():
    call = build_request({"type": "array"}, {"body": [{"a": 1}, "two", None]}, "application/x-ndjson")
    assert (call.headers["Content-Type"], call.content) == (
        "application/x-ndjson",
        b'{"a":1}\n"two"\nnull\n',
    )
    assert read_outputs(call.content + b"\n", "application/x-ndjson") == (
        {"result": [{"a": 1}, "two", None]},
        [],
    )
    with pytest.raises(ProtocolViolationError):
        read_outputs(b'{"a":1}\n{"a":', "application/jsonl")
    with pytest.raises(ProtocolViolationError):
        read_outputs(b"1\n" * (openapi_request.MAX_LINES + 1), "application/x-ndjson")


def test_number_that_json_cannot_carry_is_refused():
    with pytest.raises(RefusedError) as caught:
        build_request(MEMBERS, {"a": float("nan")})
    assert caught.value.code == "NUMBER"


ROOT = "https://api.example.com/docs/openapi.json"


@pytest.mark.parametrize(
    ("servers", "base"),
    [
        (None, "https://api.example.com/"),
        ([], "https://api.example.com/"),
        ([{"url": "/v1"}], "https://api.example.com/v1"),
        ([{"url": "v1"}], "https://api.example.com/docs/v1"),
        ([{"url": "../v1"}], "https://api.example.com/v1"),
        ([{"url": "https://api.example.com/v2/"}, {"url": "/v1"}], "https://api.example.com/v2/"),
        ([{"url": "https://API.example.com:443/v2"}], "https://API.example.com:443/v2"),
        ([{"url": "/{v}", "variables": {"v": {"default": "v3"}}}], "https://api.example.com/v3"),
        ([{"url": "/v1?x=1#y"}], "https://api.example.com/v1"),
        (5, "https://api.example.com/"),
    ],
)
def test_calls_go_where_the_document_says_on_its_own_server(servers, base):
    assert openapi_request.base_of({"servers": servers}, ROOT) == base


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example/v1",
        "//elsewhere.example",
        "http://api.example.com/v1",
        "https://api.example.com:8443/v1",
        "https://api.example.com@elsewhere.example/",
        "https://[broken",
        "https://api.example.com:99999/",
    ],
)
def test_document_cannot_send_calls_to_another_server(url):
    with pytest.raises(RefusedError) as caught:
        openapi_request.base_of({"servers": [{"url": url}]}, ROOT)
    assert caught.value.code == "SERVER"
    assert "Address for calls" in caught.value.message


def read_outputs(body, kind="application/json", schema=None):
    signature_read = read_signature(
        operation("a", responses=answers(schema or {"type": "object", "properties": {"a": {}}}))
    )
    return openapi_request.outputs_in(Reply(200, {"content-type": kind}, body, ROOT), signature_read)


@pytest.mark.parametrize(
    ("body", "kind", "schema", "outputs"),
    [
        (b'{"a": 1, "b": 2}', "application/json", None, {"a": 1, "b": 2}),
        (b'{"a": 1}', "application/hal+json; charset=utf-8", None, {"a": 1}),
        (b'{"a": 1}', "", None, {"a": 1}),
        (b"[1]", "application/json", None, {"result": [1]}),
        (b"[1]", "application/json", {"type": "array"}, {"result": [1]}),
        (b'{"a": 1}', "application/json", {"oneOf": [{}]}, {"result": {"a": 1}}),
        (b"hello", "text/plain", None, {"result": "hello"}),
        (b"<a/>", "application/xml", None, {"result": "<a/>"}),
    ],
)
def test_outputs_are_what_the_reply_says(body, kind, schema, outputs):
    assert read_outputs(body, kind, schema) == (outputs, [])


@pytest.mark.parametrize(
    ("body", "kind", "code"), [(b"", "", "EMPTY_REPLY"), (b"\x89PNG", "image/png", "BINARY_REPLY")]
)
def test_reply_without_outputs_is_noted(body, kind, code):
    outputs, notes = read_outputs(body, kind)
    assert (outputs, [note.code for note in notes]) == ({}, [code])


def test_reply_that_claims_to_be_json_and_is_not_is_a_violation():
    with pytest.raises(ProtocolViolationError):
        read_outputs(b"{")


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(texts, st.lists(texts, min_size=1))
def test_any_text_arrives_as_it_was_sent(text, several):
    op = operation("a", parameters=[parameter("id", "path"), parameter("p"), parameter("q", explode=False)])
    call = openapi_request.build(read_signature(op, "/x/{id}"), {"id": text, "p": several, "q": several})
    assert unquote(call.path) == f"/x/{text}"
    given_back = parse_qsl(call.query, keep_blank_values=True, separator="&")
    assert [value for name, value in given_back if name == "p"] == several
    raw = call.query.rpartition("q=")[2]
    assert [unquote(part) for part in raw.split(",")] == several


AMBIGUOUS = [
    parameter("v", style="pipeDelimited", explode=False),
    parameter("v", style="spaceDelimited", explode=False),
    parameter("v", "header"),
    parameter("v", "header", explode=True),
    parameter("v", "path", style="label", explode=True, required=True),
]


@pytest.mark.parametrize("place", ["query", "cookie"])
def test_a_member_of_an_object_that_is_another_parameter_is_refused(place):
    op = operation("a", parameters=[parameter("v", place), parameter("zip", place)])
    with pytest.raises(UnusableArgumentError) as refused:
        openapi_request.build(read_signature(op, "/x"), {"v": {"zip": "1"}})
    assert refused.value.name == "v"
    assert openapi_request.build(read_signature(op, "/x"), {"v": {"city": "1"}, "zip": "2"})


@pytest.mark.parametrize("described", AMBIGUOUS)
@pytest.mark.parametrize("value", [["{}", "x"], {"{}": 1}, {"a": "{}"}, {"a": ["{}"]}])
def test_a_value_that_holds_the_delimiter_of_its_style_is_refused(described, value):
    delimiter = {"pipeDelimited": "|", "spaceDelimited": " ", "label": "."}.get(described.get("style"), ",")
    sent_value = json.loads(json.dumps(value).replace("{}", f"a{delimiter}b"))

    with pytest.raises(UnusableArgumentError) as refused:
        built(described, sent_value, "/x/{v}" if described["in"] == "path" else "/x")

    assert refused.value.name == "v"


@pytest.mark.parametrize(
    ("described", "value", "query"),
    [
        (parameter("v", explode=False, allowReserved=True), ["a,b", "c"], "v=a%2Cb,c"),
        (parameter("v", explode=False, allowReserved=True), {"a": "1,b"}, "v=a,1%2Cb"),
        (parameter("v", explode=True, allowReserved=True), ["a,b&c"], "v=a,b%26c"),
        (parameter("v", allowReserved=True), "a,b", "v=a,b"),
        (parameter("v", style="pipeDelimited", explode=True), ["a|b"], "v=a%7Cb"),
        (parameter("v", style="pipeDelimited"), "a|b", "v=a%7Cb"),
        (parameter("v", explode=False), ["a,b"], "v=a%2Cb"),
    ],
)
def test_a_delimiter_that_can_be_escaped_is(described, value, query):
    assert built(described, value).query == query


def test_a_member_whose_name_holds_brackets_is_no_deep_object():
    with pytest.raises(UnusableArgumentError):
        built(parameter("v", style="deepObject", explode=True), {"a][b": 1})


@pytest.mark.parametrize("explode", [False, True])
def test_no_value_of_a_cookie_ends_the_cookie(explode):
    described = parameter("v", "cookie", explode=explode, allowReserved=True)
    cookie = built(described, ["a;b=1", "c,d&e"]).headers["Cookie"]
    parts = [part.partition("=")[2] for part in cookie.split("; ")] if explode else cookie[2:].split(",")
    assert list(map(unquote, parts)) == ["a;b=1", "c,d&e"]


def test_a_header_object_of_pairs_takes_no_name_with_an_equals_sign():
    with pytest.raises(UnusableArgumentError):
        built(parameter("v", "header", explode=True), {"a=b": 1})


def test_a_form_body_refuses_a_delimiter_by_the_name_of_the_input():
    schema = {"type": "object", "properties": {"ids": {"type": "array"}}}
    media = {"encoding": {"ids": {"style": "pipeDelimited", "explode": False}}}
    body = takes(schema, "application/x-www-form-urlencoded", **media)
    with pytest.raises(UnusableArgumentError) as refused:
        openapi_request.build(read_signature(operation("a", requestBody=body)), {"ids": ["a|b", "c"]})
    assert refused.value.name == "ids"


@pytest.mark.parametrize(
    ("schema", "value", "query"),
    [
        ({"type": "integer"}, 5.0, "v=5"),
        ({"type": "integer"}, 1e2, "v=100"),
        ({"type": "array", "items": {"type": "integer"}}, [5.0, 1e2], "v=5&v=100"),
        ({"type": "number"}, 5.5, "v=5.5"),
        ({"type": "integer"}, 1e20, "v=100000000000000000000"),
    ],
)
def test_a_number_with_a_zero_fraction_goes_out_as_a_whole_number(schema, value, query):
    assert built(parameter("v", schema=schema), value).query == query


@pytest.mark.parametrize(
    ("scheme", "described"),
    [
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, parameter("x-key", "header", required=True)),
        ({"type": "apiKey", "in": "query", "name": "key"}, parameter("key", required=True)),
        ({"type": "apiKey", "in": "cookie", "name": "sid"}, parameter("sid", "cookie", required=True)),
        ({"type": "http", "scheme": "bearer"}, parameter("authorization", "header", required=True)),
    ],
)
@pytest.mark.parametrize("ways", [[{"k": []}], [{"other": []}, {"k": []}], [{}, {"k": []}]])
def test_a_parameter_that_carries_the_credential_is_no_input(scheme, described, ways):
    signature_read = read_signature(
        operation("a", parameters=[described, parameter("q")], security=ways),
        components={"securitySchemes": {"k": scheme}},
    )
    assert [parameter.name for parameter in signature_read.inputs] == ["q"]
    call = openapi_request.build(signature_read, {"q": "x", described["name"]: "made-up"})
    assert "made-up" not in f"{call.query}{call.headers}"


@pytest.mark.parametrize(
    ("scheme", "security"),
    [
        ({"type": "apiKey", "in": "query", "name": "Key"}, [{"k": []}]),
        ({"type": "apiKey", "in": "header", "name": "key"}, [{"k": []}]),
        ({"type": "apiKey", "in": "query", "name": "key"}, []),
    ],
)
def test_a_parameter_that_only_resembles_the_credential_is_an_input(scheme, security):
    op = operation("a", parameters=[parameter("key")], security=security)
    signature_read = read_signature(op, components={"securitySchemes": {"k": scheme}})
    assert [parameter.name for parameter in signature_read.inputs] == ["key"]
