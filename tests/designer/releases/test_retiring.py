"""Every answer of a retired release states it, until the retirement date; its bytes never change."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from catalog import invariants
from designer.agents import agent_keys, agents
from designer.models import Channel, Receipt, Retirement
from designer.pins import tunings
from designer.releases import publishing
from people.models import AuditEntry, Role
from tests.factories import make_agent, make_pin, make_user
from tests.module_data import module_data
from tests.pages import text_of

AGENT = "/api/v1/agents/desk/"
OLD = f"{AGENT}releases/1/"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
READS = ("tools/?format=mcp", "bundle/", "procedures/", "lock/")


@module_data
def desk(alice):
    """Released twice; the second one is live."""
    agent = make_agent(slug="desk", name="Desk")
    pin = make_pin(agent)
    for words in ("One", "Two"):
        tunings.tune(pin, actor=alice, description=words)
        publishing.publish(agent, actor=alice, channel="live")
    return agent


def retire(api, number=1, **members):
    return api.put(
        f"{AGENT}releases/{number}/retirement/", {"reason": "Wrong prices"} | members, format="json"
    )


def tomorrow():
    return (timezone.now() + timedelta(days=1)).isoformat()


def test_a_retired_release_answers_the_same_and_says_since_when_and_what_succeeds_it(api, runtime_api, desk):
    paths = [*READS, "", "signature/"]
    before = {path: runtime_api.get(OLD + path) for path in paths}
    assert not any("Deprecation" in answer or "Sunset" in answer for answer in before.values())

    assert retire(api, name="Desk release 1", sunset_at="2030-06-01T00:00:00Z").status_code == 200
    Retirement.objects.update(retired_at=NOON)
    after = {path: runtime_api.get(OLD + path) for path in paths}

    for path in paths:
        response = after[path]
        # RFC 9745 is a date of structured fields, RFC 8594 one of HTTP.
        assert (response["Deprecation"], response["Sunset"]) == (
            f"@{int(NOON.timestamp())}",
            "Sat, 01 Jun 2030 00:00:00 GMT",
        )
        assert response["Link"] == f'<{AGENT}releases/2/{path}>; rel="successor-version"'
        if path != "":
            assert (response.status_code, response.content) == (200, before[path].content)
    assert after[""].json()["retirement"] == {
        "reason": "Wrong prices",
        "sunset_at": "2030-06-01T00:00:00Z",
        "retired_by": "alice",
        "retired_at": "2026-05-01T12:00:00Z",
    }
    assert "Deprecation" not in runtime_api.get(f"{AGENT}releases/2/bundle/")


def test_the_news_that_it_has_not_changed_says_so_too(api, runtime_api, desk):
    path = f"{OLD}tools/?format=mcp"
    etag = runtime_api.get(path)["ETag"]
    assert runtime_api.get(path, headers={"If-None-Match": etag}).status_code == 304
    retire(api, name="Desk release 1")
    same = runtime_api.get(path, headers={"If-None-Match": etag})
    assert (same.status_code, same["Deprecation"][0], "Sunset" in same) == (304, "@", False)


def test_after_its_date_api_keys_get_it_no_more_and_users_still_do(api, client, alice, runtime_api, desk):
    retire(api, sunset_at=tomorrow())
    digest = f"sha256:{desk.releases.get(number=1).digest}"
    client.force_login(alice)
    Retirement.objects.update(sunset_at=NOON)
    for name in ("1", digest):
        for path in READS:
            response = runtime_api.get(f"{AGENT}releases/{name}/{path}")
            assert (response.status_code, response.json()["code"]) == (410, "release_retired"), path
            assert "Read release 2 in its place" in response.json()["message"]
            assert {"Deprecation", "Sunset", "Link"} <= set(response.headers)
    assert not Receipt.objects.exists()
    # Earlier downloads can still be verified, and looked up.
    assert runtime_api.get(f"{OLD}signature/").status_code == 200
    assert runtime_api.get(OLD).json()["retirement"]["reason"] == "Wrong prices"
    assert client.get(f"{OLD}tools/?format=mcp").status_code == 200
    assert "API keys cannot read it since" in text_of(client.get("/agents/desk/releases/1/"))
    assert api.delete(f"{OLD}retirement/").status_code == 204
    assert runtime_api.get(f"{OLD}bundle/").status_code == 200


def test_no_call_goes_through_it_after_its_date(api, alice, desk):
    tool = desk.pins.get().name
    _, key = agent_keys.issue(alice, actor=alice, name="Runs", scopes=["runtime", "invoke"], agents=[desk])
    caller = APIClient(headers={"authorization": f"Bearer {key}"})
    retire(api, sunset_at=tomorrow())
    Retirement.objects.update(sunset_at=NOON)
    response = caller.post(f"{OLD}tools/{tool}/invoke/", {"arguments": {"city": "Oslo"}}, format="json")
    assert (response.status_code, response.json()["code"]) == (410, "release_retired")


def test_one_that_was_fetched_lately_is_retired_by_its_name_alone(api, runtime_api, desk, settings):
    runtime_api.get(f"{OLD}bundle/")
    refused = retire(api)
    assert (refused.status_code, refused.json()["code"]) == (409, "release_in_use")
    assert "“test” of" in refused.json()["fields"]["name"]
    assert "“Desk release 1”" in refused.json()["message"]
    assert retire(api, name="Desk release 2").status_code == 409
    assert not Retirement.objects.exists()
    Receipt.objects.update(last_at=timezone.now() - timedelta(days=settings.RELEASE_IN_USE_DAYS, minutes=1))
    assert retire(api).status_code == 200
    Receipt.objects.update(last_at=timezone.now())
    assert retire(api, name="Desk release 1", reason="Other prices").json()["retirement"]["reason"] == (
        "Other prices"
    )


def test_a_channel_and_a_retired_release_keep_apart(api, desk):
    api.put(f"{AGENT}channels/canary/", {"release": 2})
    refused = retire(api, 2)
    assert (refused.status_code, refused.json()["code"]) == (409, "release_on_channel")
    assert "“canary” and “live” lead to release 2. Move them" in refused.json()["message"]
    assert retire(api, "live").json()["code"] == "release_on_channel"
    retire(api, 1)
    for channel in ("live", "canary"):
        refused = api.put(f"{AGENT}channels/{channel}/", {"release": 1})
        assert (refused.status_code, refused.json()["code"]) == (409, "release_retired")
    assert invariants.check(["channels_off_retired_releases"]) == []
    Channel.objects.update(release=desk.releases.get(number=1))
    assert [invariant.count for invariant in invariants.check(["channels_off_retired_releases"])] == [2]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"reason": "  "}, "reason"),
        ({"reason": "x" * 2001}, "reason"),
        ({"sunset_at": "2001-01-01T00:00:00Z"}, "sunset_at"),
        ({"sunset_at": "soon"}, "sunset_at"),
        ({"until": "2040-01-01"}, "until"),
    ],
)
def test_what_cannot_be_said_of_a_retirement_is_refused_where_it_is_wrong(api, desk, members, field):
    refused = retire(api, **members)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
    assert field in refused.json()["fields"]
    assert not Retirement.objects.exists()


def test_retiring_and_taking_back_stand_in_the_audit_trail(api, desk):
    retire(api, sunset_at="2040-01-01T00:00:00Z")
    retire(api, sunset_at="2040-01-01T00:00:00Z")
    retire(api)
    for _ in range(2):
        assert api.delete(f"{OLD}retirement/").status_code == 204
    trail = AuditEntry.objects.filter(kind="release").exclude(action="publish").order_by("id")
    assert [(entry.action, entry.label, entry.after, entry.why) for entry in trail] == [
        (
            "retire",
            "Desk release 1",
            {"retired": True, "reason": "Wrong prices", "sunset_at": "2040-01-01T00:00:00+00:00"},
            "Wrong prices",
        ),
        ("retire", "Desk release 1", {"sunset_at": None}, "Wrong prices"),
        ("restore", "Desk release 1", {"retired": False, "reason": ""}, ""),
    ]


def test_the_check_of_a_lock_file_says_it_in_a_sentence(api, runtime_api, desk):
    def check_lock():
        answer = runtime_api.post(f"{AGENT}check/", lock, format="json").json()
        return answer["status"], [
            (change["class"], change["message"])
            for change in answer["changes"]
            if change["code"] == "release_retired"
        ]

    lock = runtime_api.get(f"{OLD}lock/").json()
    assert check_lock() == ("behind", [])
    retire(api, name="Desk release 1", sunset_at="2040-01-01T00:00:00Z")
    assert check_lock() == (
        "behind",
        [
            (
                "notice",
                "Release 1 is retired, and answers until 2040-01-01: “Wrong prices”. Read release 2 in its "
                "place.",
            )
        ],
    )
    Retirement.objects.update(sunset_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert check_lock() == (
        "breaking",
        [
            (
                "breaking",
                "Release 1 is retired, and has not answered since 2020-01-01: “Wrong prices”. Read release 2 "
                "in its place.",
            )
        ],
    )


def test_without_anything_live_the_newest_one_that_is_not_retired_succeeds_it(api, alice, runtime_api):
    agent = make_agent(slug="desk", name="Desk")
    make_pin(agent)
    publishing.publish(agent, actor=alice)
    retire(api)
    alone = runtime_api.get(f"{OLD}bundle/")
    assert ("Deprecation" in alone, "Link" in alone) == (True, False)
    make_pin(agent)
    publishing.publish(agent, actor=alice)
    assert runtime_api.get(f"{OLD}bundle/")["Link"].startswith(f"<{AGENT}releases/2/bundle/>")


def test_one_link_leads_past_an_earlier_address_and_a_retired_release(api, alice, runtime_api, desk):
    retire(api)
    Retirement.objects.update(retired_at=NOON)
    agents.update_agent(desk, actor=alice, slug="counter")
    response = runtime_api.get(f"{OLD}tools/?format=mcp")
    assert response["Link"] == (
        '</api/v1/agents/counter/releases/2/tools/?format=mcp>; rel="successor-version"'
    )
    assert response["Deprecation"] == f"@{int(NOON.timestamp())}"


def test_the_page_asks_for_the_name_of_one_in_use_and_keeps_what_was_typed(alice, runtime_api, desk):
    runtime_api.get(f"{OLD}bundle/")
    page, browser = "/agents/desk/releases/1/", Client()
    browser.force_login(alice)
    assert f"{page}retire/" in browser.get(page).content.decode()
    response = browser.get(f"{page}retire/")
    assert "Type “Desk release 1”" in text_of(response)
    assert "release 2 replaces it" in text_of(response)
    payload = {"reason": "Wrong prices", "sunset_at": "2040-01-01T00:00", "name": "Desk"}
    refused = browser.post(f"{page}retire/", payload)
    assert refused.status_code == 409
    assert "Wrong prices" in refused.content.decode()
    assert "2040-01-01T00:00" in refused.content.decode()
    assert browser.post(f"{page}retire/", payload | {"name": "Desk release 1"}).status_code == 302
    assert Retirement.objects.get().sunset_at == datetime(2040, 1, 1, tzinfo=UTC)
    page_text = text_of(browser.get(page))
    assert "API keys can read it until 2040-01-01 00:00 UTC" in page_text
    assert "Promote to live" not in page_text
    assert "retired" in text_of(browser.get("/agents/desk/releases/"))
    offered = browser.get("/agents/desk/channels/live/").content.decode()
    assert '<option value="2"' in offered
    assert '<option value="1"' not in offered
    browser.post(f"{page}restore/")
    assert not Retirement.objects.exists()


def test_the_page_leads_from_a_release_on_a_channel_to_that_channel(alice, desk):
    browser = Client()
    browser.force_login(alice)
    response = browser.get("/agents/desk/releases/2/retire/")
    assert "/agents/desk/channels/live/" in response.content.decode()
    assert "Reason" not in text_of(response)
    viewer = Client()
    viewer.force_login(make_user(Role.VIEWER))
    assert "Retire" not in text_of(viewer.get("/agents/desk/releases/1/"))


def test_only_the_reason_changes_after_the_date(api, desk):
    retire(api, sunset_at=tomorrow())
    Retirement.objects.update(sunset_at=NOON)
    assert retire(api, reason="Wrong taxes", sunset_at="2026-05-01T12:00:00Z").status_code == 200
    row = Retirement.objects.get()
    assert (row.reason, row.sunset_at) == ("Wrong taxes", NOON)
    assert retire(api, sunset_at="2026-05-01T13:00:00Z").status_code == 400
