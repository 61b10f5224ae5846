"""Views of programs answer behind the gateway as they do behind all middleware."""

import json
import re

import pytest
from django.core.signals import request_finished, request_started
from django.db import OperationalError, close_old_connections
from django.utils import timezone

from designer.agents import agent_keys
from designer.models import Retirement
from people.models import Role
from serving.api import invoke
from serving.gateway import response_cache
from serving.serve import views
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor
from tests.serving.gateway.site import MCP, Site, message
from tests.serving.test_calls import ANSWER, GIVEN, desk_with

pytestmark = pytest.mark.django_db
INVOKE = "/api/v1/agents/desk/releases/live/tools/"
# Two calls never have these in common.
OF_ONE_CALL = re.compile(rb'"(call|duration_ms)":\d+')


@pytest.fixture(autouse=True)
def test_connection():
    # As Django's test client does: the connection belongs to the test.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    response_cache.clear()
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


REQUESTS = [
    ("POST", MCP, message("tools/list")),
    ("POST", MCP, message("tools/call", name="sky", arguments=GIVEN["arguments"])),
    ("POST", MCP, message("tools/call", name="sea")),
    ("POST", MCP, b"no json"),
    ("POST", MCP, b" " * 3_000_000),
    ("GET", MCP, b""),
    ("HEAD", MCP, b""),
    ("POST", "/serve/desk/1/mcp", message("tools/list")),
    ("POST", "/serve/desk/gone/mcp", message("tools/list")),
    ("POST", "/serve/desk/live/agents/desk/mcp", message("ping")),
    ("GET", "/serve/desk/live/oxp/health", b""),
    ("GET", "/serve/desk/live/a2t/tools", b""),
    ("GET", "/serve/desk/live/smoke", b""),
    ("GET", "/serve/desk/live/a2t/%00", b""),
    ("GET", "/serve/desk/live/a2t/%FF", b""),
    ("GET", "/serve/desk/live/a2t/%C3%A4", b""),
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


def comparable(site: Site, *request: object) -> tuple[int, dict[str, str], bytes]:
    reply = site.request(*request, Accept="application/json, text/event-stream")
    length = reply.headers.pop("Content-Length", None)
    if length is not None and request[0] != "HEAD":
        assert int(length) == len(reply.body)
    return reply.status, reply.headers, OF_ONE_CALL.sub(b"", reply.body)


def test_replies_are_those_behind_all_middleware(monkeypatch):
    owner = make_user(Role.DESIGNER, username="ada")
    with HostileVendor(ANSWER) as vendor:
        agent, _ = desk_with(owner, vendor)
        scopes = ("runtime", "invoke")
        _, key = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes, agents=[agent])

        def both(key, *request):
            reply = comparable(Site(key), *request)
            assert comparable(Site(key, has_gateway=False), *request) == reply, request
            return list(reply)

        statuses = {both(key, *request)[0] for request in REQUESTS} | {both("pgb_no", *REQUESTS[0])[0]}
        assert statuses >= {200, 401, 404, 405, 413}
        # Middleware adds the successor of a retired release, and reports an unavailable database.
        Retirement.objects.create(
            release=agent.releases.get(), retired_at=timezone.now(), retired_by=owner, reason="Old."
        )
        assert "Deprecation" in both(key, *REQUESTS[0])[1]
        call = next(request for request in REQUESTS if request[1].endswith("/invoke/"))
        assert "Deprecation" in both(key, *call)[1]
        for module, request in ((views, REQUESTS[0]), (invoke, call)):
            monkeypatch.setattr(module, "find_release", fail)
            assert both(key, *request)[0] == 503
            monkeypatch.setattr(module, "find_release", lambda *_: {}["a fault of ours"])
            assert both(key, *request)[0] == 500


def fail(*_: object) -> None:
    raise OperationalError("connection refused")


@pytest.mark.parametrize(
    ("path", "authorization", "is_page"),
    [
        ("/api/v1/agents/", "Bearer pgb_no", False),
        ("/api/v1/agents/", "", True),
        ("/serve/nowhere", "Bearer pgb_no", True),
        ("/serve/desk/live/mcp", "", False),
        ("/agents/", "Bearer x", True),
    ],
)
def test_requests_of_programs_have_no_session(monkeypatch, path, authorization, is_page):
    sessions = []
    middleware = "django.contrib.sessions.middleware.SessionMiddleware.process_request"
    monkeypatch.setattr(middleware, lambda _, request: sessions.append(request))
    monkeypatch.setattr(
        "django.contrib.auth.middleware.AuthenticationMiddleware.process_request", lambda *_: None
    )
    monkeypatch.setattr(
        "django.contrib.sessions.middleware.SessionMiddleware.process_response", lambda _, __, reply: reply
    )
    Site("").request("GET", path, Authorization=authorization)
    assert bool(sessions) is is_page
