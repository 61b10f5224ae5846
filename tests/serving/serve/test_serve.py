"""The door of every served protocol: keys, limits, releases, and errors in the protocol's own words."""

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from designer.agents import agents
from designer.models import Receipt
from designer.releases import publishing, retiring
from people.models import AuditEntry, Role
from serving.serve import SERVED
from tests.factories import make_user
from tests.serving.test_calls import desk, desk_with, owner, runtime, vendor

__all__ = ["desk", "owner", "vendor"]
pytestmark = pytest.mark.django_db
PROTOCOLS = [protocol.name for protocol in SERVED]


def root(protocol="mcp", slug="desk", release="live"):
    return f"/serve/{slug}/{release}/{protocol}"


def lists(client, path="/serve/desk/live/mcp", **headers):
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    return client.post(path, message, format="json", headers=headers)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("key_headers", "expected_text"),
    [({}, "Send an API key"), ({"Authorization": "Bearer pgb_short"}, "was it cut off?")],
)
def test_a_key_is_needed_and_a_session_is_none(protocol, key_headers, expected_text, desk, owner):
    browser = Client(headers=key_headers)
    browser.force_login(owner)
    answer = browser.post(root(protocol), b"{}", content_type="application/json")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert answer["Content-Type"] == "application/json"
    assert expected_text in answer.content.decode()


OWN_ADDRESSES = {
    "PUBLIC_URL": "https://pegboard.example",
    "RUNTIMES_URL": "https://run.example:8443",
    "CSRF_TRUSTED_ORIGINS": ["https://front.example", "https://*.pages.example"],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("origin", "is_foreign"),
    [
        ("http://testserver", False),
        ("http://testserver:80", False),
        ("https://pegboard.example", False),
        ("https://pegboard.example:443", False),
        ("https://run.example:8443", False),
        ("https://front.example", False),
        ("https://one.pages.example", False),
        ("https://testserver", True),
        ("http://pegboard.example", True),
        ("http://run.example:8443", True),
        ("https://run.example", True),
        ("https://pegboard.example:8443", True),
        ("http://one.pages.example", True),
        ("https://evil.example", True),
        ("https://pegboard.example.evil.example", True),
        ("null", True),
        ("", True),
        ("https://[", True),
        ("https://pegboard.example:port", True),
    ],
)
def test_pages_of_other_sites_are_refused(protocol, origin, is_foreign, desk, owner):
    agent, _ = desk
    client = runtime(owner, agent)
    with override_settings(**OWN_ADDRESSES):
        answer = client.post(
            root(protocol), b"{}", content_type="application/json", headers={"Origin": origin}
        )
    assert (answer.status_code == 403) == is_foreign


@pytest.mark.parametrize("path", ["", "/tools", "/agents", "/health", "/ping"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_they_are_refused_wherever_no_key_is_needed_too(protocol, path, desk):
    answer = Client().get(root(protocol) + path, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_host_is_checked_for_every_protocol(protocol, desk, owner):
    client = runtime(owner, desk[0])
    with override_settings(PUBLIC_URL="https://pegboard.example"):
        for host, is_served in (("testserver", True), ("evil.example", False), ("testserver:port", False)):
            answer = client.get(root(protocol), headers={"Host": host})
            assert (answer.status_code != 400) == is_served
            assert answer["Content-Type"] == "application/json"


def test_another_agents_key_hears_what_it_would_of_one_that_is_not_there(desk, owner):
    other = agents.create_agent(actor=owner, name="other", slug="other")
    client = runtime(owner, other)
    not_allowed, nowhere = lists(client), lists(client, root(slug="nowhere"))
    assert not_allowed.status_code == nowhere.status_code == 404
    assert not_allowed.content == nowhere.content
    noted = AuditEntry.objects.filter(action="refuse call").values_list("after__agent", flat=True)
    assert set(noted) == {"desk", "nowhere"}


def test_a_release_is_named_by_channel_number_or_digest_and_receipts_say_so(desk, owner):
    agent, _ = desk
    release = agent.releases.get()
    client = runtime(owner, agent)
    for reference in ("live", "1", f"sha256:{release.digest}"):
        assert lists(client, root(release=reference)).status_code == 200
    noted = Receipt.objects.order_by("channel").values_list("surface", "channel")
    assert list(noted) == [("serve/mcp", ""), ("serve/mcp", "live")]
    assert lists(client, root(release="canary")).json()["error"]["data"]["code"] == "channel_empty"
    assert lists(client, root(release="9")).status_code == 404


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_retired_release_says_so_and_ends_at_its_date(protocol, desk, owner, time_machine):
    agent, _ = desk
    old = agent.releases.get()
    agents.update_agent(agent, actor=owner, description="Answers at the desk.")
    publishing.publish(agent, actor=owner, channel="live")
    sunset = timezone.now() + timezone.timedelta(days=1)
    retiring.retire(old, actor=owner, reason="Wrong prices.", sunset_at=sunset, name=str(old))
    client = runtime(owner, agent)
    answer = lists(client, root(protocol, release="1"))
    assert answer["Deprecation"]
    assert answer["Sunset"]
    assert answer["Link"] == f'</serve/desk/2/{protocol}>; rel="successor-version"'
    time_machine.move_to(sunset + timezone.timedelta(hours=1))
    expired = lists(client, root(protocol, release="1"))
    assert expired.status_code == 410
    assert "Read release 2 in its place." in expired.content.decode()


def test_an_earlier_address_of_the_agent_answers_and_says_where_it_is(desk, owner):
    agent, _ = desk
    agents.update_agent(agent, actor=owner, slug="counter")
    answer = lists(runtime(owner, agent))
    assert answer.status_code == 200
    assert answer["Link"] == '</serve/counter/live/mcp>; rel="successor-version"'


def test_a_key_that_lists_does_not_run(desk, owner):
    agent, _ = desk
    client = runtime(owner, agent, scopes=["runtime"])
    assert lists(client).status_code == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sky"}}
    refused = client.post(root(), call, format="json")
    assert refused.status_code == 403
    assert refused.json()["error"]["data"]["code"] == "scope_required"
    assert refused.json()["id"] == 1


@override_settings(CALLS_PER_MINUTE=2)
@pytest.mark.usefixtures("own_limits")
def test_requests_are_counted_as_those_of_the_api(desk, owner):
    client = runtime(owner, desk[0])
    answers = [lists(client).status_code for _ in range(3)]
    assert answers == [200, 200, 429]


@override_settings(WRITES_PER_MINUTE=1, CALLS_PER_MINUTE=2)
@pytest.mark.usefixtures("own_limits")
def test_calls_are_counted_as_those_of_the_api(desk, owner, vendor):
    client = runtime(owner, desk[0])
    call = {"name": "sky", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    # They are no writes, of which there may be one.
    *well, last = (client.post(root(), message, format="json") for _ in range(3))
    assert [response.status_code for response in (*well, last)] == [200, 200, 429]
    assert last["Retry-After"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_body_that_is_too_large_is_refused_in_the_protocols_words(protocol, desk, owner):
    client = runtime(owner, desk[0])
    headers = {"CONTENT_LENGTH": str(50 * 1024**2)}
    for size in (2, 50):
        headers = {"CONTENT_LENGTH": str(size * 1024**2)}
        answer = client.generic("POST", root(protocol), b"{}", content_type="application/json", **headers)
        assert answer.status_code == 413
        assert "larger than" in answer.content.decode()
        assert answer["Content-Type"] == "application/json"
        answer.json()


def test_an_unknown_protocol_names_those_there_are(desk, owner):
    answer = lists(runtime(owner, desk[0]), root("soap"))
    assert answer.status_code == 404
    assert answer.json()["code"] == "unknown_protocol"
    assert "mcp" in answer.json()["message"]


def test_a_viewers_key_lists_and_does_not_run(desk, owner):
    agent, _ = desk
    viewer = make_user(Role.VIEWER)
    client = runtime(viewer, agent)
    assert lists(client).status_code == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sky"}}
    assert client.post(root(), call, format="json").json()["error"]["data"]["code"] == "role_required"


def test_a_sub_agent_is_served_below_the_release(owner, vendor):
    agent, _ = desk_with(owner, vendor)
    helper = agents.create_agent(actor=owner, name="helper", slug="helper", parent=agent)
    assert helper
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)
    names_by_path = {
        path: [
            tool["name"] for tool in lists(client, f"/serve/desk/live{path}/mcp").json()["result"]["tools"]
        ]
        for path in ("", "/agents/desk", "/agents/helper")
    }
    assert names_by_path[""] == names_by_path["/agents/desk"]
    assert len(names_by_path[""]) == 2
    assert names_by_path["/agents/helper"] == []


def test_a_sub_agent_that_is_not_there_is_not_served(desk, owner):
    client = runtime(owner, desk[0])
    for slug in ("nobody", "long" * 50):
        path = f"/serve/desk/live/agents/{slug}"
        assert lists(client, f"{path}/mcp").status_code == 404
        for message in ({"id": 7, "method": "ping"}, {"method": "notifications/initialized"}):
            answer = client.post(f"{path}/mcp", {"jsonrpc": "2.0", **message}, format="json")
            assert answer.status_code == 404
        for protocol in PROTOCOLS:
            assert client.get(f"{path}/{protocol}/tools").status_code == 404
    assert not Receipt.objects.exists()
