"""Cases beyond the table: odd streams, sessions that end, documents that fill memory, ids that look alike."""

import json
import time

import pytest
from django.db import connection

from catalog.models import Tool
from core.outbound.limits import Limits
from tests.hostile.bench import SHORT, USUAL, Bench, as_admin, rejections
from tests.hostile.dialects import DIALECTS, altered, encoded
from tests.hostile_vendor import HostileVendor, json_reply, raw, reply

pytestmark = pytest.mark.django_db

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.fixture
def bench(request):
    with HostileVendor(reply()) as vendor:
        yield Bench(vendor, DIALECTS[getattr(request, "param", "mcp")], as_admin())


def on_protocols(*protocols):
    return pytest.mark.parametrize("bench", protocols, indirect=True)


def streamed(*events):
    return raw(STREAM + b"".join(events))


def event(message):
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def test_streams_with_anything_before_the_answer(bench):
    """Comments, pings, floods of notifications, odd fields: all are passed over."""
    before = bench.dump(pages=False)
    changed = event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    ping = event({"jsonrpc": "2.0", "id": "x", "method": "ping"})
    noise = {
        "a comment of 100 kB": b": " + b"c" * 100_000 + b"\n\n",
        "endless retry": b"retry: 99999999999999999999\nretry: -1\nretry: 1e9\n\n",
        "an id with NUL": b"id: a\0b\nid: \n\n",
        "a thousand notifications": changed * 1_000,
        "pings of the server": ping * 50,
        "unknown fields": b"x-y: z\nevent\nfoo\n:\n\n",
        "another event's name": b"event: other\ndata: {not json\n\n",
        "progress": event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}),
    }
    for name, lines in noise.items():
        bench.shop.turn = lambda number, page, lines=lines: streamed(lines, event(page))
        run = bench.enumerate(USUAL)
        assert (run.status, run.unchanged) == ("succeeded", 6), (name, run.error_message)
    assert bench.dump(pages=False) == before


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (b"data: {\n\n", {"JSON_SYNTAX"}),
        (b'data: "a\xff"\n\n', {"NOT_UTF8"}),
        (b"data: " + b"x" * 300_000 + b"\n\n", {"BODY_TOO_LARGE"}),
        (b"data:\n\n" * 10_001, {"NO_ANSWER", "TOO_MANY_EVENTS"}),
        (b"\n" * 200_001, {"NO_ANSWER", "TOO_MANY_EVENTS"}),
        (b"", {"NO_ANSWER", "NOT_JSON"}),
        (b'data: {"jsonrpc": "1.0", "id": 1, "result": {}}\n\n', {"SHAPE"}),
        (b'data: {"jsonrpc": "2.0", "id": 1}\n\n', {"SHAPE", "RPC_MISMATCH"}),
        (b"data: []\n\n", {"NO_ANSWER", "SHAPE"}),
        (b'data: {"jsonrpc":"2.0","id":9,"method":"sampling/createMessage"}\n\n', {"ASKS_BACK"}),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else "",
)
def test_streams_that_hold_no_answer(bench, lines, codes):
    before = bench.dump()
    bench.shop.hostile = streamed(lines)
    run = bench.enumerate(USUAL)
    assert run.status == "failed"
    assert run.error_code in codes, (run.error_code, run.error_message)
    bench.is_told(run, run.error_code, run.error_message)
    assert bench.dump() == before
    bench.shop.well()
    assert bench.enumerate().unchanged == 6


def of_old(bench, *, expires=()):
    """A server of the handshake; its session is unknown at the requests whose number is in `expires`."""
    counts = {"lists": 0, "sessions": 0}

    def script(line, request):
        rpc_request = request.json() if request.body else {}
        method = rpc_request.get("method", "")
        if request.method == "DELETE":
            return reply(b"", status=204)(line, request)
        if method == "initialize":
            counts["sessions"] += 1
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "old"}}
            answer = {"jsonrpc": "2.0", "id": rpc_request["id"], "result": result}
            return json_reply(answer, headers={"Mcp-Session-Id": f"s{counts['sessions']}"})(line, request)
        if method == "notifications/initialized":
            return reply(b"", status=202)(line, request)
        if request.headers.get("mcp-session-id") is None:
            return json_reply(
                {
                    "jsonrpc": "2.0",
                    "id": rpc_request.get("id"),
                    "error": {"code": -32600, "message": "no session"},
                },
                status=400,
            )(line, request)
        counts["lists"] += 1
        if counts["lists"] in expires:
            return json_reply({"message": "session expired"}, status=404)(line, request)
        return bench.shop._answer(request)(line, request)

    return script, counts


def test_a_session_that_expires_in_the_middle_of_the_list(bench):
    script, counts = of_old(bench, expires={2})
    bench.shop.hostile = script
    run = bench.enumerate()
    assert (run.status, run.unchanged, run.withdrawn) == ("succeeded", 6, 0)
    assert 2 <= counts["sessions"] <= 3


def test_a_session_that_expires_at_once_again_and_again(bench):
    before = bench.dump()
    script, counts = of_old(bench, expires=set(range(1, 1_000)))
    bench.shop.hostile = script
    run = bench.enumerate()
    assert run.status == "failed"
    assert counts["sessions"] < 10
    assert run.error_message.isprintable()
    assert bench.dump() == before


def test_a_version_of_the_protocol_that_is_none(bench):
    before = bench.dump()
    for version in (None, 7, [], "1999-01-01", "2026-07-28 or so", "x" * 10_000):

        def script(line, request, version=version):
            rpc_request = request.json()
            if rpc_request.get("method") != "initialize":
                error = {"code": -32601, "message": "?"}
                if "id" not in rpc_request:
                    return reply(b"", status=202)(line, request)
                status = {"jsonrpc": "2.0", "id": rpc_request["id"], "error": error | {"code": -32600}}
                return json_reply(status, status=400)(line, request)
            result = {"protocolVersion": version, "capabilities": {}}
            return json_reply({"jsonrpc": "2.0", "id": rpc_request["id"], "result": result})(line, request)

        bench.shop.hostile = script
        run = bench.enumerate()
        assert (run.status, run.error_code) == ("failed", "MCP_VERSION"), version
        assert len(run.error_message) < 500
        assert bench.dump() == before


@on_protocols("a2t", "oxp", "openapi")
def test_304_without_a_first_200_and_for_another_page(bench):
    """An ETag is sent with the page that it came from, and an unrequested 304 is an error."""
    bench.shop.headers = {"ETag": '"one for all"'}
    bench.shop.tools = [bench.dialect.described(tool, "Other words.") for tool in bench.shop.tools]
    assert bench.enumerate().changed == 6
    before = bench.dump()
    run = bench.enumerate()
    assert (run.status, run.unchanged) == ("succeeded", 6)
    bench.shop.hostile = raw(b'HTTP/1.1 304 Not Modified\r\nETag: "other"\r\n\r\n')
    run = bench.enumerate(SHORT)
    assert (run.status, run.error_code) in {("succeeded", ""), ("failed", "HTTP_304")}
    assert bench.dump() == before


@on_protocols("a2t", "mcp")
def test_ids_that_look_the_same_are_different_tools(bench):
    ids = ["Caf\u00e9", "Cafe\u0301", "caf\u00e9", "Caf\u00e9\u200b"]
    for tool_id in ids:
        bench.shop.tools.append(bench.dialect.identified(bench.dialect.tool(9), tool_id))
    run = bench.enumerate()
    assert (run.status, run.added, run.rejected) == ("succeeded", 4, 0)
    assert set(ids) <= set(Tool.objects.filter(endpoint=bench.endpoint).values_list("tool_id", flat=True))
    assert bench.enumerate().unchanged == 10


@on_protocols("a2t")
def test_ids_that_differ_in_the_case_of_a_uuid_are_the_same(bench):
    twin = bench.dialect.identified(bench.shop.tools[0], bench.shop.tools[0]["toolId"].upper())
    bench.shop.tools[0] = twin | {"toolId": "00000000-0000-0000-0000-00000000000A"}
    bench.shop.tools.append(twin | {"toolId": "00000000-0000-0000-0000-00000000000a"})
    run = bench.enumerate()
    assert run.seen == 6


@on_protocols("a2t")
def test_numbers_that_lie(bench):
    """Counts and limits that the vendor announces are not believed."""
    before = bench.dump(pages=False)
    for paging in (
        {"pageLimit": -1},
        {"pageLimit": 10**30},
        {"total": -5, "pageLimit": "x"},
        {"count": True},
    ):
        bench.shop.turn = lambda number, page, paging=paging: page | {"paging": page["paging"] | paging}
        run = bench.enumerate()
        assert (run.status, run.unchanged) == ("succeeded", 6), paging
    assert bench.dump(pages=False) == before


@on_protocols("oxp", "mcp", "acp")
def test_schemas_that_are_made_to_be_expensive(bench):
    """Definitions that each refer twice to the next, enumerations of thousands, types of the wrong type."""
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)} | {"d30": {}}
    schemas = [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": doubled},
        {"type": "object", "properties": {"a": {"enum": [f"v{n}" for n in range(9_000)]}}},
        {"type": "object", "properties": {"a": {"enum": [[["x"]]] * 50, "type": ["string", "string"]}}},
        {"type": "object", "properties": {"a": {"minimum": "no", "maxLength": -1, "pattern": "("}}},
        {"type": "object", "required": 7, "properties": {"a": {"required": True, "items": 3}}},
        {"type": "object", "properties": {"a": {"const": {"$ref": "http://127.0.0.66/"}}}},
    ]
    for number, schema in enumerate(schemas):
        bench.shop.tools[0] = bench.dialect.taking(bench.dialect.tool(1), schema)
        began = time.process_time()
        run = bench.enumerate()
        assert (run.status, run.changed + run.rejected) == ("succeeded", 1), number
        tool = Tool.objects.filter(endpoint=bench.endpoint).order_by("pk")[0]
        assert bench.pages.get(f"/tools/{tool.pk}/").status_code == 200
        assert bench.rest.get(f"/api/v1/tools/{tool.pk}/").status_code == 200
        assert time.process_time() - began < 5


def yaml_document(operation="", extra=""):
    return f"""openapi: 3.1.0
info: {{title: Things, version: '1'}}
{extra}
paths:
  /things/0:
    post:
      operationId: tool_1
      description: Does thing 1.
      responses: {{'200': {{description: Good}}}}
{operation}
""".encode()


LAUGHS = "x-a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"x-{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)
)


@on_protocols("openapi")
@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (yaml_document(extra=LAUGHS), {"JSON_TOO_MANY"}),
        (yaml_document(extra="x-a: &a [*a]"), {"YAML_ALIAS"}),
        (yaml_document(extra="x-a: *none"), {"YAML_ALIAS"}),
        (yaml_document(extra="x-a: !!python/object/apply:os.system [id]"), {"EMPTY_HELD", "SHRINK_HELD"}),
        (yaml_document(extra="? [a, b]\n: c"), {"YAML_SYNTAX"}),
        (yaml_document(extra="7: c"), {"YAML_SYNTAX", "SHRINK_HELD"}),
        (yaml_document(extra="x-a: " + "[" * 200 + "]" * 200), {"EMPTY_HELD", "SHRINK_HELD"}),
        (yaml_document() + b"---\na: b\n", {"YAML_SYNTAX"}),
        (b"%YAML 9.9\n---\nopenapi: 3.1.0\n", {"YAML_SYNTAX", "EMPTY_HELD"}),
        (b"openapi: 3.1.0\npaths: [a]\n", {"SHAPE"}),
        (b"openapi: 3.1.0\npaths: {/a: {get: [1]}}\n", {"EMPTY_HELD"}),
        (b"openapi: 4.0.0\npaths: {}\n", {"OLD_OPENAPI"}),
        (b"swagger: '1.2'\npaths: {}\n", {"OLD_OPENAPI"}),
        (b"\x00\x01\x02", {"YAML_SYNTAX", "NOT_UTF8"}),
    ],
    ids=[
        "laughs",
        "itself",
        "unknown",
        "tag",
        "key",
        "number",
        "deep",
        "two",
        "other",
        "list",
        "op",
        "4",
        "2",
        "nul",
    ],
)
def test_yaml_that_is_made_to_hurt(bench, body, codes):
    before = bench.dump()
    bench.shop.hostile = reply(body, headers={"Content-Type": "application/yaml"})
    run = bench.enumerate()
    assert run.status == "failed"
    assert run.error_code in codes, (run.error_code, run.error_message)
    bench.is_told(run, run.error_code, run.error_message)
    assert bench.dump() == before
    bench.shop.well()
    assert bench.enumerate().unchanged == 6


@on_protocols("openapi")
def test_parameters_that_refer_to_themselves_and_servers_elsewhere(bench):
    with HostileVendor(reply(), host="127.0.0.66") as canary:

        def turn(number, page):
            page["servers"] = [{"url": f"{canary.url}/{{v}}", "variables": {"v": {"default": "../.."}}}]
            page["components"] = {"parameters": {"a": {"$ref": "#/components/parameters/a"}}}
            page["paths"]["/things/0"]["post"]["parameters"] = [{"$ref": "#/components/parameters/a"}]
            page["paths"]["/things/1"]["$ref"] = f"{canary.url}/path.json"
            return page

        bench.shop.turn = turn
        run = bench.enumerate()
        assert (run.status, run.rejected) == ("succeeded", 1)
        assert rejections(run) == [("tool_1", "BAD_REF")]
        tool = Tool.objects.filter(endpoint=bench.endpoint, tool_id="tool_2").get()
        response = bench.rest.post(
            f"/api/v1/tools/{tool.pk}/calls/", {"arguments": {"city": "x"}}, format="json"
        )
        assert response.status_code < 500
        assert canary.connections == 0


@on_protocols("acp")
def test_descriptors_that_fail_one_by_one_cost_themselves(bench):
    """An agent's descriptor may break in any way; five outages in a row are an outage of the server."""
    before = bench.dump(pages=False)
    breaks = {
        "is no JSON": lambda document: b"{",
        "is a list": lambda document: b"[]",
        "is empty": lambda document: b"",
        "holds NUL": lambda document: encoded(document).replace(b"Does", b"\\u0000"),
        "has no specs": lambda document: encoded(document | {"specs": None}),
        "is deep": lambda document: encoded(document).replace(b'"Does', b"[" * 90_000 + b'"Does'),
    }
    target = bench.dialect.id_of(bench.shop.tools[2])
    for name, change in breaks.items():

        def describe(request, tools, change=change):
            reply = bench.dialect.extra_reply(request, tools)
            return change(reply) if reply and target in request.path else reply

        bench.shop.describe = describe
        run = bench.enumerate(USUAL)
        assert (run.status, run.unchanged, run.rejected) == ("succeeded", 5, 1), (name, run.error_message)
        assert rejections(run)[0][0] == target
        assert bench.dump(pages=False) == before
    bench.shop.well()
    bench.shop.beside = reply(status=503)
    run = bench.enumerate(SHORT)  # two on a page, so the fifth is on the third
    assert (run.status, run.error_code, run.pages) == ("failed", "INCOMPLETE", 2)
    assert bench.dump(pages=False) == before
    bench.shop.well()
    assert bench.enumerate().unchanged == 6


@on_protocols("oxp")
def test_a_health_page_that_lies(bench):
    before = bench.dump()
    health = {
        "good": (reply(b"ok"), "Its /health reports that it is healthy."),
        "bad": (reply(status=503), "not ready"),
    }
    for answer, words in health.values():
        bench.shop.hostile, bench.shop.beside = reply(status=404), answer
        run = bench.enumerate()
        assert run.status == "failed"
        assert words in run.error_message
        assert bench.dump() == before
        bench.shop.well()


@on_protocols("a2t")
def test_an_unchanged_list_writes_not_one_row(bench):
    """D5: not even the same row again."""
    assert bench.enumerate().unchanged == 6
    before = versions_of_rows()
    assert bench.enumerate().unchanged == 6
    assert versions_of_rows() == before


def versions_of_rows():
    """Return the place of each row and the transaction that wrote it: both change with any write."""
    tables = (
        "catalog_tool",
        "catalog_toolversion",
        "catalog_finding",
        "catalog_knownpage",
        "catalog_withdrawal",
    )
    with connection.cursor() as cursor:
        rows = []
        for table in tables:
            cursor.execute(f"SELECT ctid::text, xmin::text, cmin::text FROM {table} ORDER BY ctid")
            rows.append(cursor.fetchall())
    return rows


@on_protocols("a2t", "mcp")
def test_all_pages_together_have_a_size(bench):
    before = bench.dump()
    heavy = [bench.dialect.described(tool, "x" * 20_000) for tool in bench.shop.tools]
    bench.shop.tools = altered(heavy)
    run = bench.enumerate(Limits(session_bytes=60_000))
    assert (run.status, run.error_code) == ("failed", "BODY_TOO_LARGE")
    assert "in all" in run.error_message
    assert bench.dump() == before
