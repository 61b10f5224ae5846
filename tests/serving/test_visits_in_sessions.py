"""A vendor of MCP that sends a user to an address, and remembers by the session that the user was there."""

import json

import pytest
import redis

from catalog.models import Call, Endpoint
from core import open_replies, redis_client
from execution.calls import cancellation
from tests.hostile_vendor import HostileVendor, json_reply, reply
from tests.serving.test_calls import GIVEN, owner, url
from tests.serving.test_questions_on_streams import client, vendor

__all__ = ["client", "owner", "vendor"]
pytestmark = pytest.mark.django_db(transaction=True)
VISIT = {"mode": "url", "message": "Sign in.", "url": "https://v.example/in", "elicitationId": "e1"}
CALL, HELLO = "tools/call", "initialize"


class Remembering:
    """A vendor that sends every call of a new session to its address first."""

    def __init__(self, name="session-of-the-vendor") -> None:
        self.name, self.begun = name, 0
        self.open: dict[str, int] = {}
        self.heard: list[tuple[str, str]] = []

    def __call__(self, line, request):
        session = request.headers.get("mcp-session-id", "")
        if request.method == "DELETE":
            self.heard.append(("DELETE", session))
            del self.open[session]
            return reply(b"", status=204)(line, request)
        if request.method == "GET":
            return reply(b"", status=405)(line, request)
        message = request.json()
        self.heard.append((message["method"], session))
        if message["method"] == HELLO:
            self.begun += 1
            name = f"{self.name}-{self.begun}"
            self.open[name] = 0
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            message_out = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            return json_reply(message_out, headers={"Mcp-Session-Id": name})(line, request)
        if session and session not in self.open:
            return reply(b"Not Found", status=404)(line, request)
        if "id" not in message:
            return reply(b"", status=202)(line, request)
        message_out = {"jsonrpc": "2.0", "id": message["id"]}
        if not session:
            error = {"code": -32000, "message": "Server not initialized"}
            return json_reply({**message_out, "error": error}, status=400)(line, request)
        if message["method"] != CALL:
            tool = {"name": "sky", "inputSchema": {"type": "object"}}
            return json_reply({**message_out, "result": {"tools": [tool]}})(line, request)
        self.open[session] += 1
        if self.open[session] == 1:
            error = {"code": -32042, "message": "Sign in first.", "data": {"elicitations": [VISIT]}}
            return json_reply({**message_out, "error": error})(line, request)
        result = {"content": [{"type": "text", "text": json.dumps(message["params"]["arguments"])}]}
        return json_reply({**message_out, "result": result})(line, request)

    def calls(self):
        return [session for method, session in self.heard if method == CALL]


@pytest.fixture
def library():
    return Remembering()


def open_question(client):
    answer = client.post(url(), GIVEN).json()
    assert (answer["outcome"], [ask["url"] for ask in answer["asks"]]) == ("needs_input", [VISIT["url"]])
    return answer


def resumed(client, answer):
    return client.post(answer["resume"], {"answers": {}}, format="json").json()


def test_the_call_goes_on_in_the_session_that_asked(client, library):
    answer = open_question(client)
    done = resumed(client, answer)
    assert done["outcome"] == "ok"
    first, again = library.calls()
    assert first == again
    # Its session ends with the call, and not before.
    assert library.heard[-1] == ("DELETE", first)
    assert first not in library.open


def test_where_the_session_has_ended_another_is_begun(client, library):
    answer = open_question(client)
    library.open.clear()
    again = resumed(client, answer)
    assert again["outcome"] == "needs_input"
    assert len(set(library.calls())) == 2
    assert resumed(client, again)["outcome"] == "ok"


def test_without_what_was_kept_another_session_is_begun(client, library):
    answer = open_question(client)
    for key in redis_client.client().scan_iter("pegboard:open-replies:*"):
        redis_client.client().delete(key)
    assert resumed(client, answer)["outcome"] == "needs_input"
    assert len(set(library.calls())) == 2


def test_without_the_brokers_server_the_session_ends_at_once(client, library, monkeypatch):
    def away():
        raise redis.ConnectionError

    monkeypatch.setattr(open_replies.redis_client, "client", away)
    open_question(client)
    assert library.heard[-1][0] == "DELETE"


def test_another_origin_does_not_hear_of_the_session(client, library):
    answer = open_question(client)
    with HostileVendor(Remembering("another")) as other:
        Endpoint.objects.update(url=other.url)
        assert resumed(client, answer)["outcome"] == "needs_input"
        assert len(other.requests) > 1
        session_ids = [request.headers.get("mcp-session-id", "") for request in other.requests]
    assert library.calls()[0] not in session_ids


def test_the_session_is_shown_nowhere(client, library, caplog):
    answer = open_question(client)
    done = resumed(client, answer)
    (session, _) = library.calls()
    texts = [json.dumps([answer, done]), caplog.text, *Call.objects.values_list("result", flat=True)]
    addresses = [f"/api/v1/agents/desk/calls/{call.pk}/" for call in Call.objects.all()]
    texts += [client.get(address).content.decode() for address in addresses]
    broker = redis_client.client()
    stored_facts = [broker.get(key) for key in broker.scan_iter("pegboard:open-replies:*:facts")]
    assert stored_facts
    assert not [text for text in [*texts, *stored_facts] if session in text]


def test_a_call_that_is_wanted_no_more_ends_its_session(client, library):
    open_question(client)
    call = Call.objects.get()
    cancellation.abandon_question(call, call.decoded().resume)
    assert library.heard[-1] == ("DELETE", library.calls()[0])
