"""The era of a vendor, and the messages that count as its answer."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, UnavailableError
from protocols.list_pages import NoKnownPages, UnreadableItemError
from protocols.mcp import rpc
from protocols.mcp import transport as mcp_transport
from protocols.mcp.client import MCP
from tests.core.schema import schemas
from tests.protocols.mcp.test_calls import CAPABILITIES
from tests.scripted import Exchange, ScriptedSession

VERSION = "io.modelcontextprotocol/protocolVersion"
TOOL = {"name": "renew_loan", "inputSchema": {"type": "object"}}
BARE = {"code": -32000, "message": "Bad Request: Server not initialized"}


def request(number, method="tools/list", version="", **params):
    if version:
        params["_meta"] = {
            VERSION: version,
            "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
            "io.modelcontextprotocol/clientInfo": {"name": "Pegboard", "version": "1"},
        }
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def answers(payload, **result):
    return Exchange(
        method="POST", json=payload, body={"jsonrpc": "2.0", "id": payload["id"], "result": result}
    )


def refuses(payload, status, error=None, number=None):
    body = {"jsonrpc": "2.0", "id": number, "error": error} if error else {}
    return Exchange(method="POST", json=payload, status=status, body=body)


def modern(number=2, version=mcp_transport.MODERN[0], tools=(TOOL,), **more):
    return answers(request(number, version=version), resultType="complete", tools=list(tools), **more)


def handshake(version="2025-11-25", session="s1", requested_version="2025-11-25"):
    hello = request(
        1,
        "initialize",
        protocolVersion=requested_version,
        capabilities=CAPABILITIES,
        clientInfo={"name": "Pegboard", "version": "1"},
    )
    opened = answers(hello, protocolVersion=version, capabilities={}, serverInfo={})
    opened.headers = {"mcp-session-id": session} if session else {}
    return [
        opened,
        Exchange(
            method="POST", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, status=202, text=""
        ),
    ]


def tool_list(number=2, tools=(TOOL,), **params):
    return answers(request(number, **params), tools=list(tools))


FIRST = request(2, version=mcp_transport.MODERN[0])
GOODBYE = Exchange(method="DELETE", status=204, text="")


class ToolServer(ScriptedSession):
    """A vendor with tools alone, which gets requests for its other lists after the recorded exchanges."""

    def send(self, request):
        if self.left or json.loads(request.content)["method"] != "server/discover":
            return super().send(request)
        number = json.loads(request.content)["id"]
        error = {"code": -32601, "message": "Method not found"}
        return Exchange(status=404, body={"jsonrpc": "2.0", "id": number, "error": error}).reply(self.root)


def names(*exchanges, memory=None):
    session = ToolServer(*exchanges)
    session.memory.update(memory or {})
    pages = list(MCP().enumerate(session, NoKnownPages()))
    assert not session.left
    return [item.tool_id for page in pages for item in page.items], session


@pytest.mark.parametrize(
    "refusal",
    [
        refuses(FIRST, 400),
        refuses(FIRST, 400, BARE),
        refuses(FIRST, 400, BARE, "server-error"),
        refuses(FIRST, 404),
        refuses(FIRST, 405),
        refuses(FIRST, 200, {"code": -32602, "message": "Received request before initialization"}, 2),
        refuses(FIRST, 400, {"code": -32022, "message": "?", "data": {"supported": ["2025-11-25"]}}, 2),
        refuses(FIRST, 400, {"code": -32022, "message": "?"}, 2),
        Exchange(method="POST", json=FIRST, status=500),
    ],
)
def test_a_vendor_of_old_is_met_with_a_handshake_and_remembered(refusal):
    tool_names, session = names(refusal, *handshake(), tool_list(), GOODBYE)
    assert tool_names == ["renew_loan"]
    assert session.memory == {"era": "handshake", "version": "2025-11-25"}
    assert session.asked[3]["Mcp-Session-Id"] == session.asked[4]["Mcp-Session-Id"] == "s1"
    assert session.asked[3]["MCP-Protocol-Version"] == "2025-11-25"


def test_what_is_remembered_is_not_asked_again():
    tool_names, _ = names(
        *handshake(), tool_list(), GOODBYE, memory={"era": "handshake", "version": "2025-11-25"}
    )
    assert tool_names == ["renew_loan"]
    tool_names, session = names(modern(), memory={"era": "modern", "version": mcp_transport.MODERN[0]})
    assert tool_names == ["renew_loan"]
    assert session.asked[0]["Mcp-Method"] == "tools/list"


def test_a_vendor_that_has_moved_on_is_found_out_anew():
    refused_handshake = refuses(handshake()[0].json, 404)
    tool_names, session = names(
        refused_handshake, modern(), memory={"era": "handshake", "version": "2025-06-18"}
    )
    assert (tool_names, session.memory["era"]) == (["renew_loan"], "modern")


def test_a_vendor_that_has_gone_back_is_found_out_anew():
    tool_names, session = names(
        refuses(FIRST, 400, BARE),
        refuses(request(3, version=mcp_transport.MODERN[0]), 400, BARE),
        *handshake(),
        tool_list(3),
        GOODBYE,
        memory={"era": "modern", "version": mcp_transport.MODERN[0]},
    )
    assert (tool_names, session.memory["era"]) == (["renew_loan"], "handshake")


def test_a_session_that_the_vendor_forgot_is_opened_again_once():
    tool_names, _ = names(
        *handshake(session="s1"),
        answers(request(2), tools=[TOOL], nextCursor="p2"),
        refuses(request(3, cursor="p2"), 404, {"code": -32001, "message": "Session not found"}),
        *handshake(session="s2"),
        tool_list(4, tools=[{**TOOL, "name": "opening_hours"}], cursor="p2"),
        GOODBYE,
        memory={"era": "handshake"},
    )
    assert tool_names == ["renew_loan", "opening_hours"]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26", "2024-11-05"])
def test_older_revisions_are_agreed_on(version):
    _, session = names(refuses(FIRST, 400), *handshake(version, session=""), tool_list())
    assert session.memory["version"] == session.asked[-1]["MCP-Protocol-Version"] == version


def test_a_revision_that_nobody_here_knows_is_said_in_words():
    with pytest.raises(RefusedError) as caught:
        names(refuses(FIRST, 400), handshake("2031-01-01")[0])
    assert caught.value.code == "MCP_VERSION"
    assert "2031-01-01" in caught.value.message
    newer = {"code": -32022, "message": "?", "data": {"supported": ["2031-01-01"]}}
    with pytest.raises(RefusedError) as caught:
        names(refuses(FIRST, 400, newer, 2))
    assert caught.value.code == "MCP_VERSION"


@pytest.mark.parametrize(
    ("reply", "raised", "code"),
    [
        (refuses(FIRST, 404, {"code": -32601, "message": "?"}, 2), RefusedError, "NO_TOOL_LIST"),
        (refuses(FIRST, 400, {"code": -32020, "message": "?"}, 2), ProtocolViolationError, "RPC_ERROR"),
        (refuses(FIRST, 401), RefusedError, "AUTH"),
        (Exchange(method="POST", json=FIRST, status=503), UnavailableError, "HTTP_503"),
        (Exchange(method="POST", json=FIRST, body={"tools": []}), ProtocolViolationError, "SHAPE"),
        (answers(FIRST, resultType="input_required"), ProtocolViolationError, "INPUT_REQUIRED"),
        (answers(FIRST, tools={}), ProtocolViolationError, "SHAPE"),
        (answers(FIRST, tools=[], nextCursor=7), ProtocolViolationError, "BAD_CURSOR"),
        (answers(FIRST, tools=[], nextCursor="\n"), ProtocolViolationError, "BAD_CURSOR"),
        (Exchange(method="POST", json=FIRST, text="<html>", headers={"content-type": "text/html"}),
         ProtocolViolationError, "NOT_JSON"),
    ],
)  # fmt: skip
def test_a_list_that_is_none_says_why(reply, raised, code):
    with pytest.raises(raised) as caught:
        names(reply)
    assert caught.value.code == code
    assert caught.value.message.endswith((".", "?"))


def test_an_address_where_nobody_speaks_this_way_is_told_as_such():
    with pytest.raises(RefusedError) as caught:
        names(refuses(FIRST, 404), refuses(handshake()[0].json, 404))
    assert (caught.value.code, caught.value.message.endswith("is the address right?")) == ("NOT_FOUND", True)
    with pytest.raises(RefusedError) as caught:
        names(refuses(FIRST, 405), refuses(handshake()[0].json, 405))
    assert caught.value.code == "HTTP_405"


def test_a_credential_that_is_missing_is_named_with_the_scope_that_is_asked_for():
    reply = refuses(FIRST, 401)
    reply.headers = {"www-authenticate": 'Bearer resource_metadata="https://v.example/m", scope="loans:read"'}
    with pytest.raises(RefusedError) as caught:
        names(reply)
    assert caught.value.code == "AUTH"
    assert "loans:read" in caught.value.message
    assert "https://v.example/m" in caught.value.message


STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def stream(*documents, first="id: 1\ndata:\n\n: ping\n\n"):
    events = "".join(f"event: message\ndata: {json.dumps(document)}\n\n" for document in documents)
    return Exchange(method="POST", json=FIRST, text=first + events, headers=STREAM)


RESULT = {"jsonrpc": "2.0", "id": 2, "result": {"tools": [TOOL]}}
NEWS = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}


@pytest.mark.parametrize(
    "reply",
    [stream(RESULT), stream(NEWS, PING, RESULT), stream({**RESULT, "id": 1}, RESULT), stream([NEWS, RESULT])],
)
def test_the_answer_is_found_among_other_messages(reply):
    assert names(reply)[0] == ["renew_loan"]


@pytest.mark.parametrize(
    ("reply", "raised", "code"),
    [
        (stream({**RESULT, "id": 1}), ProtocolViolationError, "RPC_MISMATCH"),
        (stream({**RESULT, "id": "2"}), ProtocolViolationError, "RPC_MISMATCH"),
        (stream({**RESULT, "id": True}), ProtocolViolationError, "RPC_MISMATCH"),
        (stream(NEWS, first=""), ProtocolViolationError, "NO_ANSWER"),
        (stream("news"), ProtocolViolationError, "SHAPE"),
        (stream({"jsonrpc": "2.0", "id": 2, "result": []}), ProtocolViolationError, "SHAPE"),
        (stream({"jsonrpc": "2.0", "id": 2, "error": "no"}), ProtocolViolationError, "SHAPE"),
        (stream({"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage"}), RefusedError, "ASKS_BACK"),
    ],
)
def test_a_stream_without_the_answer_says_why(reply, raised, code):
    with pytest.raises(raised) as caught:
        names(reply)
    assert caught.value.code == code


def test_a_stream_that_breaks_off_is_asked_for_its_rest(monkeypatch):
    waited = []
    monkeypatch.setattr(rpc.time, "sleep", waited.append)
    broken = stream(first="id: e7\nretry: 500\ndata:\n\n")
    remainder = Exchange(text=f"id: e8\ndata: {json.dumps(RESULT)}\n\n", headers=STREAM)
    tool_names, session = names(broken, remainder)
    assert (tool_names, waited) == (["renew_loan"], [0.5])
    assert session.asked[1]["Last-Event-ID"] == "e7"


def test_a_stream_whose_rest_is_refused_has_no_answer(monkeypatch):
    monkeypatch.setattr(rpc.time, "sleep", lambda seconds: None)
    with pytest.raises(ProtocolViolationError) as caught:
        names(stream(), Exchange(status=405))
    assert caught.value.code == "NO_ANSWER"


def test_a_vendor_of_old_may_name_the_versions_that_it_speaks():
    hello = handshake("2025-06-18")[0].json
    error = {"code": -32602, "message": "?", "data": {"supported": ["2024-10-07", "2025-06-18"]}}
    tool_names, session = names(
        refuses(FIRST, 400),
        refuses(hello, 400, error, 1),
        *handshake("2025-06-18", requested_version="2025-06-18"),
        tool_list(),
        GOODBYE,
    )
    assert (tool_names, session.memory["version"]) == (["renew_loan"], "2025-06-18")


def page(number, cursor, tools, after=None):
    list_request = request(number, version=mcp_transport.MODERN[0], **({"cursor": cursor} if cursor else {}))
    more = {"nextCursor": after} if after else {}
    return answers(list_request, tools=[{**TOOL, "name": name} for name in tools], **more)


def bad_cursor(number, cursor):
    list_request = request(number, version=mcp_transport.MODERN[0], cursor=cursor)
    return refuses(list_request, 400, {"code": -32602, "message": "Unknown cursor"}, number)


def test_a_cursor_that_ran_out_starts_the_list_over_once():
    tool_names, _ = names(
        page(2, None, ["a", "b"], "p2"),
        bad_cursor(3, "p2"),
        page(4, None, ["a", "b"], "q2"),
        page(5, "q2", ["c"]),
    )
    assert tool_names == ["a", "b", "c"]


def test_a_cursor_that_runs_out_twice_ends_the_list():
    with pytest.raises(ProtocolViolationError) as caught:
        names(
            page(2, None, ["a"], "p2"),
            bad_cursor(3, "p2"),
            page(4, None, ["a"], "q2"),
            bad_cursor(5, "q2"),
        )
    assert caught.value.code == "RPC_ERROR"
    assert "Unknown cursor" in caught.value.message


def test_a_list_that_starts_over_and_goes_in_circles_ends():
    with pytest.raises(ProtocolViolationError) as caught:
        names(
            page(2, None, ["a"], "p2"),
            bad_cursor(3, "p2"),
            page(4, None, ["a"], "q2"),
            page(5, "q2", ["a"], "q2"),
        )
    assert caught.value.code == "CURSOR_LOOP"


def test_a_tool_that_cannot_be_stored_costs_itself_alone():
    session = ToolServer(modern(tools=[TOOL, {**TOOL, "name": "odd", "description": "\0"}]))
    (page_listed,) = MCP().enumerate(session, NoKnownPages())
    assert [item.tool_id for item in page_listed.items] == ["renew_loan"]
    assert [(rejection.tool, rejection.code) for rejection in page_listed.rejected] == [("odd", "JSON_NUL")]


JUNK = st.dictionaries(
    st.sampled_from(["name", "inputSchema", "outputSchema", "annotations", "icons", "title", "execution"]),
    schemas.values | schemas.schemas | schemas.objects(),
)
LIST = st.fixed_dictionaries(
    {"tools": st.lists(JUNK | schemas.values, max_size=4) | schemas.values},
    optional={"nextCursor": schemas.values, "resultType": st.just("complete") | schemas.values},
)


@given(LIST | schemas.values)
def test_whatever_a_vendor_lists_is_read_or_refused_in_our_words(result):
    reply = Exchange(method="POST", json=FIRST, body={"jsonrpc": "2.0", "id": 2, "result": result})
    session = ToolServer(reply)
    session.memory["era"] = "modern"
    try:
        page_listed = next(MCP().enumerate(session, NoKnownPages()))
    except ProtocolError:
        return
    for item in page_listed.items:
        try:
            signature = MCP().read(item.document)
        except UnreadableItemError:
            continue
        MCP().notes(item.document, signature)
        assert MCP().write(signature, item.tool_id, "") == item.document


@given(st.text(max_size=40) | schemas.values.map(json.dumps), st.sampled_from([200, 400, 404]), st.booleans())
def test_whatever_a_vendor_answers_is_read_or_refused_in_our_words(text, status, is_streamed):
    headers = STREAM if is_streamed else {}
    text = f"data: {text}\n\n" if is_streamed else text
    reply = Exchange(method="POST", json=FIRST, text=text, status=status, headers=headers)
    session = ToolServer(reply, refuses(handshake()[0].json, 404))
    with suppress(ProtocolError):
        list(MCP().enumerate(session, NoKnownPages()))


def test_an_error_inside_the_vendor_may_pass():
    session = ToolServer(refuses(FIRST, 200, {"code": -32603, "message": "Oops"}, 2))
    session.memory["era"] = "modern"
    with pytest.raises(UnavailableError) as caught:
        list(MCP().enumerate(session, NoKnownPages()))
    assert "Oops" in caught.value.message


def test_a_tool_that_is_too_large_costs_itself_alone():
    session = ToolServer(modern(tools=[TOOL, {**TOOL, "name": "huge", "x": "a" * 1_100_000}]))
    (page_listed,) = MCP().enumerate(session, NoKnownPages())
    assert [(rejection.tool, rejection.code) for rejection in page_listed.rejected] == [
        ("huge", "SCHEMA_TOO_BIG")
    ]
