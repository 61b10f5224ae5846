"""Channels lead runtimes to releases, and move when a designer moves them."""

import threading
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, connections, transaction
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from designer.agents import agents
from designer.models import Channel, ChannelMove, Receipt, Release
from designer.pins import tunings
from designer.releases import channels, publishing
from people import api_keys
from people.models import AuditEntry, KeyScope, Role
from tests.clients import bearer, client_of
from tests.factories import make_agent, make_pin, make_user
from tests.module_data import module_data
from tests.pages import text_of

AGENT = "/api/v1/agents/desk/"


@module_data
def desk(alice):
    """Released three times, and on no channel."""
    agent = make_agent(slug="desk", name="Desk")
    pin = make_pin(agent)
    for words in ("One", "Two", "Three"):
        tunings.tune(pin, actor=alice, description=words)
        publishing.publish(agent, actor=alice)
    return agent


def browser_of(user):
    browser = Client()
    browser.force_login(user)
    return browser


def move(api, release, channel="live", **more):
    return api.put(f"{AGENT}channels/{channel}/", {"release": release, **more})


def live(api):
    answer = api.get(f"{AGENT}releases/live/")
    return answer.json()["number"] if answer.status_code == 200 else answer.json()["code"]


def test_publishing_moves_no_channel_unless_the_same_request_asks_for_it(api, runtime_api, desk):
    assert live(runtime_api) == "channel_empty"
    assert "Release 3" not in api.get(f"{AGENT}releases/live/tools/?format=mcp").json()["message"]
    make_pin(desk)
    published = api.post(f"{AGENT}releases/", {"channel": "live"}).json()
    assert (live(runtime_api), published["number"]) == (4, 4)
    make_pin(desk)
    api.post(f"{AGENT}releases/")
    assert live(runtime_api) == 4


def test_a_channel_is_promoted_and_rolled_back_and_keeps_who_did_it(api, bobs_api, runtime_api, desk):
    assert move(api, 2, note="The first").json()["release"] == 2
    assert move(bobs_api, "3").json()["release"] == 3
    assert move(api, 1, note="Three is slow").status_code == 200
    assert live(runtime_api) == 1

    channel = runtime_api.get(f"{AGENT}channels/live/").json()

    assert [
        (move["action"], move["before"], move["release"], move["moved_by"]) for move in channel["history"]
    ] == [
        ("roll back", 3, 1, "alice"),
        ("promote", 2, 3, "bob"),
        ("promote", None, 2, "alice"),
    ]
    assert (channel["release"], channel["moved_by"], channel["note"]) == (1, "alice", "Three is slow")
    trail = AuditEntry.objects.filter(kind="channel").order_by("id")
    assert [(entry.action, entry.before, entry.after, entry.why) for entry in trail] == [
        ("promote", {"release": None}, {"release": 2}, "The first"),
        ("promote", {"release": 2}, {"release": 3}, ""),
        ("roll back", {"release": 3}, {"release": 1}, "Three is slow"),
    ]


def test_every_path_of_a_release_takes_a_channel(api, alice, desk):
    move(api, 2)
    move(api, "live", channel="canary-eu")
    move(api, 3)
    runtime = bearer(alice, KeyScope.RUNTIME)
    digest = Release.objects.get(agent=desk, number=2).digest
    for path in ("bundle/", "tools/?format=mcp"):
        answer = runtime.get(f"{AGENT}releases/canary-eu/{path}")
        assert answer["ETag"] == f'"{digest}"'
        unchanged = {"If-None-Match": f'"{digest}"'}
        assert runtime.get(f"{AGENT}releases/canary-eu/{path}", headers=unchanged).status_code == 304
        assert runtime.get(f"{AGENT}releases/live/{path}", headers=unchanged).status_code == 200
    assert api.get(f"{AGENT}releases/live/diff/?against=canary-eu").json()["against"] == 2


def test_live_is_listed_before_anything_was_promoted(api, desk):
    (only,) = api.get(f"{AGENT}channels/").json()["results"]
    assert (only["name"], only["release"], only["digest"]) == ("live", None, None)
    api.put(f"{AGENT}channels/", {"channel": "canary", "release": 3})
    api.put(f"{AGENT}channels/", {"channel": "beta", "release": 2})
    assert [row["name"] for row in api.get(f"{AGENT}channels/").json()["results"]] == [
        "live",
        "beta",
        "canary",
    ]


def test_a_channel_is_closed_and_live_is_not(api, desk):
    move(api, 3)
    move(api, 3, channel="canary")
    assert move(api, None, channel="canary").json()["history"][0]["action"] == "close"
    assert api.get(f"{AGENT}releases/canary/").json()["code"] == "channel_empty"
    assert [row["name"] for row in api.get(f"{AGENT}channels/").json()["results"]] == ["live"]
    refused = move(api, None)
    assert (refused.status_code, refused.json()["code"]) == (409, "live_stays")


@pytest.mark.parametrize(
    ("channel", "body", "status", "code"),
    [
        ("live", {"release": 9}, 404, "not_found"),
        ("live", {"release": "canary"}, 404, "channel_empty"),
        ("live", {"release": True}, 400, "invalid"),
        ("live", {"release": []}, 400, "invalid"),
        ("live", {}, 400, "invalid"),
        ("live", {"release": 1, "expected": -1}, 400, "invalid"),
        ("live", {"release": 1, "note": "x" * 2001}, 400, "invalid"),
        ("Live", {"release": 1}, 400, "invalid"),
        ("1st", {"release": 1}, 400, "invalid"),
        ("x" * 31, {"release": 1}, 400, "invalid"),
    ],
)
def test_what_is_no_channel_or_no_release_is_refused(api, desk, channel, body, status, code):
    answer = api.put(f"{AGENT}channels/{channel}/", body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert not Channel.objects.exists()


def test_a_release_of_another_agent_is_never_led_to(api, alice, desk):
    other = make_agent(slug="other")
    make_pin(other)
    digest = publishing.publish(other, actor=alice).digest
    assert move(api, f"sha256:{digest}").status_code == 404


def test_an_agent_has_a_few_channels(api, desk, monkeypatch):
    monkeypatch.setattr(channels, "MAX_CHANNELS", 2)
    assert move(api, 1).status_code == move(api, 1, channel="canary").status_code == 200
    assert move(api, 1, channel="third").json()["code"] == "too_many_channels"
    assert move(api, 2, channel="canary").status_code == 200


def test_the_second_of_two_who_move_at_once_is_told_who_was_first(api, bobs_api, desk):
    move(api, 1)
    assert move(bobs_api, 2, expected=1).status_code == 200
    late = move(api, 3, expected=1)
    assert (late.status_code, late.json()["code"]) == (409, "channel_moved")
    assert "bob has moved “live”" in late.json()["message"]
    assert "release 2" in late.json()["message"]
    make_pin(desk)
    late = api.post(f"{AGENT}releases/", {"channel": "live", "expected": 1})
    assert late.json()["code"] == "channel_moved"
    assert (live(api), desk.releases.count()) == (2, 3)


@pytest.mark.django_db(transaction=True)
def test_of_two_promotions_at_the_same_moment_one_wins():
    alice, bob = make_user(Role.DESIGNER), make_user(Role.DESIGNER)
    desk = agents.create_agent(actor=alice, name="Desk")
    pin = make_pin(desk)
    first = publishing.publish(desk, actor=alice, channel="live")
    tunings.tune(pin, actor=alice, description="Two")
    second = publishing.publish(desk, actor=alice)
    tunings.tune(pin, actor=alice, description="Three")
    third = publishing.publish(desk, actor=alice)
    outcomes, start = [], threading.Barrier(2)

    def promote(actor, release):
        start.wait()
        try:
            channels.move(desk, "live", actor=actor, release=release, expected=first.number)
            outcomes.append("moved")
        except channels.DomainError as error:
            outcomes.append(error.code)
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=promote, args=arguments) for arguments in ((alice, second), (bob, third))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["channel_moved", "moved"]
    assert ChannelMove.objects.count() == 2


def test_moving_to_where_it_leads_changes_nothing(api, desk):
    move(api, 2)
    assert move(api, 2).status_code == 200
    assert ChannelMove.objects.count() == 1


def test_viewers_and_other_teams_move_nothing(alice, desk):
    viewer = client_of(make_user(Role.VIEWER))
    assert move(viewer, 1).status_code == 403
    assert not ChannelMove.objects.exists()


@pytest.mark.parametrize(
    "change", ["UPDATE designer_channelmove SET note = 'x'", "DELETE FROM designer_channelmove"]
)
def test_the_history_of_a_channel_is_never_rewritten(api, desk, change):
    move(api, 1)
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change.format("designer_channelmove"))
    assert ChannelMove.objects.get().note == ""


def test_the_page_of_a_channel_says_what_a_move_changes_and_makes_it(alice, api, desk):
    move(api, 3)
    browser = browser_of(alice)
    page = browser.get("/agents/desk/channels/live/?release=1")
    assert "Roll back live: release 3 → 1" in text_of(page)
    assert "Three" in text_of(page)
    answer = browser.post(
        "/agents/desk/channels/live/?release=1",
        {"release": "1", "led_to": "3", "note": "Too slow"},
        follow=True,
    )
    assert "“live” now points to release 1." in text_of(answer)
    assert live(api) == 1
    assert "Rolled back to release 1" in text_of(browser.get("/agents/desk/channels/live/"))


def test_a_late_move_shows_where_the_channel_leads_now(alice, api, bobs_api, desk):
    move(api, 1)
    move(bobs_api, 2)
    browser = browser_of(alice)
    answer = browser.post("/agents/desk/channels/live/", {"release": "3", "led_to": "1", "note": "My reason"})
    assert answer.status_code == 409
    assert "bob has moved “live”" in text_of(answer)
    page = answer.content.decode()
    assert 'name="led_to" value="2"' in page
    assert "My reason" in page
    assert live(api) == 2


def test_a_channel_is_named_on_the_page_of_releases(alice, api, desk):
    browser = browser_of(alice)
    answer = browser.get("/agents/desk/channels/?name=Canary&release=2", follow=True)
    assert "Promote release 2 to canary" in text_of(answer)
    assert "starts with a letter" in text_of(browser.get("/agents/desk/channels/?name=2nd", follow=True))
    move(api, 2, channel="canary")
    assert "canary → release 2" in text_of(browser.get("/agents/desk/releases/"))
    browser.post("/agents/desk/channels/canary/", {"release": "0", "led_to": "2"})
    assert "canary →" not in text_of(browser.get("/agents/desk/releases/"))


def test_pages_say_which_api_key_reads_which_channel(client, alice, desk):
    channels.move(desk, "live", actor=alice, release=desk.releases.get(number=2))
    keys = {}
    for name in ("Orders", "Old one", "By number"):
        keys[name], plain = api_keys.issue(alice, actor=alice, name=name, scopes=["runtime"])
        number = 1 if name == "By number" else "live"
        runtime = APIClient(headers={"authorization": f"Bearer {plain}"})
        assert runtime.get(f"{AGENT}releases/{number}/bundle/").status_code == 200
        runtime.get(f"{AGENT}releases/{number}/lock/")
    api_keys.revoke(keys["Old one"], actor=alice)
    channels.move(desk, "live", actor=alice, release=desk.releases.get(number=3))
    client.force_login(alice)
    for page in ("/agents/desk/publish/", "/agents/desk/releases/3/"):
        page_text = " ".join(text_of(client.get(page)).split())
        runtimes = page_text[page_text.index("Runtimes in the last 30 days") :]
        assert runtimes.count("Orders") == 1
        assert "live → release 3 Orders alice, just now last fetched release 2" in runtimes
        assert "By number or digest By number alice, just now got release 1" in runtimes
        assert "Old one" not in runtimes
    Receipt.objects.update(last_at=timezone.now() - timedelta(days=31))
    assert "No API key has used it." in text_of(client.get("/agents/desk/publish/"))
