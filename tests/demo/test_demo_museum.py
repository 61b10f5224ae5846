"""The museum, as a client of either era meets it. The official client is in test_mcp_official_client."""

import json
import threading
from http.client import HTTPConnection

import pytest

from demo import VENDORS
from demo.__main__ import mcp_server
from demo.museum import TOOLS

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Client:
    def __init__(self, port):
        self.port = port
        self.status = 0
        self.headers = {}

    def send(self, verb, path="/mcp", document=None, headers=None):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request(
                verb, path, body=json.dumps(document) if document else None, headers=headers or {}
            )
            reply = connection.getresponse()
            self.status, self.headers = reply.status, reply.headers
            return reply.read().decode()
        finally:
            connection.close()

    def ask(self, method, params=None, meta=META, **headers):
        request_headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        request_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}}
        return json.loads(self.send("POST", document=document, headers=request_headers))

    def call(self, name, arguments, **headers):
        more = headers.pop("more", {})
        params = {"name": name, "arguments": arguments, **more}
        return self.ask("tools/call", params, Mcp_Name=name, **headers)["result"]

    def of_old(self, method, params=None, **headers):
        document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        request_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return json.loads(self.send("POST", document=document, headers=request_headers))


@pytest.fixture
def museum():
    vendor = next(vendor for vendor in VENDORS if vendor.protocol == "mcp")
    server = mcp_server(0, vendor, None)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Client(server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_tool_is_listed_once_in_pages(museum):
    names, cursor = [], None
    while True:
        page = museum.ask("tools/list", {"cursor": cursor} if cursor else {})["result"]
        names += [tool["name"] for tool in page["tools"]]
        cursor = page.get("nextCursor")
        if not cursor:
            break
    assert names == [tool.name for tool in TOOLS]


@pytest.mark.parametrize(
    ("message_parts", "status", "code"),
    [
        ({"method": "tools/list", "params": {"cursor": "elsewhere"}}, 400, -32602),
        ({"method": "tools/list", "Mcp_Method": "tools/call"}, 400, -32020),
        ({"method": "tools/list", "meta": {}}, 400, -32602),
        ({"method": "prompts/list"}, 404, -32601),
        ({"method": "tools/list", "meta": META | {next(iter(META)): "2030-01-01"}}, 400, -32022),
        ({"method": "tools/call", "params": {"name": "gone"}, "Mcp_Name": "gone"}, 400, -32602),
    ],
)
def test_a_request_that_breaks_the_rules_is_told_which(museum, message_parts, status, code):
    assert museum.ask(**message_parts)["error"]["code"] == code
    assert museum.status == status


def test_an_input_that_belongs_in_a_header_has_to_be_there(museum):
    arguments = {"object_id": "TM-1042", "condition": "WORN"}
    assert museum.call("report_condition", arguments, Mcp_Param_Object="TM-1042")["structuredContent"]
    refused = museum.ask(
        "tools/call", {"name": "report_condition", "arguments": arguments}, Mcp_Name="report_condition"
    )
    assert refused["error"]["code"] == -32020


def test_a_large_group_is_asked_for_a_language_first(museum):
    arguments = {"date": "2027-03-09", "people": 12}
    needs_input = museum.call("book_visit", arguments)
    assert needs_input["resultType"] == "input_required"
    answer = {"guide": {"action": "accept", "content": {"language": "Dutch"}}}
    booked = museum.call("book_visit", arguments, more={"inputResponses": answer})
    assert booked["structuredContent"]["guide_language"] == "Dutch"
    visit = {"visit_id": booked["structuredContent"]["visit_id"]}
    for was_booked in (True, False):
        assert museum.call("cancel_visit", visit)["structuredContent"] == {"was_booked": was_booked}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected_text"),
    [
        ("get_object", {"object_id": "TM-9999"}, "The museum has no object TM-9999."),
        ("get_object", {"object_id": "1042"}, "object_id is not written as it should be"),
        ("get_object", {}, "object_id is missing"),
        ("price_tickets", {"visitors": [{"fare": "DOG", "count": 1}]}, "fare must be one of"),
        ("count_visitors", {"days": 99}, "days must be from 1 to 31"),
        ("count_visitors", {"days": True}, "days must be of type integer"),
        ("get_opening_hours", {"date": "soon"}, "soon is no date"),
    ],
)
def test_a_call_that_cannot_be_done_says_why(museum, tool, arguments, expected_text):
    result = museum.call(tool, arguments)
    assert result["isError"]
    assert expected_text in result["content"][0]["text"]


def test_a_search_comes_as_a_stream(museum):
    params = {"name": "search_objects", "arguments": {"query": "brig", "limit": 2}, "_meta": META}
    document = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "search_objects"}
    body = museum.send("POST", document=document, headers=headers)
    assert museum.headers["Content-Type"] == "text/event-stream"
    assert '"total"' in body


def test_clients_of_old_open_a_session_and_end_it(museum):
    assert museum.of_old("tools/list")["error"]["code"] == -32001
    opened = museum.of_old("initialize", {"protocolVersion": "2025-06-18"})["result"]
    assert opened["protocolVersion"] == "2025-11-25"
    session = {"Mcp-Session-Id": museum.headers["Mcp-Session-Id"]}
    museum.send("POST", document={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    assert museum.status == 202
    assert museum.of_old("tools/list", **session)["result"]["tools"]
    museum.send("DELETE", headers=session)
    assert museum.of_old("tools/list", **session)["error"]["code"] == -32001
    assert museum.status == 404


def test_people_see_a_page(museum):
    assert "Tiderow Museum" in museum.send("GET", "/")
    museum.send("GET", "/mcp")
    assert museum.status == 405
