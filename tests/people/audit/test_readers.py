"""The subject of an audit entry decides who may read it."""

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from catalog.notifications import subscriptions, webhooks
from catalog.notifications.models import Event
from designer.agents import agent_keys, agents
from people import api_keys, audit, teams
from people.models import ApiKey, AuditEntry, KeyScope, Role
from serving import stored_calls
from tests.factories import make_user
from tests.module_data import module_data
from tests.pages import text_of

pytestmark = pytest.mark.django_db


@module_data
def cast():
    """Two people in teams of their own, and an administrator; `inside` has a private agent and a key."""
    admin = make_user(Role.ADMIN, username="root")
    people = {name: make_user(Role.DESIGNER, username=name) for name in ("inside", "outside")}
    for name, person in people.items():
        teams.add_member(teams.create_team(actor=admin, name=name.title()), person, actor=admin)
    agents.create_agent(actor=people["inside"], name="Zebra desk")
    return people | {"admin": admin}


def read_trail(user, query: str = "") -> str:
    """Return all entries of the trail for `user`, over REST and on the page."""
    program = APIClient()
    program.force_login(user)
    results = program.get(f"/api/v1/audit/{query}").json()["results"]
    page = program.get(f"/audit/{query}").content.decode()
    entries = [program.get(f"/audit/{row['id']}/").content.decode() for row in results]
    return str(results) + page + "".join(entries)


def test_a_refused_call_is_told_to_the_keys_owner_and_to_administrators(cast):
    key, _ = api_keys.issue(
        cast["outside"], actor=cast["outside"], name="Runner", scopes=[KeyScope.INVOKE], is_narrowed=True
    )
    stored_calls.record_refusal(key, actor=cast["outside"], agent="zebra-desk", tool="zebra_tool")
    entry = AuditEntry.objects.get(action="refuse call")
    third = make_user(Role.VIEWER, username="third")

    assert "zebra_tool" in read_trail(cast["outside"])
    assert "zebra_tool" in read_trail(cast["admin"])
    assert "zebra" not in read_trail(third).lower()
    browser = APIClient()
    browser.force_login(third)
    assert browser.get(f"/audit/{entry.pk}/").status_code == 404


def test_keys_are_told_to_their_owners_and_to_administrators(cast):
    key, _ = agent_keys.issue(
        cast["inside"], actor=cast["inside"], name="Zebra key", scopes=[KeyScope.READ], calls_at_once=3
    )
    api_keys.revoke(key, actor=None, why="It was found in public.")
    assert {key.prefix in read_trail(cast[who]) for who in ("inside", "admin")} == {True}
    trail_text = read_trail(cast["outside"])
    assert (key.prefix in trail_text, "Zebra key" in trail_text) == (False, False)


def test_an_administrators_deed_on_a_key_is_told_to_its_owner(cast):
    key, _ = api_keys.issue(cast["inside"], actor=cast["inside"], name="Zebra key", scopes=[KeyScope.READ])
    api_keys.revoke(key, actor=cast["admin"], why="Too old.")
    assert "Too old." in read_trail(cast["inside"])
    assert "Too old." not in read_trail(cast["outside"])


def test_entries_that_have_the_former_kind_of_keys_are_found_with_the_others(cast, monkeypatch):
    key, _ = api_keys.issue(cast["inside"], actor=cast["admin"], name="Zebra key", scopes=[KeyScope.READ])
    with monkeypatch.context() as former, transaction.atomic():
        former.setattr(ApiKey._meta, "model_name", "apitoken")
        audit.record(None, "report", key, why="It was found in public.")
    for kind in ("apikey", "apitoken"):
        trail_text = read_trail(cast["inside"], f"?kind={kind}")
        assert ("found in public" in trail_text, "issue key" in trail_text) == (True, True)
    assert "Zebra key" not in read_trail(cast["outside"])
    assert [name for kind, name in audit.kinds() if kind in ("apikey", "apitoken")] == ["API key"]


def kinds(user) -> set[str]:
    program = APIClient()
    program.force_login(user)
    return {row["kind"] for row in program.get("/api/v1/audit/?limit=200").json()["results"]}


def test_what_a_user_wants_to_be_told_is_read_by_them_and_by_administrators(cast):
    subscriptions.choose(cast["inside"], {Event.BROKEN})
    subscriptions.set_address(cast["inside"], "inside@example.com", 5)
    # A key of another user that has the same number opens nothing.
    pk = cast["inside"].subscriptions.get().pk
    ApiKey.objects.create(pk=pk, user=cast["outside"], name="Key", digest="0" * 64, scopes=["read"])
    personal = {"subscription", "mailaddress"}
    assert [kinds(cast[who]) & personal for who in ("inside", "admin", "outside")] == [
        personal,
        personal,
        set(),
    ]


def test_teams_and_webhooks_are_told_to_administrators(cast):
    webhooks.create(actor=cast["admin"], name="Hook", url="http://127.0.0.1:9/", events=[Event.BROKEN])
    assert kinds(cast["admin"]) >= {"team", "webhook"}
    assert not kinds(cast["inside"]) & {"team", "webhook"}


def test_what_concerns_an_agent_is_told_to_its_team(cast):
    agent = agents.Agent.objects.get()
    agent_keys.issue(
        cast["admin"], actor=cast["admin"], name="Of the desk", scopes=[KeyScope.RUNTIME], agents=[agent]
    )
    assert "name agent" in read_trail(cast["inside"], "?kind=apikey")
    assert "name agent" not in read_trail(cast["outside"], "?kind=apikey")


def test_the_page_says_what_is_left_out(client, cast):
    client.force_login(cast["outside"])
    assert "other people\u2019s keys" in text_of(client.get("/audit/")).replace("'", "\u2019")
    client.force_login(cast["admin"])
    lead = text_of(client.get("/audit/")).partition("an entry that was altered.")
    assert lead[1]
    assert "keys" not in lead[2][:120]


def test_a_trail_of_other_peoples_keys_is_read_quickly(cast, django_assert_max_num_queries):
    for number in range(60):
        api_keys.issue(cast["inside"], actor=cast["inside"], name=f"Key {number}", scopes=[KeyScope.READ])
    with django_assert_max_num_queries(1):
        assert len(list(audit.visible_to(cast["outside"])[:50])) <= 50
