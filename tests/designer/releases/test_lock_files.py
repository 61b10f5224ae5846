"""Lock files report changes since, and receipts report which key fetched which tools."""

from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from designer.models import Receipt
from designer.models.pins import PinMode
from designer.pins import pins, tunings
from designer.releases import publishing
from people.models import KeyScope, Role
from tests.clients import bearer, client_of
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.module_data import module_data

AGENT = "/api/v1/agents/desk/"


@module_data
def desk():
    return make_agent(slug="desk", name="Desk")


@module_data
def sky(desk):
    return make_pin(desk, make_tool(make_signature("sky")))


@module_data
def release(alice, desk, sky):
    return publishing.publish(desk, actor=alice, channel="live")


@pytest.fixture
def lock(runtime_api, release):
    return runtime_api.get(f"{AGENT}releases/live/lock/").json()


def check(api, lock):
    return api.post(f"{AGENT}check/", lock, format="json")


def check_lock(api, lock):
    answer = check(api, lock).json()
    return answer["status"], [
        (change["code"], change["class"], change["tool"]) for change in answer["changes"]
    ]


def test_a_lock_file_names_what_a_build_depends_on(runtime_api, lock, desk, sky):
    release = desk.releases.get()
    assert lock == {
        "schema": "pegboard.lock/1",
        "agent": "desk",
        "channel": "live",
        "release": 1,
        "digest": f"sha256:{release.digest}",
        "tools": [
            {
                "name": "sky",
                "vendor": sky.tool.endpoint.vendor.slug,
                "tool_id": sky.tool.tool_id,
                "version": "1",
                "ordinal": 1,
                "digest": sky.version.digest,
                "tuned": False,
            }
        ],
    }
    answer = runtime_api.get(f"{AGENT}releases/1/lock/")
    assert answer.json()["channel"] is None
    assert "pegboard.lock.json" in answer["Content-Disposition"]


def test_nothing_has_moved_right_after(runtime_api, lock):
    assert check_lock(runtime_api, lock) == ("current", [])


def test_a_release_that_breaks_callers_is_breaking(runtime_api, alice, desk, sky, lock):
    signature = make_signature("sky", inputs=(make_parameter(), make_parameter("planet")))
    pins.move_pin(sky, actor=alice, ordinal=make_version(sky.tool, signature).ordinal)
    make_pin(desk, make_tool(make_signature("mail")))
    publishing.publish(desk, actor=alice)
    # Nothing is live that was not promoted; that the vendor has a newer version is news all the same.
    assert check_lock(runtime_api, lock) == ("behind", [("newer_version", "notice", "sky")])
    client_of(alice).put(f"{AGENT}channels/live/", {"release": 2})

    status, changes = check_lock(runtime_api, lock)

    assert status == "breaking"
    assert changes[:3] == [
        ("channel_moved", "compatible", ""),
        ("tool_changed", "breaking", "sky"),
        ("tool_added", "compatible", "mail"),
    ]
    assert "planet" in check(runtime_api, lock).json()["changes"][1]["message"]


def test_words_that_change_do_not_break_a_build(runtime_api, alice, desk, sky, lock):
    tunings.tune(sky, actor=alice, description="Other words")
    publishing.publish(desk, actor=alice, channel="live")
    status, changes = check_lock(runtime_api, lock)
    assert (status, changes[1][0]) == ("behind", "tool_changed")
    assert changes[1][1] != "breaking"


def test_tools_that_go_and_names_that_change_are_breaking(runtime_api, alice, desk, sky, lock):
    pins.set_alias(sky, actor=alice, alias="heaven")
    publishing.publish(desk, actor=alice, channel="live")
    assert ("tool_renamed", "breaking", "sky") in check_lock(runtime_api, lock)[1]
    make_pin(desk)
    pins.remove_pin(sky, actor=alice)
    publishing.publish(desk, actor=alice, channel="live")
    assert ("tool_removed", "breaking", "sky") in check_lock(runtime_api, lock)[1]


def test_a_withdrawn_tool_is_told(runtime_api, sky, lock):
    sky.tool.status = "withdrawn"
    sky.tool.save()
    assert check_lock(runtime_api, lock) == ("behind", [("tool_withdrawn", "notice", "sky")])


def test_a_closed_channel_breaks_a_build(runtime_api, api, lock):
    api.put(f"{AGENT}channels/canary/", {"release": 1})
    canary = runtime_api.get(f"{AGENT}releases/canary/lock/").json()
    assert check_lock(runtime_api, canary) == ("current", [])
    api.put(f"{AGENT}channels/canary/", {"release": None}, format="json")
    assert check_lock(runtime_api, canary) == ("breaking", [("channel_empty", "breaking", "")])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schema": "package-lock/3"}, "schema"),
        ({"digest": "sha256:short"}, "digest"),
        ({"tools": [{"name": "sky"}]}, "tools.0.vendor"),
        ({"packages": {}}, "packages"),
        ({"channel": "../live"}, "channel"),
    ],
)
def test_what_is_no_lock_file_is_refused_where_it_is_wrong(runtime_api, lock, change, field):
    answer = check(runtime_api, lock | change)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert field in answer.json()["fields"]


def test_a_lock_file_of_another_agent_is_said_to_be_one(runtime_api, lock):
    answer = check(runtime_api, lock | {"digest": "sha256:" + "0" * 64})
    assert (answer.status_code, answer.json()["code"]) == (409, "unknown_release")


def receipts(api):
    rows = api.get(f"{AGENT}receipts/").json()["results"]
    return sorted((row["release"], row["surface"], row["channel"]) for row in rows)


def test_receipts_say_which_key_fetched_what_and_how(api, alice, runtime_api, lock, desk):
    runtime_api.get(f"{AGENT}releases/live/tools/?format=mcp")
    runtime_api.get(f"{AGENT}releases/1/bundle/")
    api.get(f"{AGENT}releases/1/bundle/")  # a browser's session
    assert receipts(api) == [(1, "bundle", ""), (1, "lock", "live"), (1, "mcp", "live")]
    row = api.get(f"{AGENT}receipts/").json()["results"][0]
    assert (row["owner"], row["key"]) == ("alice", Receipt.objects.first().key.name)
    other = bearer(make_user(Role.VIEWER), KeyScope.RUNTIME)
    other.get(f"{AGENT}releases/live/tools/?format=mcp")
    assert len(receipts(api)) == 4


def test_a_receipt_is_written_once_a_minute_and_also_for_what_is_unchanged(api, runtime_api, lock, desk):
    path, etag = f"{AGENT}releases/live/tools/?format=mcp", f'"{desk.releases.get().digest}"'
    unchanged = {"If-None-Match": etag}
    runtime_api.get(path, headers=unchanged)
    first = Receipt.objects.get(surface="mcp")
    with CaptureQueriesContext(connection) as queries:
        assert runtime_api.get(path).status_code == 200
        assert runtime_api.get(path, headers=unchanged).status_code == 304
    assert not [query for query in queries if query["sql"].lstrip().startswith("UPDATE")]
    assert Receipt.objects.get(surface="mcp").last_at == first.last_at
    for moment in (first.last_at + timedelta(minutes=2), first.last_at + timedelta(minutes=4)):
        with time_machine.travel(moment, tick=False):
            assert runtime_api.get(path, headers=unchanged).status_code == 304
        again = Receipt.objects.get(surface="mcp")
        assert (again.first_at, again.last_at) == (first.first_at, moment)


def test_what_another_thread_forgets_between_two_looks_costs_no_answer(runtime_api, lock, monkeypatch):
    class Forgetful(dict):
        def __contains__(self, value):
            is_member = super().__contains__(value)
            self.clear()
            return is_member

    monkeypatch.setattr("designer.releases.receipts._written_at", Forgetful())
    for _ in range(2):
        assert runtime_api.get(f"{AGENT}releases/live/tools/?format=mcp").status_code == 200


def test_a_check_says_what_else_was_decided_about_a_tool(runtime_api, desk, sky, alice, lock):
    assert "mode" not in lock["tools"][0]
    pins.set_retry(sky, actor=alice, changes={"retry": "none"})
    pins.set_mode(sky, actor=alice, mode=PinMode.FRESH)
    publishing.publish(desk, actor=alice, channel="live")
    _, changed = check(runtime_api, lock).json()["changes"]
    assert (changed["code"], changed["class"]) == ("tool_changed", "notice")
    assert "When it fails: retries only when safe" in changed["message"]
    assert "It follows its vendor now" in changed["message"]
    newer = runtime_api.get(f"{AGENT}releases/live/lock/").json()
    assert newer["tools"][0]["mode"] == "fresh"
    assert check(runtime_api, newer).json()["status"] == "current"
