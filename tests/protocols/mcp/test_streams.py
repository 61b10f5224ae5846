"""Streams as a server may really send them: open for ever, in pieces, or without end."""

import json

import pytest

from core.outbound.addresses import Policy
from core.outbound.errors import ProtocolError, ProtocolViolationError, UnavailableError
from core.outbound.limits import KIB, Limits
from core.outbound.session import HttpSession
from protocols.list_pages import NoKnownPages
from protocols.mcp.client import MCP
from tests.hostile_vendor import HostileVendor, drips, floods, in_turn, raw, then_waits

QUICK = Limits(backoff=(), request=0.6, body=64 * KIB)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
TOOL = {"name": "renew_loan", "inputSchema": {"type": "object"}}


def event(document):
    return f"event: message\r\ndata: {json.dumps(document)}\r\n\r\n".encode()


PRIMING = b"id: 1\ndata:\n\n"
NEWS = event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
ANSWER = event({"jsonrpc": "2.0", "id": 2, "result": {"tools": [TOOL]}})
QUESTION = event({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {}})


def list_tools(script):
    memory = {"era": "modern", "version": "2026-07-28"}
    with (
        HostileVendor(script) as vendor,
        HttpSession(vendor.url, policy=Policy.parse("127.0.0.1/32"), limits=QUICK, memory=memory) as session,
    ):
        return [item.tool_id for page in MCP().enumerate(session, NoKnownPages()) for item in page.items]


@pytest.mark.parametrize(
    "script",
    [
        then_waits(HEAD + PRIMING + NEWS + ANSWER),
        floods(NEWS, after=HEAD + ANSWER),
        raw(HEAD + b": ping\n\n" + ANSWER),
    ],
)
def test_the_answer_is_enough_whatever_follows_it(script):
    assert list_tools(script) == ["renew_loan"]


@pytest.mark.parametrize(
    ("script", "raised", "code"),
    [
        (then_waits(HEAD + PRIMING), UnavailableError, "IDLE"),
        (drips(NEWS * 100, after=HEAD), UnavailableError, "DEADLINE"),
        (floods(NEWS, after=HEAD), ProtocolViolationError, "BODY_TOO_LARGE"),
        (then_waits(HEAD + QUESTION), ProtocolError, "ASKS_BACK"),
        (then_waits(HEAD + b"data: {\n\n"), ProtocolViolationError, "JSON_SYNTAX"),
        (raw(HEAD + ANSWER[:-5]), ProtocolViolationError, "NO_ANSWER"),
    ],
)
def test_a_stream_without_an_answer_ends_in_time(script, raised, code):
    with pytest.raises(raised) as caught:
        list_tools(script)
    assert caught.value.code == code


def test_a_vendor_that_streams_is_asked_again_for_what_broke_off():
    broken = raw(HEAD + b"id: e1\nretry: 1\ndata:\n\n")
    assert list_tools(in_turn(broken, raw(HEAD + ANSWER))) == ["renew_loan"]
