"""A client of MCP that closes its connection while its call is at the vendor.

Since 2026-07-28 this cancels the call, with or without a stream; before, it has no meaning.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

import socket
import threading

import pytest

from catalog.models import Call
from execution.calls import lease
from people.models import AuditEntry
from protocols.mcp.server import following
from tests.serving.serve.test_mcp import FORMS, modern, old
from tests.serving.serve.test_mcp_following import BOTH, call_followed, chatty
from tests.serving.test_calls import desk_with, runtime

pytestmark = pytest.mark.django_db(transaction=True)


class Line:
    """A connection as the web server passes it to a request. Its client has closed it once the vendor
    received its request."""

    def __init__(self, vendor) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.told: list[str] = []
        vendor.script = self.script

    def script(self, line, request):
        message = request.json()
        self.told.append(message["method"])
        if message["method"] == "tools/call":
            self.theirs.close()
            line.wait(10)
        return chatty(line, request)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def client(owner, vendor):
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())
    return runtime(owner, agent)


@pytest.fixture
def line(client, vendor, monkeypatch):
    monkeypatch.setattr(lease, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(following, "CHECK_SECONDS", 0.05)
    line = Line(vendor)
    client.defaults["gunicorn.socket"] = line.ours
    yield line
    line.close()
    for thread in threading.enumerate():
        if thread.name in ("call", "left", "watch"):
            thread.join(20)


def test_a_call_that_is_waited_for_is_cancelled(client, line):
    call_followed(client)
    assert Call.objects.get().error_code == "CANCELLED"
    entry = AuditEntry.objects.get(action="cancel")
    assert "The client hung up." in entry.why


def test_a_call_that_is_followed_is_cancelled_without_a_word_more(client, line):
    answer = call_followed(client, meta={"progressToken": 1})
    assert b"".join(answer.streaming_content) == b""
    answer.close()
    assert Call.objects.get().error_code == "CANCELLED"


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}])
def test_in_the_older_era_the_call_goes_on(client, line, vendor, meta):
    def script(row, request):
        if request.json()["method"] == "tools/call":
            line.theirs.close()
            row.wait(0.5)
        return chatty(row, request)

    vendor.script = script
    answer = call_followed(client, old, meta=meta)
    if answer.streaming:
        b"".join(answer.streaming_content)
        answer.close()
    assert Call.objects.get().outcome == "ok"


@pytest.mark.parametrize("sends_more", [True, False])
def test_a_client_that_stays_is_answered(client, line, vendor, sends_more):
    def script(row, request):
        if request.json()["method"] == "tools/call":
            if sends_more:
                line.theirs.sendall(b"POST / HTTP/1.1\r\n")
            row.wait(0.5)
        return chatty(row, request)

    vendor.script = script
    answer = call_followed(client)
    assert answer.json()["result"]["content"]
    assert Call.objects.get().outcome == "ok"


def test_a_server_that_hands_over_no_connection_answers(client, vendor):
    vendor.script = chatty
    assert modern(client, "tools/call", {"name": "sky", "arguments": {}}, can=FORMS, **BOTH).json()["result"]
