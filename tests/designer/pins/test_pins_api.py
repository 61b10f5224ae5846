import threading

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Finding, Run
from catalog.models.findings import FindingState
from catalog.models.tools import ToolStatus
from core.errors import DomainError
from designer.models import Pin
from designer.pins import pins
from people.models import AuditEntry, Role
from tests.factories import (
    make_agent,
    make_endpoint,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_vendor,
    make_version,
)

URL = "/api/v1/agents/desk/pins/"


@pytest.fixture
def desk(db):
    return make_agent(slug="desk", name="Desk")


def test_pin_takes_the_current_version_and_shows_the_effective_signature(api, desk):
    tool = make_tool(make_signature("Lookup Weather"))
    make_version(tool, make_signature("Lookup Weather", description="Newer words"))

    reply = api.post(URL, {"tool": tool.pk})

    assert reply.status_code == 201
    pin = reply.json()
    assert (pin["version"], pin["current"], pin["name"], pin["alias"]) == ("2", "2", "Lookup_Weather", "")
    assert pin["effective"]["description"] == "Newer words"
    assert pin["effective"]["wire_name"] == "Lookup Weather"
    assert [parameter["alias"] for parameter in pin["effective"]["inputs"]] == ["city"]


def test_older_version_can_be_pinned(api, desk):
    tool = make_tool()
    make_version(tool)

    assert api.post(URL, {"tool": tool.pk, "version": "1"}).json()["version"] == "1"


def test_pin_stays_when_the_vendor_publishes(api, desk):
    tool = make_tool()
    pin = api.post(URL, {"tool": tool.pk}).json()

    make_version(tool)

    after = api.get(f"{URL}{pin['id']}/").json()
    assert (after["version"], after["current"]) == ("1", "2")
    assert after["effective"] == pin["effective"]


def test_person_moves_a_pin_there_and_back(api, desk, alice):
    tool = make_tool()
    make_version(tool)
    pin = make_pin(desk, tool)

    assert api.patch(f"{URL}{pin.pk}/", {"version": "1"}).json()["version"] == "1"
    assert api.patch(f"{URL}{pin.pk}/", {"ordinal": 2}).json()["version"] == "2"
    back, moved_on = AuditEntry.objects.filter(action="move")
    first, second = {"version": "1", "ordinal": 1}, {"version": "2", "ordinal": 2}
    assert (moved_on.actor, moved_on.before, moved_on.after) == (alice, second, first)
    assert (back.before, back.after) == (first, second)


def test_move_to_where_it_is_changes_nothing(api, desk):
    pin = make_pin(desk)

    assert api.patch(f"{URL}{pin.pk}/", {"version": 1}).status_code == 200
    assert not AuditEntry.objects.filter(action="move").exists()


def test_name_follows_the_vendors_when_a_pin_without_alias_moves(api, desk):
    tool = make_tool(make_signature("old name"))
    make_version(tool, make_signature("new name"))
    derived = make_pin(desk, tool, version=tool.versions.get(ordinal=1), name="old_name")
    other = make_agent()
    pin = make_pin(other, tool, version=derived.version, name="mine", alias="mine")

    assert api.patch(f"{URL}{derived.pk}/", {"version": 2}).json()["name"] == "new_name"
    moved = api.patch(f"/api/v1/agents/{other.slug}/pins/{pin.pk}/", {"version": 2})
    assert moved.json()["name"] == "mine"


def test_names_collide_whatever_the_case(api, desk):
    first, second = (api.post(URL, {"tool": make_tool(make_signature(n)).pk}) for n in ("Find", "find"))

    assert first.json()["name"] == "Find"
    assert (second.status_code, second.json()["code"]) == (409, "name_taken")


@pytest.mark.parametrize("alias", ["9a", "a b", "ä", "x" * 65, "a.b"])
def test_illegal_alias_is_refused_with_a_proposal(api, desk, alias):
    reply = api.post(URL, {"tool": make_tool().pk, "alias": alias})

    assert (reply.status_code, reply.json()["code"]) == (400, "alias_illegal")
    proposal = reply.json()["fields"]["alias"].rsplit("“", 1)[1].removesuffix("”.")
    assert api.post(URL, {"tool": make_tool().pk, "alias": proposal}).status_code == 201


def test_taken_alias_is_refused_with_a_free_one(api, desk):
    make_pin(desk, name="Find")

    reply = api.post(URL, {"tool": make_tool().pk, "alias": "find"})

    assert (reply.status_code, reply.json()["code"]) == (409, "alias_taken")
    proposal = reply.json()["message"].rsplit("“", 1)[1].removesuffix("” is free.")
    assert api.post(URL, {"tool": make_tool().pk, "alias": proposal}).json()["name"] == proposal


def test_alias_can_be_given_and_taken_back(api, desk):
    pin = make_pin(desk, make_tool(make_signature("Find it")))

    renamed = api.patch(f"{URL}{pin.pk}/", {"alias": "search"}).json()
    back = api.patch(f"{URL}{pin.pk}/", {"alias": ""}).json()

    assert (renamed["name"], back["name"]) == ("search", "Find_it")
    assert AuditEntry.objects.filter(action="rename").count() == 2


def test_a_patch_happens_whole_or_not_at_all(api, desk):
    tool = make_tool()
    make_version(tool)
    pin = make_pin(desk, tool)

    payload = {"version": 1, "alias": "not legal", "mode": "fresh"}
    assert api.patch(f"{URL}{pin.pk}/", payload).status_code == 400

    pin.refresh_from_db()
    assert (pin.version.ordinal, pin.mode) == (2, "cached")
    assert api.patch(f"{URL}{pin.pk}/", {"mode": "new"}).json()["fields"].keys() == {"mode"}
    assert api.patch(f"{URL}{pin.pk}/", {**payload, "alias": "legal"}).json()["mode"] == "fresh"
    api.delete(f"{URL}{pin.pk}/")
    again = api.post(URL, {"tool": tool.pk, "mode": "fresh"}).json()
    assert (again["mode"], api.get(f"{URL}{again['id']}/").json()["mode"]) == ("fresh", "fresh")


def test_tool_is_pinned_once_per_agent(api, desk):
    pin = make_pin(desk)

    reply = api.post(URL, {"tool": pin.tool_id})

    assert (reply.status_code, reply.json()["code"]) == (409, "already_pinned")


def test_removed_pin_may_be_pinned_again(api, desk):
    pin = make_pin(desk)

    assert api.delete(f"{URL}{pin.pk}/").status_code == 204
    assert api.get(f"{URL}{pin.pk}/").status_code == 404
    assert api.delete(f"{URL}{pin.pk}/").status_code == 404
    assert api.post(URL, {"tool": pin.tool_id}).status_code == 201
    assert [row.pk for row in Pin.objects.filter(agent=desk)] == [pin.pk]


def test_withdrawn_tool_cannot_be_pinned_anew(api, desk):
    tool = make_tool(status=ToolStatus.WITHDRAWN)

    reply = api.post(URL, {"tool": tool.pk})

    assert (reply.status_code, reply.json()["code"]) == (409, "tool_withdrawn")


def test_tool_of_a_removed_vendor_cannot_be_pinned_anew(api, desk):
    vendor = make_vendor(removed_at="2026-01-01T00:00:00Z")

    reply = api.post(URL, {"tool": make_tool(endpoint=make_endpoint(vendor=vendor)).pk})

    assert reply.json()["code"] == "tool_withdrawn"


def test_pin_of_a_withdrawn_tool_stays_and_can_move(api, desk):
    tool = make_tool()
    make_version(tool)
    pin = make_pin(desk, tool)
    tool.status = ToolStatus.WITHDRAWN
    tool.save()

    moved = api.patch(f"{URL}{pin.pk}/", {"version": 1}).json()

    assert (moved["version"], moved["status"]) == ("1", "withdrawn")


def test_blocked_version_cannot_be_pinned(api, desk):
    tool = make_tool()
    Finding.objects.create(
        endpoint=tool.endpoint,
        tool=tool,
        version=tool.current,
        code="DRIFT",
        severity="high",
        subject="x",
        message="Changed in place",
        state=FindingState.BLOCKED,
    )

    reply = api.post(URL, {"tool": tool.pk})

    assert (reply.status_code, reply.json()["code"]) == (409, "version_blocked")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "tool"),
        ({"tool": 10**12}, "tool"),
        ({"tool": 10**30}, "tool"),
        ({"tool": "x"}, "tool"),
        ({"tool": None, "version": -1}, "version"),
        ({"tool": None, "version": 7}, "version"),
        ({"tool": None, "alias": None}, "alias"),
    ],
)
def test_bad_input_is_named(api, desk, body, field):
    if body.get("tool", 0) is None:
        body = body | {"tool": make_tool().pk}

    reply = api.post(URL, body)

    assert reply.status_code == 400
    assert field in reply.json()["fields"]


def test_pin_of_another_agent_is_not_found(api, desk):
    pin = make_pin()

    assert api.get(f"{URL}{pin.pk}/").status_code == 404
    assert api.delete(f"{URL}{pin.pk}/").status_code == 404


def test_list_costs_the_same_whatever_its_length(api, desk, django_assert_max_num_queries):
    for _ in range(5):
        make_pin(desk)

    with django_assert_max_num_queries(4):
        assert len(api.get(URL).json()["results"]) == 5


@pytest.mark.django_db(transaction=True)
def test_two_designers_cannot_take_one_name():
    agent, actor = make_agent(), make_user(Role.DESIGNER)
    tools = [make_tool() for _ in range(4)]
    outcomes = []

    def pin(tool):
        try:
            pins.pin_tool(agent, actor=actor, tool=tool, alias="search")
            outcomes.append("pinned")
        except DomainError as error:
            outcomes.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=pin, args=[tool]) for tool in tools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["alias_taken"] * 3 + ["pinned"]


def test_several_tools_are_pinned_at_once_and_one_refusal_holds_up_none(api, desk):
    active, withdrawn, older = make_tool(), make_tool(status=ToolStatus.WITHDRAWN), make_tool()
    make_version(older)
    choices = [
        {"tool": active.pk, "alias": "ours"},
        {"tool": withdrawn.pk},
        {"tool": older.pk, "version": "1"},
    ]

    reply = api.post(f"{URL}several/", {"pins": choices})

    assert reply.status_code == 200
    first, refused, last = reply.json()["results"]
    assert (first["tool"], first["pin"]["name"], first["error"]) == (active.pk, "ours", None)
    assert (refused["tool"], refused["pin"], refused["error"]["code"]) == (
        withdrawn.pk,
        None,
        "tool_withdrawn",
    )
    assert last["pin"]["version"] == "1"
    assert Pin.objects.live().count() == 2


def test_of_two_tools_of_one_name_the_first_that_is_asked_for_gets_it(api, desk):
    older, newer = make_tool(make_signature("forecast")), make_tool(make_signature("forecast"))

    reply = api.post(f"{URL}several/", {"pins": [{"tool": newer.pk}, {"tool": older.pk}]})

    first, second = reply.json()["results"]
    assert (first["tool"], first["pin"]["name"]) == (newer.pk, "forecast")
    assert (second["tool"], second["error"]["code"]) == (older.pk, "name_taken")


def test_tools_that_pinning_inspects_are_locked_by_their_numbers(api, desk):
    older, newer = make_tool(), make_tool()
    for tool in (older, newer):
        tool.current = make_version(tool, run=Run.objects.create(endpoint=tool.endpoint))
        tool.save()

    with CaptureQueriesContext(connection) as queries:
        reply = api.post(f"{URL}several/", {"pins": [{"tool": newer.pk}, {"tool": older.pk}]})

    assert [row["error"] for row in reply.json()["results"]] == [None, None]
    locks = [
        query["sql"]
        for query in queries
        if query["sql"].endswith("FOR NO KEY UPDATE") and 'FROM "catalog_tool"' in query["sql"]
    ]
    # Both at once, before review locks them one after the other in the order of the call.
    assert f"({newer.pk}, {older.pk})" in locks[0]
    assert "ORDER BY 1 ASC" in locks[0]
    assert len(locks) == 3


def test_a_list_of_pins_that_is_not_as_declared_pins_nothing(api, desk):
    tool = make_tool()
    for body in ({"pins": []}, {"pins": [{"tool": tool.pk}, {"tool": "x"}]}, {}):
        assert api.post(f"{URL}several/", body).status_code == 400
    assert not Pin.objects.exists()
