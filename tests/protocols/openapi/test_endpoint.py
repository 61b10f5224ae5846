"""Reading and running an API over real HTTP."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from catalog import invariants
from catalog.credentials import operations as credential_operations
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Rejection, Tool
from catalog.models.runs import Trigger
from catalog.rules import diff
from catalog.vendors import operations as vendor_operations
from core import strict_json
from core.outbound.addresses import Policy
from core.outbound.errors import ProtocolViolationError, RefusedError
from core.outbound.session import HttpSession
from protocols.list_pages import NoKnownPages
from protocols.openapi import contents
from protocols.openapi import signature as openapi_signature
from protocols.openapi.client import OpenApi
from tests.factories import make_endpoint, make_user
from tests.protocols.openapi.documents import answers, cut, document, operation, parsed, takes
from tests.scripted import Exchange, ScriptedSession


class Api:
    """Serves its document and remembers what it was asked; calls get `reply`, or `statuses` one by one."""

    def __init__(self):
        self.document = document({})
        self.etag = ""
        self.asked = []
        self.statuses = []
        self.reply = (200, "application/json", b'{"done": true}')
        self.url = ""

    def answer(self, handler):
        size = int(handler.headers.get("Content-Length", 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.asked.append((handler.command, handler.path, handler.rfile.read(size), headers))
        if handler.path != "/openapi.json":
            status, kind, body = self.reply
            return (self.statuses.pop(0) if self.statuses else status), kind, body
        if self.etag and headers.get("if-none-match") == self.etag:
            return 304, "application/json", b""
        return 200, "application/json", json.dumps(self.document).encode()


def handler_of(api):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            status, kind, body = api.answer(self)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if api.etag:
                self.send_header("ETag", api.etag)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_OPTIONS = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the standard library names them

        def log_message(self, *args):
            """Quiet."""

    return Handler


def serve():
    api = Api()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(api))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    yield api
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def api():
    yield from serve()


@pytest.fixture
def elsewhere():
    yield from serve()


def session_with(api, **more):
    return HttpSession(f"{api.url}/openapi.json", policy=Policy.parse("127.0.0.1/32"), **more)


def call_operation(api, op, arguments=None, *, method="post", path="/things", settings=None, **members):
    cut_document = cut(op, path, method, **members)
    protocol = OpenApi(settings)
    with session_with(api, authorization={"X-Key": "s3cr3t-word"}) as session:
        return protocol.invoke(
            session, "a", None, openapi_signature.read_signature(cut_document), arguments or {}
        )


@pytest.mark.parametrize("method", ["get", "head", "options", "post", "put", "patch", "delete"])
def test_every_method_is_sent(api, method):
    body = {"requestBody": takes({"properties": {"x": {}}})} if method in ("post", "put", "patch") else {}
    outcome = call_operation(api, operation("a", **body), {"x": 1} if body else {}, method=method)
    assert outcome.outcome == "ok"
    ((sent_method, path, content, headers),) = api.asked
    assert (sent_method, path) == (method.upper(), "/things")
    assert content == (b'{"x":1}' if body else b"")
    assert headers["x-key"] == "s3cr3t-word"
    assert dict(outcome.outputs) == ({} if method == "head" else {"done": True})


@pytest.mark.parametrize(
    ("method", "times"), [("get", 2), ("head", 2), ("options", 2), ("post", 1), ("delete", 1)]
)
def test_only_what_reads_is_tried_again(api, method, times):
    api.statuses = [503] * 10
    api.statuses[1] = 200
    outcome = call_operation(api, operation("a"), method=method)
    assert len(api.asked) == times
    assert outcome.outcome == ("ok" if times == 2 else "unavailable")


def test_calls_go_to_the_address_that_was_entered_and_the_credential_stays_at_its_own(api, elsewhere):
    outcome = call_operation(api, operation("a"), settings={"server": f"{elsewhere.url}/v1/"})
    assert outcome.outcome == "ok"
    assert not api.asked
    ((_, path, _, headers),) = elsewhere.asked
    assert path == "/v1/things"
    assert "x-key" not in headers


def test_document_cannot_send_a_call_elsewhere(api, elsewhere):
    outcome = call_operation(api, operation("a"), servers=[{"url": elsewhere.url}])
    assert (outcome.outcome, outcome.error["code"]) == ("refused", "SERVER")
    assert not elsewhere.asked


def test_uploaded_document_is_called_at_the_address_of_the_endpoint(api):
    api_document = document({"/a": {"get": operation("a")}}, servers=[{"url": "https://elsewhere.example"}])
    protocol = OpenApi({"document": json.dumps(api_document)})
    with HttpSession(f"{api.url}/v2", policy=Policy.parse("127.0.0.1/32")) as session:
        ((item,),) = [page.items for page in protocol.enumerate(session, NoKnownPages())]
        outcome = protocol.invoke(session, "a", None, protocol.read(item.document), {})
    assert outcome.outcome == "ok"
    assert [path for _, path, _, _ in api.asked] == ["/v2/a"]


@pytest.mark.parametrize(
    ("reply", "outcome", "code"),
    [
        ((400, "application/json", b'{"message": "no"}'), "invalid_arguments", "HTTP_400"),
        ((401, "application/json", b"{}"), "needs_authorization", "AUTH"),
        ((404, "application/json", b'{"detail": "no order 7"}'), "tool_error", "HTTP_404"),
        ((410, "text/plain", b"gone"), "tool_error", "HTTP_410"),
        ((418, "text/plain", b"teapot"), "tool_error", "HTTP_418"),
        ((429, "text/plain", b""), "unavailable", "RATE_LIMITED"),
        ((500, "text/plain", b""), "unavailable", "HTTP_500"),
        ((302, "text/plain", b""), "refused", "REDIRECT"),
        ((200, "application/json", b"{"), "tool_error", "JSON_SYNTAX"),
    ],
)
def test_replies_become_outcomes(api, reply, outcome, code):
    api.reply = reply
    result = call_operation(api, operation("a"))
    assert (result.outcome, result.error["code"]) == (outcome, code)


@pytest.mark.parametrize(
    ("kind", "body", "outputs"),
    [
        ("application/problem+json", b'{"detail": "no order 7"}', {"body": {"detail": "no order 7"}}),
        ("text/plain", b"no order 7", {"body": "no order 7"}),
        ("image/png", b"\x89PNG", {}),
        ("text/plain", b"", {}),
    ],
)
def test_record_that_is_missing_is_the_tools_own_answer(api, kind, body, outputs):
    api.reply = (404, kind, body)
    result = call_operation(api, operation("a"), {"id": "7"}, path="/orders/{id}")
    assert (result.outcome, result.outputs) == ("tool_error", outputs)
    assert len(api.asked) == 1


@pytest.mark.parametrize("value", [".", ".."])
def test_argument_cannot_lead_out_of_the_path(api, value):
    outcome = call_operation(api, operation("a"), {"id": value}, path="/things/{id}")
    assert outcome.outcome == "refused"
    assert not api.asked


def test_argument_that_breaks_a_header_is_not_sent(api):
    op = operation("a", parameters=[{"name": "X-A", "in": "header", "schema": {"type": "string"}}])
    assert call_operation(api, op, {"X-A": "a\r\nHost: x"}).outcome == "refused"
    assert not api.asked


def many(count, **members):
    return {f"/t{n}": {"get": operation(f"t{n}", **members)} for n in range(count)}


def pages(document_body, settings=None):
    session = ScriptedSession(Exchange(body=document_body))
    return list(OpenApi(settings).enumerate(session, NoKnownPages()))


def test_address_that_needs_its_last_slash_is_asked_with_it():
    document_body = document({"/a": {"get": operation("a")}})
    session = ScriptedSession(Exchange(status=404), Exchange(path="/", body=document_body))
    assert [len(page.items) for page in OpenApi().enumerate(session, NoKnownPages())] == [1]


def test_address_that_holds_nothing_is_told_as_it_was_entered():
    session = ScriptedSession(Exchange(status=404), Exchange(path="/", status=403))
    with pytest.raises(RefusedError) as caught:
        next(OpenApi().enumerate(session, NoKnownPages()))
    assert caught.value.code == "NOT_FOUND"


def test_pages_of_a_hundred_are_cut_from_one_reply():
    listed_pages = pages(document(many(250)))
    assert [len(page.items) for page in listed_pages] == [100, 100, 50]
    assert [page.next for page in listed_pages] == ["100", "200", None]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["a", "b", "c", "d"]),
        ({"include_tags": ["BOOKS"]}, ["a", "b"]),
        ({"include_tags": ["books"], "include_methods": ["post"]}, ["b"]),
        ({"exclude_tags": ["books"]}, ["c", "d"]),
        ({"include_paths": ["/books"]}, ["a", "b"]),
        ({"include_paths": ["/books/"]}, ["a", "b"]),
        ({"include_paths": ["/book"]}, []),
        ({"include_paths": ["/*/x"]}, ["c"]),
        ({"include_paths": ["/"]}, ["a", "b", "c", "d"]),
        ({"exclude_paths": ["/loans", "/books/{id}"]}, ["a"]),
        ({"include_paths": ["[a-z]", "?"]}, []),
    ],
)
def test_only_what_is_included_is_read(settings, expected):
    paths = {
        "/books": {"get": operation("a", tags=["books", "x"])},
        "/books/{id}": {"post": operation("b", tags=["books"])},
        "/loans/x/y": {"get": operation("c", tags=["loans"])},
        "/loans": {"get": operation("d")},
    }
    assert [item.tool_id for page in pages(document(paths), settings) for item in page.items] == expected


def test_what_is_excluded_changes_no_id():
    paths = {"/a": {"get": operation("same"), "post": operation("same")}}
    (page,) = pages(document(paths), {"include_methods": ["GET"]})
    assert [item.tool_id for item in page.items] == ["GET:/a"]


def test_new_version_of_the_whole_document_is_none_of_its_operations():
    before = document({"/a": {"get": operation("a")}})
    after = {**before, "info": {"title": "Test", "version": "2"}}
    assert [page.items[0].digest for page in pages(before)] == [page.items[0].digest for page in pages(after)]


def test_kind_of_an_operation_is_its_method():
    assert OpenApi().kind_of(cut(operation("a"), method="patch")) == "PATCH"


@pytest.mark.parametrize(
    ("settings", "url"), [({}, "https://a.example/x"), ({"server": "https://b.example"}, "https://b.example")]
)
def test_credential_belongs_to_where_calls_go(settings, url):
    assert OpenApi.credential_url("https://a.example/x", settings) == url


def run(endpoint):
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("etag", ["", '"v1"', 'W/"v1"'])
def test_unchanged_document_is_not_read_again(api, etag):
    api.document, api.etag = document(many(150)), etag
    endpoint = make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json")
    first, second = run(endpoint), run(endpoint)
    assert (first.status, first.added, first.pages) == ("succeeded", 150, 2)
    assert (second.status, second.unchanged, second.pages) == ("succeeded", 150, 2)
    assert api.asked[-1][3].get("if-none-match", "") == etag
    assert len(api.asked) == 2


@pytest.mark.django_db(transaction=True)
def test_changed_operation_is_a_new_version_and_the_others_stay(api):
    api.document, api.etag = document(many(150)), '"v1"'
    endpoint = make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json")
    run(endpoint)
    api.etag = '"v2"'
    api.document["paths"]["/t7"]["get"]["parameters"] = [{"name": "q", "in": "query", "schema": {}}]
    del api.document["paths"]["/t149"]
    second = run(endpoint)
    assert (second.changed, second.unchanged, second.withdrawn) == (1, 148, 1)
    assert Tool.objects.get(endpoint=endpoint, tool_id="t7").versions.count() == 2


@pytest.mark.django_db(transaction=True)
def test_page_with_a_bad_operation_is_read_again_without_losing_the_rest(api):
    api.document, api.etag = document({**many(3), "/bad": {"get": operation("bad", tags=5)}}), '"v1"'
    endpoint = make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json")
    first, second = run(endpoint), run(endpoint)
    assert [(run.added, run.unchanged, run.rejected) for run in (first, second)] == [(3, 0, 1), (0, 3, 1)]
    assert {rejection.tool for rejection in Rejection.objects.filter(run=second)} == {"bad"}


@pytest.mark.django_db(transaction=True)
def test_a_document_of_very_many_values_is_read_once_the_endpoint_lets_in_more(api, monkeypatch):
    """Such as Microsoft Graph, with more than eleven thousand operations."""
    monkeypatch.setattr(strict_json, "MAX_CONTAINERS", 40)
    api.document = document(many(20))
    endpoint = make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json")
    refused = run(endpoint)
    assert refused.error_code == "JSON_TOO_MANY"
    assert "raise “Megabytes of one reply” in the endpoint's settings" in refused.error_message
    endpoint.max_reply_megabytes = 256
    endpoint.save()
    assert run(endpoint).added == 20


@pytest.mark.django_db(transaction=True)
def test_a_document_that_takes_too_long_to_take_apart_says_how_to_read_less_of_it(api, monkeypatch):
    monkeypatch.setattr(enumeration_runs, "WHOLE_SECONDS", -1.0)
    api.document = document(many(101))
    endpoint = make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json")
    refused = run(endpoint)
    assert (refused.error_code, refused.seen) == ("DEADLINE", 100)
    assert "Choose what you need with “Only these tags” or “Only these paths”" in refused.error_message
    endpoint.settings = {"include_paths": ["/t1"]}
    endpoint.save()
    assert run(endpoint).status == "succeeded"


@pytest.mark.django_db(transaction=True)
def test_a_document_of_webhooks_alone_says_why_there_is_nothing_to_call(api):
    api.document = document({}, webhooks={"orderPaid": {"post": operation("paid")}})
    refused = run(make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json"))
    assert (refused.status, refused.error_code) == ("failed", "WEBHOOKS_ONLY")
    assert "webhooks alone (orderPaid)" in refused.error_message
    assert "Ask the vendor for the document of its API." in refused.error_message


@pytest.mark.django_db(transaction=True)
def test_document_may_be_as_large_as_the_endpoint_lets_in(api):
    api.document = document({"/a": {"get": operation("a")}}, **{"x-padding": "x" * 2_000_000})
    endpoint = make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json", max_reply_megabytes=1)
    refused = run(endpoint)
    assert refused.error_code == "BODY_TOO_LARGE"
    assert refused.error_message.endswith(
        "announced 1.9 MB; limit 1 MB. An administrator can raise “Megabytes of one reply” in the endpoint's "
        "settings, up to 256."
    )
    endpoint.max_reply_megabytes = 2
    endpoint.save()
    assert run(endpoint).added == 1


def test_document_without_end_is_not_read_to_its_end(api):
    api.document = {"x": "x" * 33 * 1024 * 1024}
    with session_with(api) as session, pytest.raises(ProtocolViolationError) as caught:
        next(OpenApi().enumerate(session, NoKnownPages()))
    assert caught.value.code == "BODY_TOO_LARGE"


@pytest.mark.django_db(transaction=True)
def test_document_of_the_old_format_ends_the_run_in_plain_words(api):
    api.document = {"swagger": "1.2", "paths": {}}
    failed = run(make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json"))
    assert (failed.status, failed.error_code) == ("failed", "OLD_OPENAPI")
    assert "Swagger 1.2" in failed.error_message


@pytest.mark.django_db(transaction=True)
def test_endpoint_is_read_where_the_document_is_and_called_where_its_credential_is(api, elsewhere):
    api.document = document({"/a": {"get": operation("a", responses=answers({"type": "object"}))}})
    admin = make_user("admin")
    credential = credential_operations.create_credential(
        actor=admin, name="Key", kind="bearer", url=elsewhere.url, secret="s3cr3t-word"
    )
    endpoint = vendor_operations.create_endpoint(
        actor=admin,
        vendor=make_endpoint().vendor,
        protocol="openapi",
        url=f"{api.url}/openapi.json",
        credential=credential,
        settings={"server": f"{elsewhere.url}/v1"},
    )
    assert run(Endpoint.objects.get(pk=endpoint.pk)).added == 1
    assert "authorization" not in api.asked[0][3]


def test_operations_of_a_large_document_are_cut_in_one_pass():
    """Each component is looked at once, however many operations reach it."""
    schemas = {f"S{n}": {"properties": {"n": {"$ref": f"#/components/schemas/S{n + 1}"}}} for n in range(50)}
    parsed_document = parsed(
        document(
            many(300, responses=answers({"$ref": "#/components/schemas/S0"})),
            components={"schemas": {**schemas, "S50": {}}},
        )
    )
    schemas_cut = [
        parsed_document.cut(operation)["components"]["schemas"]["S7"]
        for operation in parsed_document.operations
    ]
    assert all(schema is schemas_cut[0] for schema in schemas_cut)


@pytest.mark.django_db(transaction=True)
def test_what_a_newer_reader_takes_otherwise_is_a_version_and_nothing_else_is(api, monkeypatch):
    photo = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
    line = {"type": "array", "items": {"type": "object"}}
    api.document = document(
        {
            "/photos": {"post": operation("send", requestBody=takes(photo, "multipart/form-data"))},
            "/lines": {"post": operation("feed", requestBody=takes(line, "application/x-ndjson"))},
            "/plain": {"get": operation("look")},
        }
    )
    api.etag = '"one"'
    endpoint = make_endpoint(protocol="openapi", url=f"{api.url}/openapi.json")

    def run_enumeration():
        run = enumeration_runs.request_run(Endpoint.objects.get(pk=endpoint.pk), trigger=Trigger.COMMAND)
        run = enumeration_runs.perform(run.pk)
        return run.status, run.added, run.changed, run.unchanged

    with monkeypatch.context() as as_it_was:
        as_it_was.setattr(OpenApi, "revision", 1)
        for module, kind in (
            (contents, "is_multipart"),
            (contents, "is_lines"),
            (openapi_signature, "is_multipart"),
        ):
            as_it_was.setattr(module, kind, lambda media: False)
        assert run_enumeration() == ("succeeded", 3, 0, 0)
    assert run_enumeration() == ("succeeded", 0, 2, 1)
    tool = Tool.objects.get(tool_id="send")
    new, old = tool.versions.all()
    assert [parameter.name for parameter in new.decoded().inputs] == ["file"]
    assert [parameter.name for parameter in old.decoded().inputs] == ["body"]
    assert (tool.current, new.raw) == (new, old.raw)
    assert diff.compare(old.decoded(), new.decoded()).class_ == "breaking"
    assert invariants.check(["version_digests"]) == []
    # Once is enough, and another document is compared with what was understood last.
    assert run_enumeration() == ("succeeded", 0, 0, 3)
    api.etag, api.document["paths"]["/plain"]["get"]["summary"] = '"two"', "Look at it"
    assert run_enumeration() == ("succeeded", 0, 1, 2)
    assert tool.versions.count() == 2
    assert Tool.objects.get(tool_id="look").versions.count() == 2


@pytest.mark.parametrize("where", ["operation", "path"])
@pytest.mark.parametrize("is_set", [True, False])
def test_an_operation_that_lives_elsewhere_is_not_sent_to_the_address_for_calls(
    api, elsewhere, where, is_set
):
    server_member = {"servers": [{"url": "https://files.example.com"}]}
    op = operation("upload", **(server_member if where == "operation" else {}))
    api.document = document(
        {"/a": {"get": op, **(server_member if where == "path" else {})}, "/b": {"get": operation("b")}}
    )
    protocol = OpenApi({"server": elsewhere.url} if is_set else {})

    with session_with(api) as session:
        (page,) = protocol.enumerate(session, NoKnownPages())
        outcome = protocol.invoke(session, "upload", None, protocol.read(page.items[0].document), {})
        other = protocol.invoke(session, "b", None, protocol.read(page.items[1].document), {})

    assert outcome.error["code"] == "SERVER"
    assert [(note.code, "upload" in note.message) for note in page.notes] == [("SERVER", True)]
    assert other.outcome == "ok"
    assert len(elsewhere.asked) == is_set


def test_an_operations_own_server_at_the_address_for_calls_is_used(api, elsewhere):
    api.document = document({"/a": {"get": operation("a", servers=[{"url": f"{elsewhere.url}/files"}])}})
    protocol = OpenApi({"server": f"{elsewhere.url}/v1"})

    with session_with(api) as session:
        (page,) = protocol.enumerate(session, NoKnownPages())
        protocol.invoke(session, "a", None, protocol.read(page.items[0].document), {})

    assert not page.notes
    assert elsewhere.asked[0][1] == "/files/a"


@pytest.mark.parametrize("servers", [[{"url": ""}], [{"url": " "}], []])
def test_a_server_without_an_address_is_the_origin(api, servers):
    assert call_operation(api, operation("a"), servers=servers).outcome == "ok"
    assert api.asked[0][1] == "/things"


def test_servers_that_repeat_the_documents_follow_the_address_for_calls(api, elsewhere):
    servers = [{"url": "https://api.example.com/v1"}]
    settings = {"server": f"{elsewhere.url}/v2"}
    again = [
        {
            "url": "https://{host}/v1",
            "description": "Live",
            "variables": {"host": {"default": "api.example.com"}},
        }
    ]
    for own_servers in (servers, again):
        op = operation("a", servers=own_servers)
        assert call_operation(api, op, settings=settings, servers=servers).outcome == "ok"
    assert [request[1] for request in elsewhere.asked] == ["/v2/things", "/v2/things"]
