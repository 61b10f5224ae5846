"""What programs ask is answered as it would be behind all layers."""

import json
import re

import pytest
from django.conf import settings as django_settings
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from designer.agents import agent_keys
from designer.models import Retirement
from people.models import Role
from serving.api import invoke
from serving.serve import views
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor
from tests.serving.test_calls import ANSWER, GIVEN, desk_with

pytestmark = pytest.mark.django_db
HERE = "pegboard.web.short_way.ShortWayMiddleware"
MCP = "/serve/desk/live/mcp"
INVOKE = "/api/v1/agents/desk/releases/live/tools/"
# What two calls never have in common.
OF_ONE_CALL = re.compile(rb'"(call|duration_ms)":\d+')


def mcp(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


ASKED = [
    ("POST", MCP, mcp("tools/list")),
    ("POST", MCP, mcp("tools/call", name="sky", arguments=GIVEN["arguments"])),
    ("POST", MCP, mcp("tools/call", name="sea")),
    ("POST", MCP, b"no json"),
    ("POST", MCP, b" " * 3_000_000),
    ("GET", MCP, b""),
    ("HEAD", MCP, b""),
    ("POST", "/serve/desk/1/mcp", mcp("tools/list")),
    ("POST", "/serve/desk/gone/mcp", mcp("tools/list")),
    ("POST", "/serve/desk/live/agents/desk/mcp", mcp("ping")),
    ("GET", "/serve/desk/live/oxp/health", b""),
    ("GET", "/serve/desk/live/a2t/tools", b""),
    ("GET", "/serve/desk/live/smoke", b""),
    ("GET", "/serve/desk/live/a2t/%00", b""),
    ("GET", "/serve/desk/", b""),
    ("GET", "/serve/", b""),
    ("POST", f"{INVOKE}sky/invoke/", json.dumps(GIVEN).encode()),
    ("POST", f"{INVOKE}sky/invoke/?format=mcp", b'{"arguments": {"place": 1, "x": 2}}'),
    ("POST", f"{INVOKE}sea/invoke/", b"{}"),
    ("POST", f"{INVOKE}sky/invoke/", b"no json"),
    ("POST", f"{INVOKE}sky/invoke/", b" " * 3_000_000),
    ("GET", f"{INVOKE}sky/invoke/", b""),
    ("GET", f"{INVOKE}?format=mcp", b""),
    ("HEAD", f"{INVOKE}?format=mcp", b""),
    ("OPTIONS", INVOKE, b""),
    ("GET", INVOKE.removesuffix("/"), b""),
    ("GET", "/api/v1/agents/?page=gone", b""),
    ("GET", "/api/v1/agents/gone/", b""),
    ("GET", "/api/v1/nowhere/", b""),
    ("GET", "/api/schema/", b""),
]


def answer(key: str, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], object]:
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    headers["X-Request-Id"] = "the-same-number"  # a fault of ours is told with it
    client = Client(raise_request_exception=False)
    reply = client.generic(method, path, body, content_type="application/json", headers=headers)
    content = OF_ONE_CALL.sub(b"", reply.content)
    headers = {name: text for name, text in reply.headers.items() if name != "Content-Length"}
    if method != "HEAD" and "Content-Length" in reply.headers:
        assert int(reply.headers["Content-Length"]) == len(reply.content)
    return reply.status_code, headers, content


def test_the_short_way_answers_as_the_long_one_does(settings, monkeypatch):
    owner = make_user(Role.DESIGNER, username="ada")
    with_short_way = django_settings.MIDDLEWARE
    long = [layer for layer in django_settings.MIDDLEWARE if layer != HERE]
    with HostileVendor(ANSWER) as vendor:
        agent, _ = desk_with(owner, vendor)
        scopes = ("runtime", "invoke")
        _, key = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes, agents=[agent])

        def both(*asked: object) -> list[object]:
            settings.MIDDLEWARE = list(with_short_way)
            short = answer(*asked)
            settings.MIDDLEWARE = long
            assert answer(*asked) == short, asked
            return list(short)

        statuses = {both(key, *each)[0] for each in ASKED} | {both("pgb_no", *ASKED[0])[0]}
        assert statuses >= {200, 401, 404, 405, 413}
        # The successor of a retired release is told of by a layer, and so is a database that is away.
        Retirement.objects.create(
            release=agent.releases.get(), retired_at=timezone.now(), retired_by=owner, reason="Old."
        )
        assert "Deprecation" in both(key, *ASKED[0])[1]
        called = next(each for each in ASKED if each[1].endswith("/invoke/"))
        assert "Deprecation" in both(key, *called)[1]
        for module, asked in ((views, ASKED[0]), (invoke, called)):
            monkeypatch.setattr(module, "found_release", away)
            assert both(key, *asked)[0] == 503
            monkeypatch.setattr(module, "found_release", lambda *_: {}["a fault of ours"])
            assert both(key, *asked)[0] == 500


@pytest.mark.parametrize(
    ("path", "key", "is_short"),
    [
        ("/api/v1/agents/", "Bearer pgb_no", True),
        ("/api/v1/agents/", "", False),
        ("/agents/", "Bearer x", False),
    ],
)
def test_what_is_asked_with_a_key_passes_by_the_session(path, key, is_short):
    reply = Client().get(path, headers={"Authorization": key})
    assert hasattr(reply.wsgi_request, "session") is not is_short


def away(*_: object) -> None:
    raise OperationalError("connection refused")
