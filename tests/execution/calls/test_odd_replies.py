"""Odd replies to a call, in each protocol, through the call of an agent's runtime: the caller's error,
and that nothing of the vendor's headers, cookies or addresses reaches them.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from rest_framework.test import APIClient

from catalog.models import Call, Tool
from catalog.models.circuit import ToolCircuit
from designer.agents import agent_keys, agents
from designer.models import Agent
from designer.releases import publishing
from people.models import Role
from tests.factories import make_user
from tests.hostile.bench import SECRET, Bench
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, Line, Request, Script, floods, raw, reply, then_waits

pytestmark = pytest.mark.django_db
MIB = 1024 * 1024
CANARY = "vendors-own-4711"


def is_call(request: Request) -> bool:
    if request.method != "POST" or request.path.endswith("/search"):
        return False
    return b'"jsonrpc"' not in request.body or request.json()["method"] == "tools/call"


def well(name: str, request: Request, value: Any) -> Any:
    """`value` as this protocol answers a call that went well."""
    match name:
        case "a2t":
            return {"output_parameters": [{"name": "answer", "value": value}]}
        case "oxp":
            return {"call_id": request.json()["call_id"], "success": True, "value": value}
        case "mcp":
            content = [{"type": "text", "text": json.dumps(value)}]
            result = {"resultType": "complete", "content": content, "structuredContent": {"answer": value}}
            return {"jsonrpc": "2.0", "id": request.json()["id"], "result": result}
        case "acp":
            run = {"run_id": "7d0c1f8e-0000-4000-8000-000000000001", "status": "success"}
            return {"run": run, "output": {"type": "result", "values": {"answer": value}}}
    return {"answer": value}


class Desk:
    """An agent whose live release holds one tool of a vendor that speaks `name`, and a key to run it."""

    def __init__(self, vendor: HostileVendor, name: str) -> None:
        owner = make_user(Role.ADMIN)
        self.name, self.vendor = name, vendor
        self.bench = Bench(vendor, DIALECTS[name], owner, count=2)
        self.agent = Agent.objects.get()
        self.tool = Tool.objects.order_by("pk")[0]
        agents.update_agent(self.agent, actor=owner, retry={"retry": "none"})
        publishing.publish(self.agent, actor=owner, channel="live")
        _, self.key = agent_keys.issue(
            owner, actor=owner, name="Desk", scopes=["runtime", "invoke"], agents=[self.agent]
        )
        self.client = APIClient()
        self.client.credentials(HTTP_AUTHORIZATION=f"Bearer {self.key}")
        self.shown = self.agent.pins.get().name
        self.url = f"/api/v1/agents/{self.agent.slug}/releases/live/tools/{self.shown}/invoke/"
        self.calls: list[Request] = []

    def answers(self, script: Script) -> None:
        def answer(line: Line, request: Request) -> bool | None:
            if not is_call(request):
                return self.bench.shop(line, request)
            self.calls.append(request)
            return script(line, request)

        self.vendor.script = answer

    def run(self, script: Script, **headers: str) -> Any:
        ToolCircuit.objects.all().delete()
        self.answers(script)
        return self.client.post(
            self.url, {"arguments": {"city": "Oslo"}, "deadline_seconds": 2}, headers=headers
        )


@contextmanager
def desk_of(name: str) -> Iterator[Desk]:
    with HostileVendor(reply()) as vendor:
        yield Desk(vendor, name)


def odd_reply(name: str, value: Any, **headers: str) -> Script:
    def script(line: Line, request: Request) -> bool | None:
        return reply(json.dumps(well(name, request, value)).encode(), headers=headers)(line, request)

    return script


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
OURS = {"code": "role_required", "message": "You need the administrator role.", "outcome": "ok"}
HOP = {
    "Keep-Alive": "timeout=99",
    "Proxy-Authenticate": "Basic realm=vendor",
    "Upgrade": "h2c",
    "Trailer": "X-Later",
    "X-Vendor": CANARY,
    "Access-Control-Allow-Origin": "*",
    "Strict-Transport-Security": "max-age=0",
}
# The vendor's reply; the outcome, the code and part of the message that the caller receives.
Odd = tuple[Callable[[str], Script], str, str, str]
# The same client reads every protocol's replies, so that these are tried with one.
WIRE: dict[str, Odd] = {
    "headers from hop to hop": (lambda name: odd_reply(name, 1, **HOP), "ok", "", ""),
    "announces 6 MB": (
        lambda name: then_waits(_HEAD + b"Content-Length: 6291456\r\n\r\n"),
        *("tool_error", "BODY_TOO_LARGE", "announced 6 MB; limit 5 MB"),
    ),
    "endless chunks": (
        lambda name: floods(
            b"10000\r\n" + b" " * 65536 + b"\r\n", after=_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        ),
        *("tool_error", "BODY_TOO_LARGE", "sent more than 5 MB"),
    ),
    "gzip bomb": (
        lambda name: reply(gzip.compress(bytes(4_000_000)), headers={"Content-Encoding": "gzip"}),
        *("tool_error", "BODY_RATIO", "expands more than 200 times"),
    ),
    "redirect": (
        lambda name: reply(b"", status=302, headers={"Location": f"http://127.0.0.66/{CANARY}"}),
        *("refused", "REDIRECT", "302 to 127.0.0.66; redirects are not followed"),
    ),
    "NaN": (
        lambda name: reply(b'{"output_parameters": [{"name": "answer", "value": NaN}]}'),
        *("ok", "", ""),
    ),
    "NaN that is cut": (lambda name: reply(b'{"answer": NaN'), "tool_error", "JSON_SYNTAX", "is not JSON"),
    "deep": (
        lambda name: reply(b"[" * 100_000 + b"]" * 100_000),
        *("tool_error", "JSON_DEPTH", "nested too deeply"),
    ),
    "cut": (
        lambda name: raw(_HEAD + b"Content-Length: 1000\r\n\r\n{"),
        *(
            "unavailable",
            "BODY_TRUNCATED",
            "closed after 1 of 1,000 bytes. It is not known whether the tool ran",
        ),
    ),
}
ODD: dict[str, Odd] = {
    "cookies": (lambda name: odd_reply(name, 1, **{"Set-Cookie": f"session={CANARY}; Path=/"}), "ok", "", ""),
    "HTML": (
        lambda name: reply(b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
        *("tool_error", "NOT_JSON", "sent a web page (text/html)"),
    ),
    "not JSON at all": (
        lambda name: reply(b"done!", headers={"Content-Type": "application/json"}),
        *("tool_error", "JSON_SYNTAX", "is not JSON"),
    ),
    "a key twice": (
        lambda name: reply(b'{"success": true, "success": false}'),
        *("tool_error", "JSON_DUPLICATE", 'repeats the key "success"'),
    ),
    "null": (lambda name: reply(b"null"), "tool_error", "SHAPE", "cannot be"),
    "empty": (lambda name: reply(b""), "tool_error", "EMPTY_REPLY", "is empty"),
    "204": (lambda name: reply(b"", status=204), "tool_error", "EMPTY_REPLY", "without a body"),
    "500 with JSON": (
        lambda name: reply(b'{"message": "database is away"}', status=500),
        *("unavailable", "HTTP_500", "answered 500"),
    ),
    "401": (
        lambda name: reply(b"{}", status=401, headers={"WWW-Authenticate": f'Bearer realm="{CANARY}"'}),
        *("needs_authorization", "AUTH", "401"),
    ),
    "our own error": (lambda name: reply(json.dumps(OURS).encode()), "tool_error", "SHAPE", "cannot be"),
    "our own error as 403": (
        lambda name: reply(json.dumps(OURS).encode(), status=403),
        *("refused", "FORBIDDEN", "The credential may not run this tool (403)"),
    ),
    "echo": (
        lambda name: odd_reply(name, f"you said {SECRET}"),
        "refused",
        "ECHO",
        "sent the credential back",
    ),
}
# Where a protocol means something of its own by it.
MEANT = {
    ("openapi", "HTML"): ("ok", "", ""),  # as a text, with the note WEB_PAGE
    ("openapi", "null"): ("ok", "", ""),
    ("openapi", "empty"): ("ok", "", ""),
    ("openapi", "204"): ("ok", "", ""),
    ("openapi", "our own error"): ("ok", "", ""),
    ("a2t", "empty"): ("ok", "", ""),
    ("a2t", "204"): ("ok", "", ""),
    ("acp", "204"): ("unavailable", "STILL_RUNNING", "stopped waiting"),
    ("mcp", "our own error as 403"): ("needs_authorization", "AUTH", "403"),
}
OUR_HEADERS = {
    *(
        "allow",
        "cache-control",
        "content-length",
        "content-security-policy",
        "content-type",
        "cross-origin-opener-policy",
    ),
    *("cross-origin-resource-policy", "permissions-policy", "referrer-policy", "x-content-type-options"),
    *("x-frame-options", "x-request-id"),
}
NEVER_KEPT = {
    *("connection", "keep-alive", "location", "proxy-authenticate", "set-cookie", "trailer", "upgrade"),
    "www-authenticate",
}


@pytest.mark.parametrize(("name", "odd"), [("a2t", WIRE | ODD), *((n, ODD) for n in DIALECTS if n != "a2t")])
def test_odd_replies_are_told_in_our_own_words_and_nothing_else_goes_through(name, odd):
    wrong = []
    with desk_of(name) as desk:
        for what, (script, *usual) in odd.items():
            answer = desk.run(script(name))
            body = answer.json()
            outcome, code, sentence = MEANT.get((name, what), usual)
            error = body["error"] or {"code": "", "message": ""}
            is_told = sentence in error["message"] and not error["message"].startswith(OURS["message"])
            if (answer.status_code, body["outcome"], error["code"], is_told) != (200, outcome, code, True):
                wrong.append((what, answer.status_code, body["outcome"], error))
            text = answer.content.decode()
            headers = {header.lower() for header in answer.headers}
            assert headers <= OUR_HEADERS, what
            assert CANARY not in text + str(answer.headers), what
            assert SECRET not in text, what
            assert answer.cookies == {}, what
        leaked_headers = [
            exchange["reply_headers"].keys() & NEVER_KEPT
            for call in Call.objects.all()
            for attempt in json.loads(call.result).get("attempts", [])
            for exchange in attempt.get("exchanges", [])
            if "reply_headers" in exchange
        ]
    assert wrong == []
    assert len(desk.calls) == len(odd)  # each was sent, and none of them twice
    assert not any("cookie" in request.headers for request in desk.calls)
    assert len(leaked_headers) >= len(odd) - 2
    assert not any(leaked_headers)


FOREIGN = {
    "Cookie": "sessionid=theirs",
    "X-Api-Key": "theirs",
    "Proxy-Authorization": "Basic dGhlaXJz",
    "X-Forwarded-For": "203.0.113.9",
    "Forwarded": "for=203.0.113.9",
    "X-Request-Id": "theirs",
    "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "Idempotency-Key": "theirs",
    "Origin": "https://theirs.example",
    "Referer": "https://theirs.example/",
    "User-Agent": "theirs/1",
    "Accept-Language": "de",
}
# Texts that Pegboard itself sends to vendors.
SPOKEN = {
    *("accept", "accept-encoding", "authorization", "content-length", "content-type", "host", "user-agent"),
    *("connection", "mcp-method", "mcp-name", "mcp-protocol-version", "oxp-version"),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_nothing_that_the_caller_sends_beside_the_arguments_reaches_the_vendor(name):
    with desk_of(name) as desk:
        answer = desk.run(odd_reply(name, 1), **FOREIGN)
        (request,) = desk.calls
    assert answer.json()["outcome"] == "ok"
    assert request.headers.keys() <= SPOKEN
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    said_to_the_vendor = f"{request.target} {request.headers} {request.body.decode()}"
    assert desk.key not in said_to_the_vendor
    assert desk.key[4:26] not in said_to_the_vendor
    assert "theirs" not in said_to_the_vendor
    assert "203.0.113.9" not in said_to_the_vendor
