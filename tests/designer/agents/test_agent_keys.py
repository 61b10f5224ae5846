"""A key that names agents reaches these and no others, whatever its owner may."""

import io

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from core.errors import DomainError
from designer.agents import agent_keys, agents
from designer.models import KeyAgent
from designer.releases import publishing
from people import api_keys, teams, users
from people.models import ApiKey, AuditEntry, Role
from tests.factories import make_agent, make_pin, make_user
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
READS = ("", "live/", "1/", "live/bundle/", "1/bundle/", "live/tools/?format=mcp", "1/tools/?format=a2t")


def published(owner, slug, **fields):
    agent = make_agent(slug=slug, name=slug.title(), **fields)
    make_pin(agent)
    publishing.publish(agent, actor=owner, channel="live")
    return agent


@module_data
def owner():
    return make_user(Role.ADMIN, username="ada")


@module_data
def desk(owner):
    return published(owner, "desk")


@module_data
def other(owner):
    return published(owner, "other")


def program(owner, *agents, scopes=("runtime",)) -> APIClient:
    _, plain = agent_keys.issue(owner, actor=owner, name="Desk, production", scopes=scopes, agents=agents)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    return client


def answers(client, slug) -> list[int]:
    return [client.get(f"/api/v1/agents/{slug}/releases/{path}").status_code for path in READS]


def test_key_reads_the_agents_it_names_and_of_others_there_is_nothing(owner, desk, other):
    client = program(owner, desk)
    assert answers(client, "desk") == [200] * len(READS)
    assert answers(client, "other") == answers(client, "nowhere") == [404] * len(READS)
    not_named, nowhere = (
        client.get(f"/api/v1/agents/{slug}/releases/live/bundle/") for slug in ("other", "nowhere")
    )
    assert not_named.content == nowhere.content
    assert answers(program(owner), "other") == [200] * len(READS)


def test_key_of_two_agents_reads_both(owner, desk, other):
    client = program(owner, desk, other)
    assert [answers(client, slug)[0] for slug in ("desk", "other")] == [200, 200]


def test_sub_agents_are_named_by_themselves(owner, desk):
    published(owner, "below", parent=desk)
    assert answers(program(owner, desk), "below")[0] == 404


def test_moving_an_agent_below_another_opens_nothing(owner, desk, other):
    client = program(owner, desk)
    agents.update_agent(other, actor=owner, parent=desk)
    assert answers(client, "other")[0] == 404


def test_key_follows_its_agent_to_another_address_and_not_its_address_to_another_agent(owner, desk, other):
    client = program(owner, desk)
    agents.update_agent(desk, actor=owner, slug="front")
    with pytest.raises(DomainError, match="Another agent has published"):
        agents.update_agent(other, actor=owner, slug="desk")
    assert [answers(client, slug)[0] for slug in ("front", "desk")] == [200, 200]
    assert client.get("/api/v1/agents/desk/releases/live/bundle/").json()["agent"]["name"] == desk.name


def test_without_its_agent_a_narrowed_key_reaches_nothing_at_all(owner, desk, other):
    client = program(owner, desk)
    KeyAgent.objects.all().delete()
    assert [answers(client, slug)[0] for slug in ("desk", "other")] == [404, 404]
    assert client.get("/api/v1/agents/").status_code == 403


def test_owner_who_leaves_the_team_takes_the_key_along(owner):
    designer = make_user(Role.DESIGNER)
    team = teams.create_team(actor=owner, name="Sales")
    teams.add_member(team, designer, actor=owner)
    published(owner, "shop", team=team)
    client = program(designer, *agent_keys.find_agents(designer, ["shop"]))
    assert answers(client, "shop")[0] == 200
    teams.remove_member(team, designer, actor=owner)
    assert answers(client, "shop") == [404] * len(READS)


def test_who_loses_their_role_or_their_account_is_heard_at_the_next_call(owner, desk):
    designer = make_user(Role.DESIGNER)
    client = program(designer, desk)
    users.update_user(designer, actor=owner, is_active=False)
    assert answers(client, "desk")[0] == 401


@pytest.mark.parametrize("scopes", [["read"], ["admin"], ["runtime", "read"], ["invoke", "design"]])
def test_wider_keys_cannot_name_agents(owner, desk, scopes):
    with pytest.raises(DomainError) as refused:
        agent_keys.issue(owner, actor=owner, name="ci", scopes=scopes, agents=[desk])
    assert "other scopes" in refused.value.fields["agents"]
    assert not ApiKey.objects.exists()


def test_key_that_runs_tools_names_its_agents(owner):
    with pytest.raises(DomainError) as refused:
        api_keys.issue(owner, actor=owner, name="ci", scopes=["invoke"])
    assert "names the agents" in refused.value.fields["agents"]


def test_audit_tells_each_agent_to_those_who_may_see_it(owner, desk):
    team = teams.create_team(actor=owner, name="Secret")
    hidden = published(owner, "hidden", team=team)
    key, _ = agent_keys.issue(owner, actor=owner, name="Both", scopes=["runtime"], agents=[desk, hidden])
    issued = AuditEntry.objects.get(action="issue key")
    assert (issued.after["only_named_agents"], "hidden" in str(issued.after)) == (True, False)
    audit_entries = AuditEntry.objects.filter(action="name agent", object_id=str(key.pk)).order_by("pk")
    assert [(entry.after, entry.agent) for entry in audit_entries] == [
        ({"agent": "desk"}, desk.pk),
        ({"agent": "hidden"}, hidden.pk),
    ]
    viewer = Client()
    viewer.force_login(make_user(Role.VIEWER))
    assert "hidden" not in text_of(viewer.get("/audit/"))


def test_over_rest_a_key_is_made_for_agents_and_says_which(owner, desk, other):
    client = APIClient()
    client.force_login(owner)
    body = {"name": "ci", "scopes": ["runtime", "invoke"], "agents": ["desk", "desk"]}
    response = client.post("/api/v1/keys/", body)
    assert (response.status_code, response.json()["agents"]) == (201, ["desk"])
    assert client.get(f"/api/v1/keys/{response.json()['id']}/").json()["agents"] == ["desk"]
    wide = client.post("/api/v1/keys/", {"name": "ci", "scopes": ["runtime"]})
    assert wide.json()["agents"] is None


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        ({"agents": ["nobody"]}, "There is no agent “nobody”."),
        ({"agents": ["desk"], "scopes": ["read"]}, "no other scopes"),
        ({"scopes": ["invoke"]}, "names the agents"),
        ({"agents": []}, "empty"),
        ({"agents": "desk"}, "list"),
        ({"agents": ["desk"] * 51}, "50"),
    ],
)
def test_impossible_names_are_refused_beside_their_field(owner, desk, body, expected_text):
    client = APIClient()
    client.force_login(owner)
    answer = client.post("/api/v1/keys/", {"name": "ci", "scopes": ["runtime"], **body})
    assert answer.status_code == 400
    assert expected_text in answer.json()["fields"]["agents"]
    assert not ApiKey.objects.exists()


def test_agent_of_another_team_cannot_be_named(owner):
    published(owner, "hidden", team=teams.create_team(actor=owner, name="Secret"))
    client = APIClient()
    client.force_login(make_user(Role.DESIGNER))
    errors = [
        client.post("/api/v1/keys/", {"name": "ci", "scopes": ["runtime"], "agents": [slug]}).json()["fields"]
        for slug in ("hidden", "nobody")
    ]
    assert errors[0] == {"agents": "There is no agent “hidden”."}
    assert errors[1] == {"agents": "There is no agent “nobody”."}


def test_command_names_agents_and_reads_releases_unless_told_more(owner, desk, other):
    out = io.StringIO()
    call_command("token", "ci", "--user", "ada", "--agent", "desk", "--agent", "other", stdout=out)
    key = ApiKey.objects.get(digest=ApiKey.digest_of(out.getvalue().strip()))
    assert (key.scopes, key.is_narrowed, key.named.count()) == (["runtime"], True, 2)
    with pytest.raises(CommandError, match="no agent “nobody”"):
        call_command("token", "ci", "--user", "ada", "--agent", "nobody")
    with pytest.raises(CommandError, match="no other scopes"):
        call_command("token", "ci", "--user", "ada", "--agent", "desk", "--scope", "admin")


def test_page_offers_ones_agents_and_makes_a_key_for_those_that_are_ticked(owner, desk):
    published(owner, "below", parent=desk)
    page = signed_in()
    offered = page.get("/keys/new/?agent=desk").context["form"].agent_choices()
    assert [(depth, row.slug, ticked) for depth, row, ticked in offered] == [
        (0, "desk", True),
        (1, "below", False),
    ]
    form = {"name": "Desk", "scope": "invoke", "agents": ["desk"], "days": "90"}
    response = page.post("/keys/new/", form)
    key = ApiKey.objects.get()
    assert (key.scopes, [key_agent.agent for key_agent in key.named.all()]) == (["runtime", "invoke"], [desk])
    assert "/agents/desk/releases/live/tools/?format=" in response.content.decode()
    assert "Desk" in text_of(page.get("/keys/"))
    refused = page.post("/keys/new/", form | {"agents": []})
    assert "names the agents" in text_of(refused)
    assert 'value="desk" checked' in page.post("/keys/new/", form | {"name": ""}).content.decode()


def test_page_makes_no_key_for_more_agents_than_rest_does(owner, desk, other, monkeypatch):
    monkeypatch.setattr(agent_keys, "MAX_AGENTS", 1)
    form = {"name": "ci", "scope": "runtime", "days": "90", "agents": ["desk", "other"]}
    refused = signed_in().post("/keys/new/", form)
    assert "Choose at most 1 agents." in text_of(refused)
    assert not ApiKey.objects.exists()


def test_narrowed_key_asks_as_few_questions_as_any(owner, desk, django_assert_num_queries):
    client = program(owner, desk)
    releases_at = "/api/v1/agents/desk/releases/live"
    etag = client.get(f"{releases_at}/bundle/").headers["ETag"]
    query = {"format": "mcp", "partial": "1"}
    client.get(f"{releases_at}/tools/", query)  # writes the receipt of this minute
    with django_assert_num_queries(2):  # in the view: the key with its owner, the release
        same = client.get(f"{releases_at}/tools/", query, headers={"If-None-Match": etag})
    assert same.status_code == 304
