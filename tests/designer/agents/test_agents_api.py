import threading

import pytest
from django.db import connection

from core.errors import DomainError
from designer.agents import agents
from designer.models import Agent
from people.models import AuditEntry, Role
from tests.factories import make_agent, make_pin, make_user

URL = "/api/v1/agents/"


def test_agent_is_created_with_an_address_made_from_its_name(api):
    reply = api.post(URL, {"name": "  Pharmacy desk ", "description": "Refills"})

    assert reply.status_code == 201
    assert reply.json() | {"created_at": None} == {
        "slug": "pharmacy-desk",
        "name": "Pharmacy desk",
        "description": "Refills",
        "parent": None,
        "team": "everyone",
        "pins": 0,
        "release": None,
        "is_changed": False,
        "vendors": None,
        "usable_vendors": None,
        "retry": None,
        "give_up_after_seconds": None,
        "attempts": None,
        "created_at": None,
        "archived_at": None,
    }


@pytest.mark.parametrize("name", ["Desk", "药房", "!!!"])
def test_second_agent_of_a_name_gets_another_address(api, name):
    first, second = (api.post(URL, {"name": name}).json()["slug"] for _ in range(2))

    assert second == f"{first}-2"


def test_address_of_a_living_agent_is_taken(api):
    make_agent(slug="desk")

    reply = api.post(URL, {"name": "Other", "slug": "desk"})

    assert reply.status_code == 409
    assert reply.json()["code"] == "slug_taken"
    assert "slug" in reply.json()["fields"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": " "}, "name"),
        ({"name": "x" * 121}, "name"),
        ({"name": "de\u202esk"}, "name"),
        ({"name": "x", "slug": "No Spaces"}, "slug"),
        ({"name": "x", "slug": "Upper"}, "slug"),
        ({"name": "x", "parent": "nobody"}, "parent"),
        ({"name": "x", "description": "x" * 4001}, "description"),
    ],
)
def test_bad_input_is_named(api, body, field):
    reply = api.post(URL, body)

    assert reply.status_code == 400
    assert field in reply.json()["fields"]
    assert not Agent.objects.exists()


def test_nul_is_refused(api):
    assert api.post(URL, {"name": "a\0b"}).status_code == 400


def test_each_change_is_audited_with_before_and_after(api, alice):
    slug = api.post(URL, {"name": "Desk"}).json()["slug"]
    api.patch(f"{URL}{slug}/", {"name": "Front desk"})
    api.patch(f"{URL}{slug}/", {"name": "Front desk"})
    api.delete(f"{URL}{slug}/")

    removed, edited, created = AuditEntry.objects.filter(kind="agent")
    assert [created.action, edited.action, removed.action] == ["create", "edit", "remove"]
    assert (edited.actor, edited.before, edited.after) == (alice, {"name": "Desk"}, {"name": "Front desk"})


def test_sub_agent_names_its_parent(api):
    make_agent(slug="desk")

    reply = api.post(URL, {"name": "Refills", "parent": "desk"})

    assert reply.json()["parent"] == "desk"


def test_tree_has_no_circles(api):
    top = make_agent(slug="top")
    make_agent(slug="leaf", parent=make_agent(slug="middle", parent=top))

    for parent in ("top", "middle", "leaf"):
        reply = api.patch(f"{URL}top/", {"parent": parent})
        assert (reply.status_code, reply.json()["code"]) == (409, "circular_parent")


def test_agent_can_leave_its_parent(api):
    make_agent(slug="leaf", parent=make_agent())

    assert api.patch(f"{URL}leaf/", {"parent": None}).json()["parent"] is None


def test_agent_with_sub_agents_stays(api):
    make_agent(parent=make_agent(slug="top"))

    reply = api.delete(f"{URL}top/")

    assert (reply.status_code, reply.json()["code"]) == (409, "has_sub_agents")


def test_removed_agent_is_gone_and_its_address_is_free(api):
    make_agent(slug="desk")

    assert api.delete(f"{URL}desk/").status_code == 204
    assert api.get(f"{URL}desk/").status_code == 404
    assert api.get(URL).json()["results"] == []
    assert api.post(URL, {"name": "Desk"}).json()["slug"] == "desk"


def test_list_pages_and_costs_the_same_whatever_its_length(api, django_assert_max_num_queries):
    for _ in range(3):
        make_pin(make_agent(parent=make_agent()))

    with django_assert_max_num_queries(5):
        first = api.get(URL, {"limit": 4}).json()
    second = api.get(first["next"]).json()

    assert [len(first["results"]), len(second["results"])] == [4, 2]
    assert sum(row["pins"] for row in first["results"] + second["results"]) == 3


@pytest.mark.django_db(transaction=True)
def test_two_moves_cannot_close_a_circle_together():
    one, two, actor = make_agent(), make_agent(), make_user(Role.DESIGNER)
    together = threading.Barrier(2)
    outcomes = []

    def move(agent, parent):
        together.wait(timeout=10)
        try:
            agents.update_agent(agent, actor=actor, parent=parent)
            outcomes.append("moved")
        except DomainError as error:
            outcomes.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=move, args=pair) for pair in ((one, two), (two, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["circular_parent", "moved"]
