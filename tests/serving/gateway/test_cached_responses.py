"""A response out of the cache is what Django would answer now. The access of the key is checked each time."""

import json
from datetime import timedelta

import pytest
import time_machine
from django.core.signals import request_finished, request_started
from django.db import OperationalError, close_old_connections, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from designer.agents import agent_keys, agents
from designer.models import Retirement
from designer.pins import pins
from designer.releases import channels, publishing, release_access
from people import api_keys, teams, users
from people.models import ApiKey, KeyScope, Role, User
from serving.gateway import response_cache
from tests.factories import make_tool, make_user
from tests.module_data import module_data
from tests.serving.gateway.site import EXPORT, MCP, Site, message

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def empty_cache():
    # As Django's test client does: the connection belongs to the test.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    response_cache.clear()
    yield
    response_cache.clear()
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@module_data
def owner():
    return make_user(Role.DESIGNER)


@module_data
def releases(owner):
    agent = agents.create_agent(actor=owner, name="Desk", slug="desk")
    pins.pin_tool(agent, actor=owner, tool=make_tool())
    first = publishing.publish(agent, actor=owner)
    pins.pin_tool(agent, actor=owner, tool=make_tool(name="other"))
    return [first, publishing.publish(agent, actor=owner, channel="live")]


@pytest.fixture
def release(releases):
    return releases[-1]


@pytest.fixture
def site(owner, release):
    scopes = ("runtime", "invoke")
    _, plain = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes, agents=[release.agent])
    site = Site(plain)
    # The first requests write the receipt and the use of the key; the next ones are stored.
    for _ in range(3):
        site.list_tools()
        site.read_unchanged(release.digest)
    return site


READS = {
    "list": lambda site, release: site.list_tools(),
    "304": lambda site, release: site.read_unchanged(release.digest),
}


def from_view(site, read_function, *arguments):
    response_cache.clear()
    return read_function(site, *arguments)


@pytest.mark.parametrize("read_name", READS)
def test_response_is_that_of_the_view_without_calling_it(site, release, read_name):
    calls = site.view_calls
    cached = READS[read_name](site, release)
    assert site.view_calls == calls
    response = from_view(site, READS[read_name], release)
    assert site.view_calls == calls + 1
    assert cached.comparable == response.comparable
    assert cached.status == (200 if read_name == "list" else 304)


def test_304_has_no_headers_of_a_body(site, release):
    reply = site.read_unchanged(release.digest)
    assert set(reply.headers) == {"ETag", "Cache-Control", "Allow", "X-Request-Id"}
    assert reply.headers["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize("below", ["tools/?format=mcp", "tools/?format=json-schema", "bundle/"])
@pytest.mark.parametrize("name", ["live", "2", "sha256"])
@pytest.mark.parametrize("etag", ['"{}"', 'W/"{}"', '"x", "{}"', "*"])
def test_every_form_of_an_unchanged_release(site, release, below, name, etag):
    name = f"sha256:{release.digest}" if name == "sha256" else name
    path = f"/api/v1/agents/desk/releases/{name}/{below}"
    headers = {"If-None-Match": etag.format(release.digest)}
    replies = [site.request("GET", path, **headers) for _ in range(3)]
    calls = site.view_calls
    replies.append(site.request("GET", path, **headers))
    assert (site.view_calls, replies[-1].status) == (calls, 304)
    assert len({str(reply.comparable) for reply in replies}) == 1


@pytest.mark.parametrize("read_name", READS)
def test_each_request_runs_one_query(site, release, read_name):
    with CaptureQueriesContext(connection) as queries:
        READS[read_name](site, release)
    assert len(queries) == 1


@pytest.mark.parametrize("message_id", [2, 10**17, "a-1", "b.2:c"])
def test_response_repeats_the_id_of_its_message(site, message_id):
    calls = site.view_calls
    status, headers, body = site.list_tools(message_id)
    assert (site.view_calls, status, json.loads(body)["id"]) == (calls, 200, message_id)
    assert headers["Content-Length"] == str(len(body))


def test_response_repeats_the_id_of_its_request(site):
    calls = site.view_calls
    ids = [
        site.list_tools(**{"X-Request-Id": request_id}).headers["X-Request-Id"]
        for request_id in ("request-1", "request-2")
    ]
    assert (ids, site.view_calls) == (["request-1", "request-2"], calls)


def test_all_sessions_have_the_same_response(site):
    cached = site.list_tools()
    for session in ("pegboard-0123456789abcdef0123456789abcdef-forms", "another"):
        calls = site.view_calls
        reply = site.list_tools(**{"MCP-Session-Id": session})
        assert (reply.comparable, site.view_calls) == (cached.comparable, calls)
        response_cache.clear()
        assert reply.comparable == site.list_tools(**{"MCP-Session-Id": session}).comparable


UNUSUAL_MESSAGES = {
    "a repeated id": b'{"jsonrpc": "2.0", "id": 1, "id": 1, "method": "tools/list", "params": {}}',
    "an escaped repeated id": b'{"jsonrpc": "2.0", "id": 1, "\\u0069d": 1, "method": "tools/list"}',
    "a fraction as id": b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list", "params": {}}',
    "no id": b'{"jsonrpc": "2.0", "method": "tools/list", "params": {}}',
    "an id elsewhere": b'{"jsonrpc": "2.0", "method": "tools/list", "params": {"id": 1}}',
    "a batch": b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
    "another method": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"of": "tools/list"}}',
    "a cursor": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "x"}}',
    "no JSON": b'{"id": 1, "tools/list"',
    "nothing": b"",
}


@pytest.mark.parametrize("name", UNUSUAL_MESSAGES)
def test_view_answers_unusual_messages(site, name):
    body = UNUSUAL_MESSAGES[name]
    first, second = (site.request("POST", MCP, body) for _ in range(2))
    response_cache.clear()
    assert first == second == site.request("POST", MCP, body)
    calls = site.view_calls
    site.request("POST", MCP, body)
    assert site.view_calls == calls + 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://other.example"},
        {"MCP-Protocol-Version": "2024-11-05"},
        {"MCP-Protocol-Version": "2099-01-01"},
        {"Accept": "text/event-stream"},
        {"Host": "other.example"},
        {"Authorization": "Bearer pgb_short"},
        {"Authorization": "Basic eDp5"},
    ],
)
def test_any_other_header_makes_another_request(site, headers):
    calls = site.view_calls
    reply = site.list_tools(**headers)
    assert site.view_calls == calls + 1
    response_cache.clear()
    assert reply.comparable == site.list_tools(**headers).comparable


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/agents/desk/releases/1/tools/?format=mcp",
        "/api/v1/agents/desk/releases/7/tools/?format=mcp",
        "/api/v1/agents/desk/releases/latest/tools/?format=mcp",
        "/api/v1/agents/nowhere/releases/live/tools/?format=mcp",
        "/api/v1/agents/desk/releases/live/tools/?format=nothing",
        "/api/v1/agents/desk/releases/live/tools/",
        "/api/v1/agents/desk/releases/live/tools/?format=mcp&more=1",
        "/api/v1/agents/desk/releases/live/tools/?format=tool-system",
        "/api/v1/agents/desk/releases/live/bundle/?format=mcp",
        "/api/v1/agents/desk/releases/live/agents/desk/tools/?format=mcp",
        "/api/v1/agents/desk/releases/live/agents/other/tools/?format=mcp",
    ],
)
def test_other_addresses_are_answered_as_by_the_view(site, release, path):
    replies = [site.read_unchanged(release.digest, path) for _ in range(4)]
    response_cache.clear()
    assert {str(reply.comparable) for reply in replies} == {
        str(site.read_unchanged(release.digest, path).comparable)
    }


def move_channel(owner, releases):
    channels.move(releases[0].agent, "live", actor=owner, release=releases[0])


def revoke_key(owner, releases):
    api_keys.revoke(ApiKey.objects.get(), actor=owner)


def name_another_agent(owner, releases):
    other = agents.create_agent(actor=owner, name="Other")
    ApiKey.objects.get().named.update(agent=other)


def deactivate_owner(owner, releases):
    User.objects.filter(pk=owner.pk).update(is_active=False)


def move_agent_to_another_team(owner, releases):
    team = teams.create_team(actor=make_user(Role.ADMIN), name="Sales")
    agents.update_agent(releases[0].agent, actor=owner, team=team)


def remove_agent(owner, releases):
    agents.remove_agent(releases[0].agent, actor=owner)


def retire_release(owner, releases):
    Retirement.objects.create(release=releases[1], retired_at=timezone.now(), retired_by=owner, reason="Old.")


def publish(owner, releases):
    agents.update_agent(releases[0].agent, actor=owner, description="Answers at the desk.")
    publishing.publish(releases[0].agent, actor=owner, channel="live")


CHANGES = [
    *(move_channel, revoke_key, name_another_agent, deactivate_owner, move_agent_to_another_team),
    *(remove_agent, retire_release, publish),
]


@pytest.mark.parametrize("read_name", READS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_change_holds_from_the_next_request_on(owner, site, releases, change, read_name):
    before = READS[read_name](site, releases[1])
    change(owner, releases)
    calls = site.view_calls
    reply = READS[read_name](site, releases[1])
    assert site.view_calls == calls + 1
    assert reply.comparable == from_view(site, READS[read_name], releases[1]).comparable
    # The tools are the same in a release that was published for another description.
    assert reply.comparable != before.comparable or (change, read_name) == (publish, "list")


# A new value for every column of an API key, and whether a reply to a read depends on it.
KEY_COLUMNS = {
    "id": ({}, False),
    "user": ({"user": lambda: make_user(Role.VIEWER)}, False),
    "name": ({"name": "Other"}, False),
    "prefix": ({"prefix": "pgb_other"}, False),
    "digest": ({"digest": "0" * 64}, True),
    "scopes": ({"scopes": [], "is_narrowed": False}, True),
    # Without the agents that are named for it, a narrowed key reaches none.
    "is_narrowed": ({"is_narrowed": True, "named": []}, True),
    "calls_at_once": ({"calls_at_once": 1}, False),
    "environment": ({"environment": "gone"}, {"304": True, "list": False}),
    "created_at": ({"created_at": timezone.now()}, False),
    "expires_at": ({"expires_at": timezone.now()}, True),
    "last_used_at": ({"last_used_at": None}, False),
    "revoked_at": ({"revoked_at": timezone.now()}, True),
    "reported_at": ({"reported_at": timezone.now()}, False),
}


def test_all_columns_of_an_api_key_are_tested():
    """A new column needs an entry above: release_access.py must not forget a new condition."""
    assert KEY_COLUMNS.keys() == {field.name for field in ApiKey._meta.concrete_fields}


@pytest.mark.parametrize("read_name", READS)
@pytest.mark.parametrize("column", KEY_COLUMNS)
def test_reply_after_a_change_of_the_key_is_that_of_the_view(site, release, column, read_name):
    before = READS[read_name](site, release)
    values, is_condition = KEY_COLUMNS[column]
    if not isinstance(is_condition, bool):
        is_condition = is_condition[read_name]
    key = ApiKey.objects.get()
    if "named" in values:
        key.named.all().delete()
    fields = {name: value() if callable(value) else value for name, value in values.items()}
    fields.pop("named", None)
    if fields:
        ApiKey.objects.filter(pk=key.pk).update(**fields)
    reply = READS[read_name](site, release)
    assert reply.comparable == from_view(site, READS[read_name], release).comparable
    assert (reply.comparable != before.comparable) == is_condition


@pytest.mark.parametrize("scope", KeyScope.values)
@pytest.mark.parametrize("is_narrowed", [False, True])
@pytest.mark.parametrize("read_name", READS)
def test_reply_to_each_scope_is_that_of_the_view(site, release, scope, is_narrowed, read_name):
    ApiKey.objects.update(scopes=[scope], is_narrowed=is_narrowed)
    reply = READS[read_name](site, release)
    assert reply.comparable == from_view(site, READS[read_name], release).comparable


def test_each_release_has_its_own_response(owner, site, releases):
    newest = site.list_tools()
    move_channel(owner, releases)
    for _ in range(3):
        oldest = site.list_tools()
    calls = site.view_calls
    assert (site.list_tools(), site.view_calls) == (oldest, calls)
    channels.move(releases[0].agent, "live", actor=owner, release=releases[1])
    assert (site.list_tools(), site.view_calls) == (newest, calls)
    assert newest.body != oldest.body


def test_each_key_has_its_own_response(owner, site, release):
    other = agents.create_agent(actor=owner, name="Other")
    scopes = ("runtime", "invoke")
    _, stranger = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes, agents=[other])
    assert site.list_tools(Authorization=f"Bearer {stranger}").status == 404
    _, colleague = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes, agents=[release.agent])
    calls = site.view_calls
    assert site.list_tools(Authorization=f"Bearer {colleague}") == site.list_tools()
    assert site.view_calls == calls + 1


def test_keys_of_teams_and_administrators_reach_what_they_may(owner, site, release):
    team = teams.create_team(actor=make_user(Role.ADMIN), name="Sales")
    agents.update_agent(release.agent, actor=owner, team=team)
    assert site.read_unchanged(release.digest).status == 404
    teams.add_member(team, owner, actor=make_user(Role.ADMIN))
    assert site.read_unchanged(release.digest).status == 304
    admin = make_user(Role.ADMIN)
    _, plain = api_keys.issue(admin, actor=admin, name="Key", scopes=["runtime"])
    assert [
        site.read_unchanged(release.digest, Authorization=f"Bearer {plain}").status for _ in range(4)
    ] == [304] * 4


@pytest.mark.parametrize("read_name", READS)
def test_too_many_requests_are_refused(site, release, settings, read_name):
    settings.CALLS_PER_MINUTE = 3
    # In another minute than the requests that filled the cache.
    with time_machine.travel(timezone.now().replace(second=30) + timedelta(minutes=2), tick=False):
        statuses = [READS[read_name](site, release).status for _ in range(6)]
    assert statuses == [statuses[0]] * 3 + [429] * 3


def test_receipt_and_last_use_are_still_written(site, release):
    with time_machine.travel(timezone.now() + timedelta(hours=2)):
        calls = site.view_calls
        site.list_tools()
        assert site.view_calls == calls + 1
        key = ApiKey.objects.get()
        assert timezone.now() - key.last_used_at < timedelta(minutes=1)
        last = release.receipts.get(surface="serve/mcp").last_at
        assert timezone.now() - last < timedelta(minutes=1)


@pytest.mark.parametrize("read_name", READS)
def test_each_request_has_its_log_line(site, release, caplog, read_name):
    def lines():
        caplog.clear()
        with caplog.at_level("INFO", "pegboard.requests"):
            READS[read_name](site, release)
        return [(record.getMessage(), record.facts | {"ms": 0}) for record in caplog.records]

    cached = lines()
    assert len(cached) == 1
    response_cache.clear()
    assert cached == lines()


def test_view_reports_an_unavailable_database(site, monkeypatch):
    read = release_access.read_prepared

    def fail_in_the_gateway(sql, values):
        if "surface" in values:
            raise OperationalError("connection refused")
        return read(sql, values)

    monkeypatch.setattr(release_access, "read_prepared", fail_in_the_gateway)
    monkeypatch.setattr(connection, "close", lambda: None)
    calls = site.view_calls
    assert site.list_tools().status == 200
    assert site.view_calls == calls + 1


def test_cache_is_bounded(site, monkeypatch):
    monkeypatch.setattr(response_cache, "MAX_BYTES", 20_000)
    for number in range(100):
        site.list_tools(**{"X-Other": f"{number}"})
    assert len(response_cache._responses) < 50


def test_changed_export_is_not_stored(site):
    for _ in range(3):
        reply = site.read_unchanged("0" * 64)
        assert (reply.status, bool(reply.body)) == (200, True)
    calls = site.view_calls
    site.read_unchanged("0" * 64)
    assert site.view_calls == calls + 1


def test_viewer_lists_the_same(owner, site):
    users.update_user(owner, actor=make_user(Role.ADMIN), role=Role.VIEWER)
    reply = site.list_tools()
    response_cache.clear()
    assert reply.comparable == site.list_tools().comparable


def test_export_and_list_are_the_addresses_of_this_test(site, release):
    assert site.request("GET", EXPORT).headers["ETag"] == f'"{release.digest}"'
    assert site.request("POST", MCP, message("ping")).status == 200
