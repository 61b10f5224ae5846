"""A release as an MCP server: raw messages of both eras, good and bad."""

import itertools
import json
import re
from types import SimpleNamespace

import pytest
import redis
from django.db import OperationalError
from django.http import Http404

from catalog.models import Call
from designer.agents import agents
from designer.pins import pins
from designer.procedures import editing
from designer.releases import publishing
from protocols.mcp.server import asking, listening, tools
from protocols.mcp.server.server import IN_BOTH_ERAS
from protocols.signature import Annotations
from serving.serve.mcp import shared_state
from serving.serve.mcp.shared_state import SLOTS, StreamSlots, streams_in_a_process
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool
from tests.hostile_vendor import json_reply
from tests.serving.test_calls import desk, desk_with, owner, runtime, vendor

__all__ = ["desk", "owner", "vendor"]
pytestmark = pytest.mark.django_db
ROOT = "/serve/desk/live/mcp"
META = "io.modelcontextprotocol/"
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
FORMS = {"elicitation": {"form": {}}}
GIVEN = {"name": "sky", "arguments": {"Zip_code": "0150"}}
_numbers = itertools.count(1)


def post(client, body, *, path=ROOT, **headers):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.generic("POST", path, raw, content_type="application/json", headers=headers)


def modern(client, method, params=None, *, can=None, at=ROOT, **headers):
    params = dict(params or {})
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": can or {}}
    params["_meta"] = params.get("_meta", {}) | meta
    name_headers = {"Mcp-Name": params["name"]} if "name" in params else {}
    usual = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **name_headers}
    message = {"jsonrpc": "2.0", "id": next(_numbers), "method": method, "params": params}
    return post(client, message, path=at, **{**usual, **headers})


def old(client, method, params=None, *, version=HANDSHAKE, path=ROOT, **headers):
    message = {"jsonrpc": "2.0", "id": next(_numbers), "method": method, "params": params or {}}
    return post(client, message, path=path, **{"MCP-Protocol-Version": version, **headers})


@pytest.fixture
def client(owner, desk):
    return runtime(owner, desk[0])


def test_an_initialize_settles_the_version_and_names_the_session(client):
    initialization = {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialization}
    answer, other = post(client, message), post(client, message)
    assert re.fullmatch("pegboard-[0-9a-f]{32}", answer["Mcp-Session-Id"])
    assert answer["Mcp-Session-Id"] != other["Mcp-Session-Id"]
    assert answer.json()["result"] == {
        "protocolVersion": HANDSHAKE,
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}},
        "serverInfo": {"name": "desk", "title": "desk", "version": "1"},
    }
    newer = post(client, {**message, "params": {**initialization, "protocolVersion": "2099-01-01"}})
    assert newer.json()["result"]["protocolVersion"] == HANDSHAKE
    older = post(client, {**message, "params": {**initialization, "protocolVersion": "2024-11-05"}})
    assert older.json()["result"]["protocolVersion"] == "2024-11-05"
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert post(client, notification).status_code == 202
    assert old(client, "ping").json()["result"] == {}


def test_a_client_that_says_what_it_needs_with_each_request_needs_no_handshake(client):
    discovery = modern(client, "server/discover").json()["result"]
    assert discovery["supportedVersions"] == [MODERN]
    assert (discovery["resultType"], discovery["ttlMs"], discovery["cacheScope"]) == (
        "complete",
        0,
        "private",
    )
    assert discovery["_meta"][f"{META}serverInfo"]["name"] == "desk"
    listing = modern(client, "tools/list").json()["result"]
    assert [tool["name"] for tool in listing["tools"]] == ["sky"]
    assert listing["ttlMs"] == 0
    notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert post(client, notification, **{"MCP-Protocol-Version": MODERN}).status_code == 202


@pytest.mark.parametrize("ask", [modern, old])
def test_a_tool_runs_by_the_names_of_the_release(ask, client, vendor):
    result = ask(client, "tools/call", GIVEN).json()["result"]
    assert result["structuredContent"] == {"Sky_now": "fair"}
    assert json.loads(result["content"][0]["text"]) == {"Sky_now": "fair"}
    assert "isError" not in result
    assert len(vendor.requests) == 1


def test_arguments_that_do_not_fit_are_a_result_that_a_model_reads(client, vendor):
    result = old(client, "tools/call", {"name": "sky", "arguments": {"days": "many"}}).json()["result"]
    assert result["isError"] is True
    assert "Zip_code" in result["content"][0]["text"]
    assert result["_meta"]["pegboard/outcome"] == "invalid_arguments"
    assert vendor.requests == []


def test_what_a_vendor_could_not_do_is_a_result_with_what_to_do_next(client, vendor):
    vendor.script = json_reply({"error": {"code": "NO", "message": "Not today."}}, status=503)
    result = old(client, "tools/call", GIVEN).json()["result"]
    assert result["isError"] is True
    assert result["_meta"]["pegboard/call"] == Call.objects.get().pk
    assert result["_meta"]["pegboard/outcome"] == "unavailable"
    assert result["_meta"]["pegboard/retry"]["is_transient"] is True


@pytest.mark.parametrize(("ask", "status"), [(modern, 400), (old, 200)])
def test_an_unknown_tool_and_an_unknown_method_are_errors_of_the_protocol(ask, status, client):
    unknown = ask(client, "tools/call", {"name": "nothing", "arguments": {}})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (status, -32602)
    method = ask(client, "resources/subscribe")
    assert (method.status_code, method.json()["error"]["code"]) == (404 if ask is modern else 200, -32601)
    assert modern(client, "ping").status_code == 404
    assert old(client, "server/discover").json()["error"]["code"] == -32601


def test_a_client_that_takes_events_alone_gets_events(client):
    both = old(client, "ping", Accept="application/json, text/event-stream")
    assert both["Content-Type"] == "application/json"
    events = old(client, "ping", Accept="text/event-stream")
    assert events["Content-Type"] == "text/event-stream"
    assert json.loads(events.content.decode().partition("data: ")[2])["result"] == {}


BROKEN = [
    (b"{", {}, 400, -32700),
    (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', {}, 400, -32700),
    (b"[]", {}, 400, -32600),
    (b'"ping"', {}, 400, -32600),
    (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', {}, 400, -32600),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', {}, 400, -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', {}, 400, -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', {}, 400, -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}', {}, 200, -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sky", "arguments": []}}', {},
     200, -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}', {}, 400, -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', {"MCP-Protocol-Version": "2099-01-01"}, 400, -32022),
    (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', {"MCP-Protocol-Version": HANDSHAKE}, 400, -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', {"MCP-Protocol-Version": MODERN}, 400, -32602),
]  # fmt: skip


@pytest.mark.parametrize(("body", "headers", "status", "number"), BROKEN)
def test_a_message_that_cannot_be_read_gets_the_number_that_says_why(body, headers, status, number, client):
    answer = post(client, body, **headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, number)
    assert answer.json()["error"]["message"]


def test_an_unknown_version_names_those_that_are_known(client):
    meta = {f"{META}protocolVersion": "2099-01-01", f"{META}clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": meta}}
    headers = {"MCP-Protocol-Version": "2099-01-01", "Mcp-Method": "tools/list"}
    answer = post(client, message, **headers).json()
    assert answer["id"] == 3
    assert answer["error"]["data"]["requested"] == "2099-01-01"
    # As discovered: older revisions need a handshake.
    assert answer["error"]["data"]["supported"] == [MODERN]


@pytest.mark.parametrize(
    "headers",
    [{"MCP-Protocol-Version": HANDSHAKE + "x"}, {"Mcp-Method": "tools/list"}, {"Mcp-Name": "other"}],
)
def test_headers_that_contradict_the_body_are_refused(headers, client, vendor):
    answer = modern(client, "tools/call", GIVEN, **headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)
    assert vendor.requests == []


def test_a_header_that_repeats_an_argument_must_say_the_same(owner, vendor):
    agent = agents.create_agent(actor=owner, name="desk", slug="desk")
    marked = make_parameter("city", type="json", schema={"type": "string", "x-mcp-header": "City"})
    tool = make_tool(make_signature(inputs=(marked,)), endpoint=make_endpoint(url=vendor.url))
    pins.pin_tool(agent, actor=owner, tool=tool, alias="sky")
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)
    call = {"name": "sky", "arguments": {"city": "Oslo"}}
    assert modern(client, "tools/call", call).json()["error"]["code"] == -32020
    assert modern(client, "tools/call", call, **{"Mcp-Param-City": "Bergen"}).status_code == 400
    for wrong in ("=?base64?T3Nsbw?=", "=?base64?T3Ns*w==?=", "=?base64?QmVyZ2Vu?=", ""):
        assert modern(client, "tools/call", call, **{"Mcp-Param-City": wrong}).status_code == 400
    for right, tool_name in (("Oslo", "sky"), ("=?base64?T3Nsbw==?=", "=?base64?c2t5?=")):
        answer = modern(client, "tools/call", call, **{"Mcp-Param-City": right, "Mcp-Name": tool_name})
        assert answer.status_code == 200


def test_a_batch_is_answered_where_the_revision_has_batches(client):
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "nothing"},
        7,
    ]
    answers = post(client, batch, **{"MCP-Protocol-Version": "2025-03-26"}).json()
    assert [answer["id"] for answer in answers] == [1, 2, None]
    assert post(client, batch[1:2]).status_code == 202


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Http404(), "not_found"),
        (OperationalError("gone"), "unavailable"),
        (RuntimeError("ours"), "server_error"),
    ],
)
def test_a_message_that_fails_costs_no_other_its_result(error, code, client, vendor, monkeypatch):
    def fails(*_):
        raise error

    monkeypatch.setitem(IN_BOTH_ERAS, "prompts/list", fails)
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": GIVEN},
        {"jsonrpc": "2.0", "id": 2, "method": "prompts/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
    ]
    ran, failed, last = post(client, batch, **{"MCP-Protocol-Version": "2025-03-26"}).json()
    assert "isError" not in ran["result"]
    assert (failed["id"], failed["error"]["data"]["code"]) == (2, code)
    assert last["result"] == {}


def test_an_answer_is_given_though_its_receipt_cannot_be_written(client, vendor, monkeypatch):
    def away(*_, **__):
        raise OperationalError("gone")

    monkeypatch.setattr("designer.releases.receipts.record_read", away)
    assert "isError" not in old(client, "tools/call", GIVEN).json()["result"]
    assert len(vendor.requests) == 1


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_no_stream_is_opened_and_no_session_ended(method, client):
    answer = client.generic(method, ROOT)
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert answer.json()["jsonrpc"] == "2.0"


def test_only_the_root_of_the_protocol_answers(client):
    assert old(client, "ping", path=f"{ROOT}/").status_code == 200
    assert old(client, "ping", path=f"{ROOT}/more").status_code == 404


def test_a_list_is_read_in_pages_of_one_release(owner, vendor, monkeypatch):
    monkeypatch.setattr(tools, "PAGE_TOOLS", 2)
    agent = agents.create_agent(actor=owner, name="desk", slug="desk")
    endpoint = make_endpoint(url=vendor.url)
    for number in range(5):
        tool = make_tool(make_signature(name=f"t{number}"), endpoint=endpoint)
        pins.pin_tool(agent, actor=owner, tool=tool, alias=f"t{number}")
    publishing.publish(agent, actor=owner, channel="live")
    client, names, cursor, pages = runtime(owner, agent), [], None, 0
    while pages == 0 or cursor:
        page = old(client, "tools/list", {"cursor": cursor} if cursor else {}).json()["result"]
        names += [tool["name"] for tool in page["tools"]]
        first, cursor, pages = cursor, page.get("nextCursor"), pages + 1
    assert (names, pages) == ([f"t{number}" for number in range(5)], 3)
    for bad in ("x", "", 7, "AAAA"):
        assert old(client, "tools/list", {"cursor": bad}).json()["error"]["code"] == -32602
    agents.update_agent(agent, actor=owner, description="Another release.")
    publishing.publish(agent, actor=owner, channel="live")
    assert old(client, "tools/list", {"cursor": first}).json()["error"]["code"] == -32602


def test_an_older_revision_goes_without_what_it_does_not_know(owner, vendor):
    agent, _ = desk_with(owner, vendor, annotations=Annotations(read_only=True), title="Sky over a place")
    client = runtime(owner, agent)
    members_of = {
        version: set(old(client, "tools/list", version=version).json()["result"]["tools"][0])
        for version in ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
    }
    assert members_of["2025-06-18"] >= {"title", "outputSchema", "annotations"}
    assert members_of["2025-03-26"] == {"name", "description", "inputSchema", "annotations"}
    assert members_of["2024-11-05"] == {"name", "description", "inputSchema"}


def test_procedures_are_prompts(owner, desk, client):
    agent, _ = desk
    editing.create_procedure(agent, actor=owner, title="Before a trip", body="Ask for the sky first.")
    publishing.publish(agent, actor=owner, channel="live")
    for ask in (modern, old):
        listing = ask(client, "prompts/list").json()["result"]
        description = "How desk works with these tools: Before a trip"
        assert listing["prompts"] == [
            {"name": "before-a-trip", "title": "Before a trip", "description": description}
        ]
        prompt = ask(client, "prompts/get", {"name": "before-a-trip"}).json()["result"]
        assert prompt["messages"][0]["content"] == {"type": "text", "text": "Ask for the sky first."}
        assert ask(client, "prompts/get", {"name": "no"}).json()["error"]["code"] == -32602
        (resource,) = ask(client, "resources/list").json()["result"]["resources"]
        address = {"uri": "procedure://desk/before-a-trip"}
        assert (resource["uri"], resource["mimeType"]) == (address["uri"], "text/markdown")
        contents = ask(client, "resources/read", address, **{"Mcp-Name": address["uri"]}).json()["result"]
        assert contents["contents"] == [
            {**address, "mimeType": "text/markdown", "text": "Ask for the sky first."}
        ]
        assert ask(client, "resources/templates/list").json()["result"]["resourceTemplates"] == []
        error = ask(client, "resources/read", {"uri": "file:///"}, **{"Mcp-Name": "file:///"}).json()["error"]
        assert (error["code"], error["data"]) == (-32602 if ask is modern else -32002, {"uri": "file:///"})
        assert ask(client, "resources/list", {"cursor": "x"}).json()["error"]["code"] == -32602
        if ask is modern:
            assert (contents["ttlMs"], contents["cacheScope"]) == (0, "private")
    assert "before-a-trip" in modern(client, "server/discover").json()["result"]["instructions"]


def test_a_transfer_says_where_the_sub_agent_is_served(owner, desk, client):
    agent, _ = desk
    helper = agents.create_agent(actor=owner, name="Helper", slug="helper", parent=agent)
    pins.pin_tool(helper, actor=owner, tool=make_tool(name="help"), alias="help")
    publishing.publish(agent, actor=owner, channel="live")
    tools = modern(client, "tools/list").json()["result"]["tools"]
    (name,) = [tool["name"] for tool in tools if tool["name"] != "sky"]
    handed = modern(client, "tools/call", {"name": name, "arguments": {}}).json()["result"]
    address = handed["_meta"]["pegboard/transfer"]["url"]
    assert address == "http://testserver/serve/desk/2/agents/helper/mcp"
    assert address in handed["content"][0]["text"]
    below = modern(client, "tools/list", at=address.removeprefix("http://testserver")).json()["result"]
    assert [tool["name"] for tool in below["tools"]] == ["help"]


def test_a_tool_that_destroys_is_confirmed_by_a_user_whom_the_client_can_ask(owner, vendor):
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True))
    client = runtime(owner, agent)
    needs_input = modern(client, "tools/call", GIVEN, can=FORMS).json()["result"]
    assert needs_input["resultType"] == "input_required"
    assert needs_input["inputRequests"]["confirm"]["method"] == "elicitation/create"
    assert vendor.requests == []
    for answer in ({"action": "decline"}, {"action": "accept", "content": {"confirm": False}}):
        confirmed = {**GIVEN, "inputResponses": {"confirm": answer}}
        declined = modern(client, "tools/call", confirmed, can=FORMS).json()["result"]
        assert declined["isError"] is True
    assert vendor.requests == []
    confirmed = {**GIVEN, "inputResponses": {"confirm": {"action": "accept", "content": {"confirm": True}}}}
    assert "isError" not in modern(client, "tools/call", confirmed, can=FORMS).json()["result"]
    assert len(vendor.requests) == 1


def test_a_client_that_cannot_ask_goes_by_the_annotations(owner, vendor):
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True))
    client = runtime(owner, agent)
    (tool,) = modern(client, "tools/list").json()["result"]["tools"]
    assert tool["annotations"]["destructiveHint"] is True
    for ask in (modern, old):
        assert "isError" not in ask(client, "tools/call", GIVEN).json()["result"]
    assert len(vendor.requests) == 2


def listened(client, **notifications):
    answer = modern(client, "subscriptions/listen", {"notifications": notifications})
    assert answer["Content-Type"] == "text/event-stream"
    try:
        for part in answer.streaming_content:
            if part.startswith(b"event: message"):
                yield json.loads(part.partition(b"data: ")[2])
    finally:
        for close in answer._resource_closers:  # all of it would close the test's connection, too
            close()


def test_a_client_that_listens_hears_that_the_channel_has_moved(owner, desk, client, monkeypatch):
    monkeypatch.setattr(listening, "PAUSE", 0.0)
    news = listened(client, toolsListChanged=True, rootsListChanged=True)
    event = next(news)
    assert event["method"] == "notifications/subscriptions/acknowledged"
    assert event["params"]["notifications"] == {"toolsListChanged": True}
    number = event["params"]["_meta"][f"{META}subscriptionId"]
    agents.update_agent(desk[0], actor=owner, description="Another release.")
    publishing.publish(desk[0], actor=owner, channel="live")
    event = next(news)
    assert event["method"] == "notifications/tools/list_changed"
    assert event["params"]["_meta"] == {f"{META}subscriptionId": number}
    monkeypatch.setattr(listening.time, "monotonic", lambda: float("inf"))
    assert next(news)["id"] == number
    assert list(news) == []


def test_only_so_many_listen_at_once(client):
    opened = [
        modern(client, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        for _ in range(streams_in_a_process() + 1)
    ]
    assert [response.status_code for response in opened] == [200] * streams_in_a_process() + [429]
    assert opened[-1]["Retry-After"]
    for stream in opened[:-1]:
        for close in stream._resource_closers:  # all of it would close the test's connection, too
            close()
    assert list(listened(client))[-1]["result"]["resultType"] == "complete"


def test_a_stream_that_is_never_sent_takes_no_place(client, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError

    client.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.setattr("designer.releases.receipts.record_read", fails)
        for _ in range(streams_in_a_process() + 1):
            answer = modern(client, "subscriptions/listen", {"notifications": {}})
            assert answer.status_code == 500
    assert list(listened(client))[-1]["result"]["resultType"] == "complete"


def test_what_a_client_wants_to_hear_has_to_be_said(client):
    assert modern(client, "subscriptions/listen").json()["error"]["code"] == -32602
    assert old(client, "subscriptions/listen").json()["error"]["code"] == -32601


BRANCH = {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}


def library(line, request):
    """A vendor of MCP whose tool asks for the branch before it lends."""
    message = request.json()
    result = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
    if message["method"] == "tools/call" and "inputResponses" not in message["params"]:
        elicitation = {"mode": "form", "message": "Which branch?", "requestedSchema": BRANCH}
        result = {
            "resultType": "input_required",
            "inputRequests": {"branch": {"method": "elicitation/create", "params": elicitation}},
            "requestState": "the vendor's own",
        }
    elif message["method"] == "tools/call":
        response_text = json.dumps(message["params"]["inputResponses"]["branch"])
        result = {"resultType": "complete", "content": [{"type": "text", "text": response_text}]}
    document = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return json_reply(document)(line, request)


@pytest.fixture
def lending(owner, vendor):
    vendor.script = library
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())
    return runtime(owner, agent)


def test_what_a_tool_asks_goes_to_the_user_and_the_answer_back(lending):
    call = {"name": "sky", "arguments": {}}
    needs_input = modern(lending, "tools/call", call, can=FORMS).json()["result"]
    assert needs_input["inputRequests"]["branch"]["params"]["requestedSchema"] == BRANCH
    assert "vendor" not in json.dumps(needs_input)
    answer = {"action": "accept", "content": {"branch": "Mole End"}}
    responses = {"branch": answer, "another": answer}
    again = {**call, "requestState": needs_input["requestState"], "inputResponses": responses}
    for other in ({"name": "other"}, {"requestState": "call-0"}, {"requestState": 7}):
        assert modern(lending, "tools/call", {**again, **other}, can=FORMS).status_code in (400, 404)
    result = modern(lending, "tools/call", again, can=FORMS).json()["result"]
    assert json.loads(result["content"][0]["text"]) == answer


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_may_decline_what_a_tool_asks_or_close_it(lending, action):
    call = {"name": "sky", "arguments": {}}
    needs_input = modern(lending, "tools/call", call, can=FORMS).json()["result"]
    again = {
        **call,
        "requestState": needs_input["requestState"],
        "inputResponses": {"branch": {"action": action}},
    }
    result = modern(lending, "tools/call", again, can=FORMS).json()["result"]
    assert json.loads(result["content"][0]["text"]) == {"action": action}


def test_a_client_that_cannot_ask_is_told_what_was_asked(lending):
    call = {"name": "sky", "arguments": {}}
    result = old(lending, "tools/call", call).json()["result"]
    assert result["isError"] is True
    assert "Which branch?" in "".join(block["text"] for block in result["content"])
    assert result["_meta"]["pegboard/outcome"] == "needs_input"
    for can in ({}, {"elicitation": {"url": {}}}):
        refused = modern(lending, "tools/call", call, can=can)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (400, -32021)
        assert "Which branch?" in error["message"]
        needed = {"elicitation": {"form": {}}}
        assert error["data"] == {
            "requiredCapabilities": needed,
            "pegboard/call": Call.objects.latest("pk").pk,
        }


def test_what_a_vendor_of_mcp_answers_goes_on_as_it_came(lending, vendor):
    blocks = [{"type": "text", "text": "Lent."}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]

    def answers(line, request):
        message = request.json()
        result = {
            "resultType": "complete",
            "tools": [],
            "content": blocks,
            "ttlMs": 0,
            "cacheScope": "private",
        }
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result})(line, request)

    vendor.script = answers
    result = modern(lending, "tools/call", {"name": "sky", "arguments": {}}).json()["result"]
    assert result["content"] == blocks
    assert "structuredContent" not in result


BOTH = "application/json, text/event-stream"
INTRODUCED = {
    "protocolVersion": HANDSHAKE,
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "t", "version": "1"},
}


def open_session(client, version=HANDSHAKE):
    """The headers of a client that can be asked."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    answer = post(client, {**message, "params": {**INTRODUCED, "protocolVersion": version}})
    return {"Mcp-Session-Id": answer["Mcp-Session-Id"], "Accept": BOTH}


def events_of(answer):
    assert answer["Content-Type"] == "text/event-stream"
    for part in answer.streaming_content:
        if part.startswith(b"event: message"):
            yield json.loads(part.partition(b"data: ")[2])
    for close in answer._resource_closers:
        close()


def answers(client, number, result):
    answer = post(client, {"jsonrpc": "2.0", "id": number, "result": result})
    assert (answer.status_code, answer.content) == (202, b"")


def test_a_client_of_the_older_era_is_asked_inside_the_call(lending, vendor, monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    call = {"name": "sky", "arguments": {}}
    events = events_of(old(lending, "tools/call", call, **open_session(lending)))
    question = next(events)
    assert (question["method"], question["params"]["message"]) == ("elicitation/create", "Which branch?")
    assert question["params"]["requestedSchema"] == BRANCH
    answer = {"action": "accept", "content": {"branch": "Mole End"}}
    answers(lending, "call-0-0", answer)
    answers(lending, 7, answer)
    answers(lending, question["id"], answer)
    (last,) = events
    assert json.loads(last["result"]["content"][0]["text"]) == answer
    assert "resultType" not in last["result"]
    assert [call.outcome for call in Call.objects.order_by("pk")] == ["needs_input", "ok"]


def test_the_answer_goes_with_a_call_that_its_client_names(lending):
    call, id_header = {"name": "sky", "arguments": {}}, {"Idempotency-Key": "a"}
    needs_input = modern(lending, "tools/call", call, can=FORMS, **id_header).json()["result"]
    answer = {"action": "accept", "content": {"branch": "Mole End"}}
    again = {**call, "requestState": needs_input["requestState"], "inputResponses": {"branch": answer}}
    for _ in range(2):
        result = modern(lending, "tools/call", again, can=FORMS, **id_header).json()["result"]
        assert json.loads(result["content"][0]["text"]) == answer
    assert Call.objects.count() == 2


def test_an_answer_is_heard_on_every_stream_of_a_call_that_its_client_names(lending, monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    monkeypatch.setattr(asking, "STREAM_SECONDS", 5.0)
    call, headers = {"name": "sky", "arguments": {}}, {**open_session(lending), "Idempotency-Key": "a"}
    monkeypatch.setitem(SLOTS, "questions", StreamSlots(lambda: 2))
    first = events_of(old(lending, "tools/call", call, **headers))
    number = next(first)["id"]
    answer = {"action": "accept", "content": {"branch": "Mole End"}}
    answers(lending, number, answer)
    second = events_of(old(lending, "tools/call", call, **headers))
    assert next(second)["id"] == number
    for stream in (first, second):
        (last,) = stream
        assert json.loads(last["result"]["content"][0]["text"]) == answer
    assert [call.outcome for call in Call.objects.order_by("pk")] == ["needs_input", "ok"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_of_the_older_era_may_decline_or_close(lending, monkeypatch, action):
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    events = events_of(old(lending, "tools/call", {"name": "sky", "arguments": {}}, **open_session(lending)))
    answers(lending, next(events)["id"], {"action": action})
    (last,) = events
    assert json.loads(last["result"]["content"][0]["text"]) == {"action": action}


def test_an_answer_that_does_not_fit_is_told(lending, monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    events = events_of(old(lending, "tools/call", {"name": "sky", "arguments": {}}, **open_session(lending)))
    answers(lending, next(events)["id"], {"action": "accept", "content": {"branch": 7}})
    (last,) = events
    assert last["result"]["isError"] is True
    assert "branch" in last["result"]["content"][0]["text"]


def test_a_client_of_the_older_era_confirms_what_destroys(owner, vendor, monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True))
    client = runtime(owner, agent)
    headers = open_session(client)
    for answer in ({"action": "decline"}, {"action": "accept", "content": {"confirm": False}}):
        events = events_of(old(client, "tools/call", GIVEN, **headers))
        question = next(events)
        assert question["params"]["requestedSchema"]["required"] == ["confirm"]
        answers(client, question["id"], answer)
        (last,) = events
        assert last["result"]["_meta"] == {"pegboard/code": "not_confirmed"}
    with monkeypatch.context() as patch:
        no_place(patch, client)
        refused = old(client, "tools/call", GIVEN, **headers).json()["result"]
        assert refused["_meta"] == {"pegboard/code": "not_confirmed"}
    assert vendor.requests == []
    events = events_of(old(client, "tools/call", GIVEN, **headers))
    answers(client, next(events)["id"], {"action": "accept", "content": {"confirm": True}})
    (last,) = events
    assert last["result"]["structuredContent"] == {"Sky_now": "fair"}
    assert len(vendor.requests) == 1


def no_time(patch, lending):
    patch.setattr(asking, "STREAM_SECONDS", -1.0)


def no_place(patch, lending):
    patch.setitem(SLOTS, "questions", StreamSlots(lambda: 0))


def no_broker(patch, lending):
    class Away:
        def set(self, *_, **__):
            raise redis.ConnectionError

        mget = set

    patch.setattr(shared_state, "redis_client", SimpleNamespace(client=Away))


@pytest.mark.parametrize("break_connection", [no_time, no_place, no_broker])
def test_a_question_that_cannot_be_put_is_told(break_connection, lending, monkeypatch):
    headers = open_session(lending)
    break_connection(monkeypatch, lending)
    answer = old(lending, "tools/call", {"name": "sky", "arguments": {}}, **headers)
    *_, last = events_of(answer) if answer.streaming else [answer.json()]
    assert last["result"]["_meta"]["pegboard/outcome"] == "needs_input"
    assert "Which branch?" in "".join(block["text"] for block in last["result"]["content"])


def test_one_key_leaves_places_to_the_others(lending, owner, monkeypatch):
    monkeypatch.setitem(SLOTS, "questions", StreamSlots(lambda: 2, limit_for_key=lambda: 1))
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    call, headers = {"name": "sky", "arguments": {}}, open_session(lending)
    first = old(lending, "tools/call", call, **headers)
    result = old(lending, "tools/call", call, **headers).json()["result"]
    assert result["_meta"]["pegboard/outcome"] == "needs_input"
    other = runtime(owner, agents.Agent.objects.get())
    events = events_of(old(other, "tools/call", call, **headers))
    answers(other, next(events)["id"], {"action": "decline"})
    (last,) = events
    assert "isError" not in last["result"]
    for close in first._resource_closers:
        close()
    assert old(lending, "tools/call", call, **headers).streaming


def test_only_a_client_that_takes_events_and_knows_of_questions_is_asked(lending):
    headers = {**open_session(lending), "Accept": "application/json"}
    result = old(lending, "tools/call", {"name": "sky", "arguments": {}}, **headers).json()["result"]
    assert result["_meta"]["pegboard/outcome"] == "needs_input"
    introduced = {**INTRODUCED, "protocolVersion": "2025-03-26"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": introduced}
    assert "forms" not in post(lending, message)["Mcp-Session-Id"]


def test_no_other_key_answers(lending, owner, monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    events = events_of(old(lending, "tools/call", {"name": "sky", "arguments": {}}, **open_session(lending)))
    number = next(events)["id"]
    answers(runtime(owner, agents.Agent.objects.get()), number, {"action": "decline"})
    answers(lending, number, {"action": "accept", "content": {"branch": "Mole End"}})
    (last,) = events
    assert "Mole End" in last["result"]["content"][0]["text"]


def test_an_answer_is_bounded(lending):
    result = {"action": "accept", "content": {"a": "x" * 70_000}}
    assert post(lending, {"jsonrpc": "2.0", "id": "call-1-0", "result": result}).status_code == 413


def test_only_for_the_user_of_the_call_is_it_answered(lending, vendor):
    def meta(user):
        return {"_meta": {"pegboard/on_behalf_of": user}} if user else {}

    call = {"name": "sky", "arguments": {}}
    needs_input = modern(lending, "tools/call", call | meta("alice"), can=FORMS).json()["result"]
    answer = {"branch": {"action": "accept", "content": {"branch": "Mole End"}}}
    again = {**call, "requestState": needs_input["requestState"], "inputResponses": answer}
    for user in ("mallory", ""):
        assert modern(lending, "tools/call", again | meta(user), can=FORMS).status_code == 404
    assert modern(lending, "tools/call", again | meta("alice"), can=FORMS).json()["result"]["content"]


def careful(line, request):
    """A vendor whose tool asks if its caller supports questions, and else reports the missing capability."""
    message = request.json()
    meta = message.get("params", {}).get("_meta", {})
    elicitation = meta.get(f"{META}clientCapabilities", {}).get("elicitation")
    if message["method"] != "tools/call" or elicitation is None or "form" in elicitation:
        return library(line, request)
    needed = {"requiredCapabilities": {"elicitation": {"form": {}}}}
    error = {"code": -32021, "message": "I have to ask.", "data": needed}
    answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return json_reply(answer, status=400)(line, request)


@pytest.mark.parametrize("can", [{}, {"elicitation": {"url": {}}}, FORMS])
def test_a_vendor_hears_what_the_client_can_ask(lending, vendor, can):
    modern(lending, "tools/call", {"name": "sky", "arguments": {}}, can=can)
    (call_message,) = [
        message.json() for message in vendor.requests if message.json()["method"] == "tools/call"
    ]
    declared = {"form": {}} if can == FORMS else can.get("elicitation")
    assert call_message["params"]["_meta"][f"{META}clientCapabilities"].get("elicitation") == declared


def test_a_client_hears_what_it_has_to_declare_for_a_vendor_that_would_ask(lending, vendor):
    vendor.script = careful
    can = {"elicitation": {"url": {}}}
    answer = modern(lending, "tools/call", {"name": "sky", "arguments": {}}, can=can)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, -32021)
    assert error["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}
    assert "I have to ask." in error["message"]
    call = Call.objects.get()
    assert (call.outcome, call.error_code) == ("refused", "CANNOT_ASK")
