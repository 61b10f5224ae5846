"""Every address with an id in it, asked by people of another team: there is nothing there for them."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import transaction
from django.test import Client
from django.urls import NoReverseMatch, get_resolver, reverse
from rest_framework.test import APIClient

from catalog.models import Call, EndUser, Thread, UserGrant
from designer.agents import agents
from designer.environments import environments
from designer.models import (
    Agent,
    Binding,
    Channel,
    Environment,
    Pin,
    Procedure,
    Rehearsal,
    RehearsalRun,
    Release,
    Tuning,
)
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.rehearsals import runs, sentences
from designer.releases import publishing
from execution.calls import examples, requesting
from execution.user_grants import end_users, grants
from people import api_keys, teams
from people.models import AuditEntry, KeyScope, Role, Team, User
from serving import calls
from serving.calls import CallRequest
from tests.factories import make_tool, make_user
from tests.module_data import module_data
from tests.test_roles import METHODS, routes
from tests.test_roles import table as roles

TABLE = Path(__file__).with_name("teams.txt")
NOTHING = {
    "slug": "no-such-thing",
    "pk": 2**40,
    "number": 987_654,
    "username": "nobody",
    "name": "no_such_tool",
    "call": 2**40,
    "channel": "none",
    "child": "no-such-child",
    "env": "nowhere",
    "tool": "no_such_tool",
    "step": 99,
    "sub": "no-such-agent",
    "procedure": "no-such-procedure",
    "protocol": "mcp",
    "path": "",
    "grant": "00000000-0000-4000-8000-000000000001",
    "thread": "00000000-0000-4000-8000-000000000001",
    "example": 2**40,
}
MARK = "zebra"
TRIAL_IDS = {"call", "example", "thread"}
# Scopes of keys that name no agent.
UNNAMED = [scope for scope in KeyScope.values if scope != KeyScope.INVOKE]


def table() -> dict[str, str]:
    lines = [line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return dict(lines)


def parameters_of(name: str) -> list[str]:
    """The names of the parameters in the address of a route."""
    return next(names for _, names in get_resolver().reverse_dict.getlist(name)[0][0])


def object_routes() -> list[str]:
    return [route.name for route in routes() if parameters_of(route.name)]


def team_routes() -> dict[str, list[str]]:
    """Return the routes with the methods of each; tests/test_roles.py checks that there are no others."""
    roles_by_route = roles()
    return {
        name: [method for method in METHODS if roles_by_route[name][method] != "-"]
        for name, owner in table().items()
        if owner == "team"
    }


def trial_routes() -> dict[str, list[str]]:
    roles_by_route = roles()
    return {
        name: [method for method in METHODS if roles_by_route[name][method] != "-"]
        for name, owner in table().items()
        if owner == "trial"
    }


def test_every_address_with_a_call_an_example_or_a_thread_belongs_to_somebody():
    owners = {name: owner for name, owner in table().items() if {*parameters_of(name)} & TRIAL_IDS}
    assert {name: owner for name, owner in owners.items() if owner not in ("team", "trial")} == {}


def test_somebody_has_decided_whose_objects_every_address_shows():
    decided = table()
    assert [name for name in object_routes() if name not in decided] == []
    assert [name for name in decided if name not in object_routes()] == []


@dataclass
class World:
    """An agent of the team “Zebra” with all that belongs to it, and people of another team."""

    team: Team
    agent: Agent
    pin: Pin
    procedure: Procedure
    release: Release
    call: Call
    grant: UserGrant
    thread: Thread
    rehearsal: Rehearsal
    insider: User
    outsiders: list[User]

    def ids(self, name: str) -> dict[str, object]:
        entry = AuditEntry.objects.filter(agent=self.agent.pk).first()
        values = {
            "slug": self.team.slug if "team" in name else self.agent.slug,
            "pk": entry.pk if name == "audit-entry" else self.pin.pk,
            "procedure": self.procedure.slug,
            "number": self.release.number,
            "username": self.insider.username,
            "name": f"{MARK}_tool",
            "call": self.call.pk,
            "channel": "live",
            "child": f"{MARK}-helper",
            "env": f"{MARK}-place",
            "tool": f"{MARK}_tool",
            "sub": self.agent.slug,
            "step": 1,
            "protocol": "mcp",
            "path": "",
            "grant": self.grant.pk,
            "thread": self.thread.key,
        }
        if "rehearsal" in name:
            values["pk"] = self.rehearsal.pk
        if name == "team-member-remove":
            values["pk"] = self.insider.pk
        return {parameter: values[parameter] for parameter in parameters_of(name)}

    def state(self) -> list[object]:
        models = (Thread, Agent, Pin, Procedure, Release, Channel, Tuning, Team, AuditEntry)
        models += (Rehearsal, RehearsalRun)
        models += (Environment, Binding)
        return [list(model.objects.order_by("pk").values()) for model in models]


@module_data
def world() -> World:
    admin = make_user(Role.ADMIN)
    zebra, others = (teams.create_team(actor=admin, name=name) for name in ("Zebra", "Others"))
    insider = make_user(Role.DESIGNER, username="inside")
    outsiders = [make_user(Role.DESIGNER, username="outside"), make_user(Role.VIEWER, username="looker")]
    teams.add_member(zebra, insider, actor=admin)
    for user in outsiders:
        teams.add_member(others, user, actor=admin)
    agent = agents.create_agent(actor=insider, name=f"The {MARK} agent", description=f"{MARK} plans")
    assert agent.team == zebra
    agents.create_agent(actor=insider, name=f"{MARK} helper", parent=agent)
    pin = pins.pin_tool(agent, actor=insider, tool=make_tool(name="shared_tool"), alias=f"{MARK}_tool")
    tunings.tune(pin, actor=insider, description=f"Ask the {MARK}.")
    procedure = editing.create_procedure(agent, actor=insider, title=f"{MARK} flow", body=f"Ask the {MARK}.")
    release = publishing.publish(agent, actor=insider, note=f"{MARK} release", channel="live")
    place = environments.create(agent, actor=insider, name=f"{MARK}-place")
    environments.bind(place, pin.tool, actor=insider, activity=None)
    call_request = CallRequest(tool=f"{MARK}_tool", arguments={"city": "Oslo"})
    call_made = calls.run(release, call_request, actor=insider, key=None)
    end_users.remember(agent.pk, f"{MARK} user")
    grant = grants.ask(EndUser.objects.get(), call_made.call, f"{MARK}-provider")
    thread = Thread.objects.create(agent=agent.pk, release=1, tool=pin.tool, metadata={"of": MARK})
    phrases = [sentences.NewSentence(f"Ask the {MARK}", f"{MARK}_tool")]
    (phrase,) = sentences.add(agent, actor=insider, new_sentences=phrases)
    runs.run_built_in(agent, actor=insider)
    return World(
        zebra, agent, pin, procedure, release, call_made.call, grant, thread, phrase, insider, outsiders
    )


@module_data
def trial(world) -> dict[str, object]:
    """A call of a tool outside of all agents, with its example and its thread, and their ids."""
    tool = world.pin.tool
    arguments = {"city": f"{MARK} of Oslo"}
    call = requesting.request_call(tool.current, actor=world.insider, arguments=arguments)
    Call.objects.filter(pk=call.pk).update(
        status="finished",
        outcome="ok",
        result=json.dumps({"outputs": {"sky": f"{MARK} cloud"}, "attempts": [], "cut": f"{MARK} cut"}),
        reasoning=f"{MARK} reason",
    )
    thread = Thread.objects.create(tool=tool, requested_by=world.insider, metadata={"of": MARK})
    example = examples.save_example(call, actor=world.insider, name=f"{MARK} example")
    return {"pk": tool.pk, "call": call.pk, "example": example.pk, "thread": thread.key}


def browser_of(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def program_of(user: User, scope: str) -> APIClient:
    _, plain = api_keys.issue(user, actor=user, name=scope, scopes=[scope])
    return APIClient(headers={"authorization": f"Bearer {plain}"})


def comparable_answer(client: Client, method: str, name: str, ids: dict[str, object]) -> tuple[int, str]:
    """Status and words; without the address itself and what differs with each request."""
    address = reverse(name, kwargs=ids)
    answer = client.generic(method, address, b"{}", content_type="application/json")
    text = answer.getvalue().decode()
    while address.strip("/"):  # its page, and the pages above it, are named where a button was expected
        text = text.replace(f'"{address}"', '"ADDRESS"')
        address = address.rstrip("/").rpartition("/")[0] + "/"
    return answer.status_code, re.sub(r"[\w-]{43,}|[0-9a-f]{16,}", "", text)


def test_an_object_of_another_team_is_answered_like_one_that_is_not_there(world):
    designer, viewer = world.outsiders
    browsers = [browser_of(designer), browser_of(viewer)]
    programs = [program_of(designer, scope) for scope in (KeyScope.ADMIN, KeyScope.RUNTIME)]
    before = world.state()
    wrong, not_found_count = [], 0
    for name, methods in team_routes().items():
        ids = world.ids(name)
        nothing = {id_kind: NOTHING[id_kind] for id_kind in ids}
        by_key = programs if name.startswith(("api-", "serve")) else []
        for client in (*(() if name.startswith("serve") else browsers), *by_key):
            for method in methods:
                status, words = comparable_answer(client, method, name, ids)
                is_same = (status, words) == comparable_answer(client, method, name, nothing)
                if status not in (403, 404, 405) or not is_same or MARK in words.lower():
                    wrong.append(f"{method} {name}: {status}")
                not_found_count += status == 404
    assert wrong == []
    assert not_found_count > 60  # and were not merely refused for their role
    assert world.state() == before


def test_a_trial_is_answered_like_one_that_is_not_there(world, trial):
    clients = [
        *(browser_of(user) for user in world.outsiders),
        program_of(world.outsiders[0], KeyScope.ADMIN),
    ]
    wrong = []
    for name, methods in trial_routes().items():
        ids = {parameter: trial[parameter] for parameter in parameters_of(name)}
        nothing = ids | {parameter: NOTHING[parameter] for parameter in ids if parameter in TRIAL_IDS}
        for client in clients if name.startswith("api-") else clients[:2]:
            for method in methods:
                status, words = comparable_answer(client, method, name, ids)
                is_same = (status, words) == comparable_answer(client, method, name, nothing)
                if status not in (403, 404) or not is_same or MARK in words.lower():
                    wrong.append(f"{method} {name}: {status}")
        reached = set()
        for method in methods:
            with transaction.atomic():
                reached.add(comparable_answer(browser_of(world.insider), method, name, ids)[0])
                transaction.set_rollback(True)
        assert reached - {403, 404}, name
    assert wrong == []


def test_no_page_and_no_call_shows_a_trial_to_a_stranger(world, trial):
    """Each address that reads, with the ids of the trial's tool wherever it has some."""
    ids = trial | {"ordinal": 1, "vendor": world.pin.tool.endpoint.vendor.slug}
    addresses, shown, read_count = [], [], 0
    for route in routes():
        parameters = parameters_of(route.name) if route.name else []
        is_closed = roles().get(route.name, {}).get("GET", "-") in ("-", "public")
        if is_closed or not {*parameters} <= {*ids} or "events" in route.name:
            continue
        of_endpoint = {"pk": world.pin.tool.endpoint_id} if "endpoint" in route.name else {}
        with suppress(NoReverseMatch):  # its id is a UUID
            addresses.append(
                reverse(route.name, kwargs={name: (ids | of_endpoint)[name] for name in parameters})
            )
    for user in world.outsiders:
        browser = browser_of(user)
        for address in addresses:
            answer = browser.get(address)
            read_count += answer.status_code == 200
            if MARK in answer.getvalue().decode(errors="replace").lower():
                shown.append(address)
    for query in ("call", "example"):
        for user in world.outsiders:
            answer = browser_of(user).get(f"/tools/{trial['pk']}/try/", {query: trial[query]})
            assert answer.status_code == 404
    assert shown == []
    assert read_count > 60


def test_its_own_people_reach_it(world):
    """This shows that the 404 above is about the team and not about a wrong address."""
    browser, program = browser_of(world.insider), program_of(world.insider, KeyScope.ADMIN)
    for name, methods in team_routes().items():
        if not name.startswith(("team", "api-team-m")):  # for administrators alone
            client, answered = program if name.startswith("serve") else browser, set()
            for method in methods:
                with transaction.atomic():
                    answered.add(comparable_answer(client, method, name, world.ids(name))[0])
                    transaction.set_rollback(True)
            assert answered - {403, 404, 405}, name


ADDRESSES = [
    "/", "/agents/", "/tools/", "/audit/", "/audit/?kind=agent", "/audit/?q=zebra", "/review/", "/keys/",
    "/api/v1/agents/", "/api/v1/audit/", "/api/v1/audit/?q=zebra", "/api/v1/teams/", "/api/v1/users/",
    "/api/v1/tools/", "/vendors/", "/users/", "/grants/", "/api/v1/grants/",
]  # fmt: skip


def test_no_list_speaks_of_another_teams_agents(world):
    tool = world.pin.tool
    about = [f"/tools/{tool.pk}/", f"/tools/{tool.pk}/used-by/", f"/tools/{tool.pk}/tuning/"]
    newer = [f"/api/v1/tools/{tool.pk}/", "/?", f"/tools/{tool.pk}/versions/"]
    for user in world.outsiders:
        browser = browser_of(user)
        for address in (*ADDRESSES, *about, *newer):
            answer = browser.get(address)
            assert answer.status_code == 200, address
            assert MARK not in answer.content.decode().lower().replace("q=zebra", "").replace(
                'value="zebra"', ""
            ), address


def test_others_use_is_counted_and_not_named(world):
    browser = browser_of(world.outsiders[0])
    tool = world.pin.tool_id
    assert "1 agent of another team does" in browser.get(f"/tools/{tool}/used-by/").content.decode()
    answer = browser.get(f"/api/v1/tools/{tool}/").json()
    assert (answer["used_by"], answer["used_by_others"]) == ([], 1)
    own_view = browser_of(world.insider).get(f"/api/v1/tools/{tool}/").json()
    assert ([row["agent"] for row in own_view["used_by"]], own_view["used_by_others"]) == (
        [world.agent.slug],
        0,
    )


def test_nobody_puts_something_into_another_teams_agent_by_a_form_or_a_body(world):
    user = world.outsiders[0]
    browser, program = browser_of(user), program_of(user, KeyScope.ADMIN)
    tool, slug = world.pin.tool, world.agent.slug
    other = make_tool()
    before = world.state()
    assert browser.post("/tools/pin/", {"agent": slug, "tool": [other.pk]}).status_code == 404
    assert browser.get("/tools/", {"agent": slug}).status_code == 404
    refused = browser.post(f"/tools/{other.pk}/pin/", {"agent": slug, "ordinal": 1})
    assert "not one of the available choices" in refused.content.decode()
    form = {"name": "Mine", "parent": slug, "team": "others"}
    assert "not one of the available choices" in browser.post("/agents/", form).content.decode()
    form = {"name": "Mine", "team": "zebra"}
    assert "not one of the available choices" in browser.post("/agents/", form).content.decode()
    for body in ({"name": "Mine", "parent": slug}, {"name": "Mine", "team": "zebra"}):
        not_visible = program.post("/api/v1/agents/", body, format="json")
        nowhere = program.post(
            "/api/v1/agents/", {**body, **{key: "nowhere" for key in body if key != "name"}}, format="json"
        )
        assert (not_visible.status_code, not_visible.json()) == (nowhere.status_code, nowhere.json())
        assert not_visible.status_code == 400
    own_agent = agents.create_agent(actor=user, name="Mine")
    for body in ({"parent": slug}, {"team": "zebra"}):
        assert program.patch(f"/api/v1/agents/{own_agent.slug}/", body, format="json").status_code == 400
    pins.pin_tool(own_agent, actor=user, tool=tool)
    assert world.state()[2:5] != before[2:5]  # one's own pin is there
    assert Pin.objects.filter(agent=world.agent).count() == 1


def test_an_administrator_sees_every_team(world):
    browser = Client()
    browser.force_login(make_user(Role.ADMIN))
    assert MARK in browser.get("/agents/").content.decode()
    assert browser.get(f"/agents/{world.agent.slug}/").status_code == 200
    assert browser.get("/teams/zebra/").status_code == 200


@pytest.mark.parametrize("change", ["leave", "move"])
def test_it_holds_from_the_next_request_on_and_for_keys_too(world, change):
    admin = make_user(Role.ADMIN)
    outsider = world.outsiders[0]
    address = f"/api/v1/agents/{world.agent.slug}/releases/live/bundle/"
    clients = [
        ask
        for user in (world.insider, outsider)
        for ask in (browser_of(user), *(program_of(user, scope) for scope in UNNAMED))
    ]
    half = len(clients) // 2
    assert [client.get(address).status_code for client in clients] == [200] * half + [404] * half
    if change == "leave":
        teams.remove_member(world.team, world.insider, actor=admin)
        teams.add_member(world.team, outsider, actor=admin)
    else:
        agents.update_agent(world.agent, actor=admin, team=Team.objects.get(slug="others"))
    assert [client.get(address).status_code for client in clients] == [404] * half + [200] * half
