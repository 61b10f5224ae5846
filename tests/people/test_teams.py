"""Teams are looked after by administrators; who works in one team alone never meets the word."""

import pytest

from core.errors import DomainError
from designer.agents import agents
from designer.models import Agent
from people import teams
from people.models import AuditEntry, Membership, Role, Team, everyone
from tests.factories import make_agent, make_user
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return make_user(Role.ADMIN, username="ada")


@pytest.fixture
def sales(admin):
    return teams.create_team(actor=admin, name="Sales")


def test_a_small_company_has_one_team_and_is_not_asked_about_it(client):
    assert [(team.slug, team.is_everyone) for team in Team.objects.all()] == [("everyone", True)]
    client.force_login(make_user(Role.DESIGNER))
    assert "Team" not in text_of(client.get("/agents/"))
    client.post("/agents/", {"name": "Desk"})
    assert Agent.objects.get().team == everyone()
    assert Agent.objects.visible_to(make_user(Role.VIEWER)).count() == 1


def test_administrator_makes_a_team_fills_it_and_takes_people_out_again(program, admin):
    api = program(admin)
    bob = make_user(Role.DESIGNER, username="bob@example.com")
    assert api.post("/api/v1/teams/", {"name": "Sales"}).json()["slug"] == "sales"
    member = "/api/v1/teams/sales/members/bob@example.com/"
    assert [api.put(member).status_code for _ in range(2)] == [204, 204]
    assert api.get("/api/v1/teams/sales/").json()["members"] == ["bob@example.com"]
    assert api.get(f"/api/v1/users/{bob.pk}/").json()["teams"] == ["sales"]
    assert program(bob).get("/api/v1/teams/").json()["results"][1]["slug"] == "sales"
    assert [api.delete(member).status_code for _ in range(2)] == [204, 204]
    assert [team["slug"] for team in program(bob).get("/api/v1/teams/").json()["results"]] == ["everyone"]
    assert api.patch("/api/v1/teams/sales/", {"name": "Shop"}).json()["name"] == "Shop"
    assert api.delete("/api/v1/teams/sales/").status_code == 204
    audit_entries = (
        AuditEntry.objects.filter(kind="team").order_by("pk").values_list("action", "before", "after")
    )
    assert [action for action, _, _ in audit_entries] == [
        "create",
        "add member",
        "remove member",
        "rename",
        "remove",
    ]
    assert audit_entries[1][2] == {"person": "bob@example.com"}


def test_pages_do_the_same(admin):
    browser = signed_in(Role.ADMIN)
    bob = make_user(Role.DESIGNER, username="bob", name="Bob")
    agent = make_agent(name="Desk", slug="desk")
    child = make_agent(name="Helper", slug="helper", parent=agent)
    browser.post("/teams/", {"name": "Sales"})
    assert "Bob sees this team's agents" in text_of(
        browser.post("/teams/sales/members/", {"person": "bob"}, follow=True)
    )
    moved = text_of(browser.post("/teams/sales/agents/", {"agent": "desk"}, follow=True))
    assert "“Desk” belongs to “Sales” now" in moved
    child.refresh_from_db()
    assert child.team.slug == "sales"
    audit_entry = AuditEntry.objects.get(kind="agent", object_id=str(child.pk))
    assert (audit_entry.after, audit_entry.why, audit_entry.agent) == (
        {"team": "sales"},
        "Moved with “Desk”.",
        child.pk,
    )
    refused = text_of(browser.post("/teams/sales/remove/", follow=True))
    assert "2 agents belong to “Sales”. Move them to another team first." in refused
    browser.post("/teams/everyone/agents/", {"agent": "desk"})
    browser.post(f"/teams/sales/members/{bob.pk}/remove/")
    assert not Membership.objects.exists()
    browser.post("/teams/sales/", {"name": "Shop"})
    assert "Shop" in text_of(browser.get("/teams/"))
    browser.post("/teams/sales/remove/")
    assert [team.slug for team in Team.objects.live()] == ["everyone"]


def test_the_team_of_all_users_stays_and_no_user_leaves_it(program, admin):
    api = program(admin)
    assert api.delete("/api/v1/teams/everyone/").json()["code"] == "everyone_stays"
    for call in (api.put, api.delete):
        assert call("/api/v1/teams/everyone/members/ada/").json()["code"] == "everyone_is_in"
    assert api.patch("/api/v1/teams/everyone/", {"name": "All of us"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "\u200b"}, "name"),
        ({"name": "A", "slug": "No!"}, "slug"),
        ({}, "name"),
    ],
)
def test_an_impossible_team_is_refused_beside_the_field(program, admin, body, field):
    answer = program(admin).post("/api/v1/teams/", body, format="json")
    assert (answer.status_code, field in answer.json()["fields"]) == (400, True)


def test_a_taken_address_is_said(program, admin, sales):
    answer = program(admin).post("/api/v1/teams/", {"name": "Sales"})
    assert (answer.status_code, answer.json()["code"]) == (409, "slug_taken")


def test_a_new_agent_goes_to_the_team_its_maker_joined_first(admin, sales):
    bob = make_user(Role.DESIGNER)
    teams.add_member(sales, bob, actor=admin)
    teams.add_member(teams.create_team(actor=admin, name="Another"), bob, actor=admin)
    desk = agents.create_agent(actor=bob, name="Desk")
    assert desk.team == sales
    below = agents.create_agent(actor=bob, name="Helper", parent=desk)
    agents.update_agent(desk, actor=bob, team=everyone())
    below.refresh_from_db()
    assert below.team == everyone()
    with pytest.raises(DomainError, match="parent's team"):
        agents.update_agent(below, actor=bob, team=sales)
    agents.update_agent(below, actor=bob, parent=None, team=sales)
    assert Agent.objects.get(pk=below.pk).team == sales
    agents.update_agent(below, actor=bob, parent=desk)
    assert Agent.objects.get(pk=below.pk).team == everyone()


def test_teams_are_for_administrators(client, sales):
    client.force_login(make_user(Role.DESIGNER))
    assert client.get("/teams/").status_code == 403
    assert "/teams/" not in client.get("/").content.decode()


@pytest.mark.parametrize(("before", "after", "status"), [("admin", "viewer", 403), ("viewer", "admin", 201)])
def test_a_role_counts_from_the_next_call_on(program, admin, before, after, status):
    bob = make_user(before)
    api = program(bob)
    assert api.post("/api/v1/teams/", {"name": "First"}).status_code == (201 if before == "admin" else 403)
    program(admin).patch(f"/api/v1/users/{bob.pk}/", {"role": after})
    assert api.post("/api/v1/teams/", {"name": "Second"}).status_code == status


def test_the_list_of_teams_costs_the_same_for_many(django_assert_max_num_queries, admin):
    browser = signed_in(Role.ADMIN)
    for number in range(12):
        team = teams.create_team(actor=admin, name=f"Team {number}")
        teams.add_member(team, make_user(Role.VIEWER), actor=admin)
    with django_assert_max_num_queries(5):
        assert browser.get("/teams/").status_code == 200
