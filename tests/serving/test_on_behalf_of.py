"""Tools that act for a user of an agent: whom, with what leave of that user, and with which secrets."""

import html
import json
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.test import Client
from rest_framework.test import APIClient

from catalog.credentials.oauth import token_replies
from catalog.models import Call, Credential, EndpointSecret, EndUser, UserGrant
from catalog.models.calls import CallStatus
from core.errors import DomainError
from designer.agents import agents
from designer.models import KeyAgent
from designer.pins import pins
from designer.releases import publishing
from execution import tasks
from execution.calls import challenges, invocation, queue, requesting
from execution.user_grants import context, end_users, grants, providers, vault
from people import api_keys, teams
from people.models import ApiKey, AuditEntry, Role, User
from protocols.server import USER_HEADER
from protocols.signature import Requirements
from serving import resumed_calls
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import make_client
from tests.factories import make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import by_path, in_turn, json_reply
from tests.pages import text_of
from tests.serving.test_calls import desk_with, owner, runtime, url, vendor

__all__ = ["owner", "vendor"]
pytestmark = pytest.mark.django_db

NAME = "ada-lovelace-7@example.com"
PREFLIGHT = "/api/v1/agents/desk/releases/live/preflight/"
DONE = json_reply({"call_id": "v", "success": True, "value": {"sky": "fair"}})
INPUTS = (make_parameter("zip"),)
NEEDS_GOOGLE = {"requirements": {"authorization": [{"id": "google", "oauth2": {"scopes": ["mail.read"]}}]}}


def desk(owner, vendor, **fields):
    return desk_with(owner, vendor, protocol="oxp", **{"inputs": INPUTS, "outputs": ()} | fields)


def call_for_user(client, *, name=NAME, slug="desk", **more):
    body = {"arguments": {"zip": "0150"}, "on_behalf_of": {"id": name}, **more}
    return client.post(url(slug), body, format="json")


def contexts(vendor):
    return [r.json().get("context") for r in vendor.requests if r.path == "/tools/call"]


def readiness_of_send(client):
    reply = client.get(PREFLIGHT, headers={USER_HEADER: NAME}).json()
    (ready,) = [tool for tool in reply["tools"] if tool["tool"] == "send"]
    return ready


def challenge(vendor, check="/check"):
    visit = {"id": "google", "url": "https://auth.example/go?state=1", "check_url": f"{vendor.url}{check}"}
    refusal = {"message": "Sign in first.", "missing_requirements": {"authorization": [visit]}}
    return json_reply(refusal, status=400)


def status_reply(status):
    return json_reply({"status": status})


def check_now():
    UserGrant.objects.update(next_check_at=Now() - timedelta(seconds=1))
    for pk in UserGrant.objects.values_list("pk", flat=True):
        challenges.check(pk)
    resumed_calls.tick()


def test_the_vendor_is_told_the_user_and_the_call_keeps_a_digest(owner, vendor):
    vendor.script = DONE
    agent, _ = desk(owner, vendor)
    answer = call_for_user(runtime(owner, agent)).json()
    assert (answer["outcome"], contexts(vendor)) == ("ok", [{"user_id": NAME}])
    call = Call.objects.get()
    assert call.on_behalf_of == end_users.digest_of(agent.pk, NAME)
    stored_text = json.dumps(list(Call.objects.values()), default=str) + str(
        list(AuditEntry.objects.values())
    )
    assert NAME not in stored_text
    assert NAME not in str(EndUser.objects.values())
    (attempt,) = call.decoded().attempts
    assert json.loads(attempt.exchanges[0].body)["context"] == {"user_id": "•••"}


def by_a2t(client):
    (tool,) = client.get("/serve/desk/live/a2t/tools").json()["items"]
    body = {"name": tool["name"], "input_parameters": [{"name": "zip", "value": "0150"}]}
    where = f"/serve/desk/live/a2t/tools/{tool['toolId']}:invoke"
    return client.post(where, body, format="json", headers={"Pegboard-On-Behalf-Of": NAME})


def by_acp(client):
    (agent,) = client.post("/serve/desk/live/acp/agents/search", {}, format="json").json()
    body = {"agent_id": agent["agent_id"], "input": {"zip": "0150"}}
    headers = {"Pegboard-On-Behalf-Of": NAME}
    return client.post("/serve/desk/live/acp/runs/wait", body, format="json", headers=headers)


def by_mcp(client):
    meta = {"pegboard/on_behalf_of": {"id": NAME}}
    params = {"name": "sky", "arguments": {"zip": "0150"}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    return client.post("/serve/desk/live/mcp", body, format="json", headers=headers)


@pytest.mark.parametrize("door", [by_a2t, by_acp, by_mcp])
def test_each_door_says_for_whom(owner, vendor, door):
    vendor.script = DONE
    agent, _ = desk(owner, vendor)
    answer = door(runtime(owner, agent))
    assert answer.status_code == 200, answer.content
    assert contexts(vendor) == [{"user_id": NAME}]
    assert Call.objects.get().on_behalf_of == end_users.digest_of(agent.pk, NAME)


def test_a_name_that_is_too_long_is_refused_by_each_protocol(owner, vendor):
    agent, _ = desk(owner, vendor)
    client = runtime(owner, agent)
    (tool,) = client.get("/serve/desk/live/oxp/tools").json()["items"]
    for user in ("x" * 201, 7):
        body = {"tool_id": tool["id"], "input": {"zip": "0150"}, "context": {"user_id": user}}
        refused = client.post("/serve/desk/live/oxp/tools/call", body, format="json")
        assert (refused.status_code, refused.json()["developer_message"]) == (400, "invalid_user")
    assert vendor.requests == []


@pytest.mark.parametrize("wrong", [{"id": ""}, {"id": "x" * 201}, {"id": 7}, {}, "ada", {"id": "a", "b": 1}])
def test_what_names_no_user_is_refused(owner, vendor, wrong):
    agent, _ = desk(owner, vendor)
    body = {"arguments": {"zip": "0150"}, "on_behalf_of": wrong}
    assert runtime(owner, agent).post(url(), body, format="json").status_code == 400
    assert vendor.requests == []


def test_digests_of_one_name_differ_by_agent_and_cannot_be_guessed():
    one, other = end_users.digest_of(1, NAME), end_users.digest_of(2, NAME)
    assert one != other
    assert one == end_users.digest_of(1, NAME)
    assert end_users.digest_of(1, "1") != end_users.digest_of(11, "")


def test_the_same_id_for_another_user_is_another_call(owner, vendor):
    vendor.script = DONE
    agent, _ = desk(owner, vendor)
    client, call_id = runtime(owner, agent), "6f1d0c2e-0000-4000-8000-000000000001"
    first, again = (call_for_user(client, id=call_id).json()["call"] for _ in range(2))
    assert first == again
    assert call_for_user(client, id=call_id, name="bob").json()["code"] == "key_taken"
    assert len(vendor.requests) == 1


def test_a_tool_that_acts_for_a_user_asks_for_one_before_anything_is_sent(owner, vendor):
    vendor.script = DONE
    agent, _ = desk(owner, vendor, requirements=Requirements(user=True))
    client = runtime(owner, agent)
    missing = client.post(url(), {"arguments": {"zip": "0150"}}, format="json").json()
    assert (missing["outcome"], missing["error"]["code"]) == ("needs_authorization", "USER_MISSING")
    assert vendor.requests == []
    # The answer is stored as if the call had contained it.
    done = client.post(missing["resume"], {"answers": {"user_id": NAME}}, format="json").json()
    assert (done["outcome"], contexts(vendor)) == ("ok", [{"user_id": NAME}])
    call = Call.objects.get(pk=done["call"])
    assert (call.answers, call.on_behalf_of) == ({}, end_users.digest_of(agent.pk, NAME))


def test_a_challenge_opens_a_grant_that_is_asked_about_until_it_is_settled(owner, vendor):
    vendor.script = by_path(
        {
            "/tools/call": in_turn(challenge(vendor), DONE),
            "/check": in_turn(status_reply("pending"), status_reply("completed")),
        }
    )
    agent, _ = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client = runtime(owner, agent)
    answer = call_for_user(client).json()
    assert answer["outcome"] == "needs_authorization"
    assert [(ask["id"], ask["url"]) for ask in answer["asks"]] == [
        ("google", "https://auth.example/go?state=1")
    ]
    grant = UserGrant.objects.get()
    assert (grant.provider, grant.scopes, grant.state) == ("google", "mail.read", "pending")
    check_now()
    assert UserGrant.objects.get().state == "pending"
    check_now()
    assert UserGrant.objects.get().state == "completed"
    for name, codes in ((NAME, []), ("bob", ["grant_missing"]), ("", ["grant_missing"])):
        headers = {"Pegboard-On-Behalf-Of": name} if name else {}
        preflight = client.get(PREFLIGHT, headers=headers).json()
        assert [obstacle["code"] for obstacle in preflight["tools"][0]["obstacles"]] == codes
        assert preflight["can_run"] is True
    check_now()  # no further request
    assert sum(r.path == "/check" for r in vendor.requests) == 2
    preflight = AuditEntry.objects.filter(kind="usergrant").order_by("id")
    assert [(entry.action, entry.agent) for entry in preflight] == [
        ("ask", agent.pk),
        ("authorize", agent.pk),
    ]
    done = client.post(answer["resume"], {}, format="json").json()
    assert (done["outcome"], contexts(vendor)) == ("ok", [{"user_id": NAME}] * 2)
    assert NAME not in json.dumps(list(Call.objects.values()), default=str)


def test_a_completed_grant_takes_the_call_on_once_if_the_runtime_asked_for_it(owner, vendor):
    vendor.script = by_path(
        {"/tools/call": in_turn(challenge(vendor), DONE), "/check": status_reply("completed")}
    )
    agent, _ = desk(owner, vendor)
    client = runtime(owner, agent)
    answer = call_for_user(client, resume_when_granted=True).json()
    check_now()
    (following,) = Call.objects.filter(continues=answer["call"])
    assert (following.status, following.resumes_when_granted) == (CallStatus.QUEUED, False)
    invocation.perform_due_calls()
    following.refresh_from_db()
    assert (following.outcome, contexts(vendor)) == ("ok", [{"user_id": NAME}] * 2)
    first = client.get(f"/api/v1/agents/desk/calls/{answer['call']}/").json()
    assert first["continued_by"] == following.pk
    UserGrant.objects.update(resumes=True)
    resumed_calls.tick()
    # A runtime's own request is the same call.
    by_hand = client.post(answer["resume"], {}, format="json").json()
    assert (by_hand["call"], by_hand["outcome"]) == (following.pk, "ok")
    assert Call.objects.filter(continues=answer["call"]).count() == 1
    assert len(contexts(vendor)) == 2


def test_a_call_that_its_runtime_took_on_does_not_go_on_by_itself(owner, vendor):
    vendor.script = by_path(
        {"/tools/call": in_turn(challenge(vendor), DONE), "/check": status_reply("completed")}
    )
    agent, _ = desk(owner, vendor)
    client = runtime(owner, agent)
    answer = call_for_user(client, resume_when_granted=True).json()
    UserGrant.objects.update(state="completed", settled_at=Now())
    by_hand = client.post(answer["resume"], {}, format="json").json()
    resumed_calls.tick()
    assert [call.pk for call in Call.objects.filter(continues=answer["call"])] == [by_hand["call"]]
    assert UserGrant.objects.get().resumes is False
    assert len(contexts(vendor)) == 2


def test_a_call_that_could_not_go_on_yet_goes_on_once_it_can(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    asks = call_for_user(client, resume_when_granted=True).json()
    too_early = client.post(asks["resume"], {}, format="json").json()
    assert too_early["error"]["code"] == "GRANT_MISSING"
    authorize(authorization, asks["asks"][0]["url"])
    Call.objects.exclude(pk=too_early["call"]).get(continues=asks["call"])
    invocation.perform_due_calls()
    assert len(contexts(vendor)) == 1


def test_a_call_that_waits_for_two_providers_goes_on_after_both_however_they_are_settled(owner, vendor):
    both = [
        {"id": name, "url": "https://auth.example/go", "check_url": f"{vendor.url}/check"}
        for name in ("google", "github")
    ]
    stopped = json_reply({"missing_requirements": {"authorization": both}}, status=400)
    vendor.script = by_path({"/tools/call": in_turn(stopped, DONE)})
    agent, _ = desk(owner, vendor)
    answer = call_for_user(runtime(owner, agent), resume_when_granted=True).json()
    # Two processes settle at one moment: neither has looked when both are settled.
    for number, grant in enumerate(UserGrant.objects.order_by("provider")):
        resumed_calls.tick()
        assert Call.objects.count() == 1, number
        grants.settle(grant, "completed", "The vendor says that it is authorized.")
    resumed_calls.tick()
    resumed_calls.tick()
    assert Call.objects.filter(continues=answer["call"]).count() == 1


def archived(agent, owner):
    agents.remove_agent(agent, actor=owner)


def demoted(agent, owner):
    User.objects.filter(pk=owner.pk).update(role=Role.VIEWER)


def taken_out_of_the_key(agent, owner):
    KeyAgent.objects.all().delete()


@pytest.mark.parametrize("meanwhile", [archived, demoted, taken_out_of_the_key])
def test_a_call_goes_on_only_if_its_runtime_might_do_that(owner, vendor, meanwhile):
    vendor.script = by_path({"/tools/call": challenge(vendor), "/check": status_reply("completed")})
    agent, _ = desk(owner, vendor)
    call_for_user(runtime(owner, agent), resume_when_granted=True)
    meanwhile(agent, owner)
    check_now()
    grant = UserGrant.objects.get()
    assert (grant.state, grant.resumes, Call.objects.count()) == ("completed", False, 1)
    assert "did not go on" in grant.message


def test_a_call_does_not_go_on_at_another_version_than_was_released(owner, vendor, monkeypatch):
    vendor.script = by_path({"/tools/call": challenge(vendor), "/check": status_reply("completed")})
    agent, _ = desk(owner, vendor)
    call_for_user(runtime(owner, agent), resume_when_granted=True)
    monkeypatch.setattr(requesting, "find_version", lambda *_: None)
    check_now()
    assert "not the one that was released" in UserGrant.objects.get().message
    assert Call.objects.count() == 1


def test_a_key_without_room_for_another_call_has_it_go_on_later(owner, vendor):
    vendor.script = by_path({"/tools/call": challenge(vendor), "/check": status_reply("completed")})
    agent, _ = desk(owner, vendor)
    answer = call_for_user(runtime(owner, agent), resume_when_granted=True).json()
    ApiKey.objects.update(calls_at_once=0)
    check_now()
    assert (UserGrant.objects.get().resumes, Call.objects.count()) == (True, 1)
    ApiKey.objects.update(calls_at_once=1)
    resumed_calls.tick()
    assert Call.objects.filter(continues=answer["call"]).count() == 1


def test_a_call_does_not_go_on_with_a_key_that_was_revoked(owner, vendor):
    vendor.script = by_path({"/tools/call": challenge(vendor), "/check": status_reply("completed")})
    agent, _ = desk(owner, vendor)
    call_for_user(runtime(owner, agent), resume_when_granted=True)
    api_keys.revoke(ApiKey.objects.get(), actor=owner)
    check_now()
    grant = UserGrant.objects.get()
    assert (grant.state, Call.objects.count()) == ("completed", 1)
    assert "did not go on" in grant.message


@pytest.mark.parametrize(
    ("reply", "state", "message"),
    [
        (status_reply("failed"), "failed", "The vendor reports that it was not authorized."),
        (status_reply("perhaps"), "pending", "a state that Pegboard does not know"),
        (json_reply([], status=500), "pending", "500"),
    ],
)
def test_what_a_vendor_says_otherwise(owner, vendor, reply, state, message):
    vendor.script = by_path({"/tools/call": challenge(vendor), "/check": reply})
    agent, _ = desk(owner, vendor)
    call_for_user(runtime(owner, agent))
    check_now()
    grant = UserGrant.objects.get()
    assert grant.state == state
    assert message in grant.message
    assert (grant.next_check_at is None) == (state == "failed")


def test_nothing_is_asked_on_another_host_unless_an_administrator_allows_it(owner, vendor):
    visit = {"id": "google", "url": "https://auth.example/go", "check_url": "https://auth.example/done"}
    vendor.script = json_reply({"missing_requirements": {"authorization": [visit]}}, status=400)
    agent, pin = desk(owner, vendor)
    client = runtime(owner, agent)
    call_for_user(client)
    grant = UserGrant.objects.get()
    assert (grant.next_check_at, "another host" in grant.message) == (None, True)
    endpoint = pin.tool.endpoint
    endpoint.settings = {"check_hosts": ["auth.example"]}
    endpoint.save()
    call_for_user(client)
    grant = UserGrant.objects.get()
    assert grant.next_check_at is not None
    assert grant.message == ""


def test_a_host_that_is_allowed_no_more_is_not_asked_again(owner, vendor):
    visit = {"id": "google", "url": "https://auth.example/go", "check_url": "https://auth.example/done"}
    vendor.script = json_reply({"missing_requirements": {"authorization": [visit]}}, status=400)
    agent, pin = desk(owner, vendor)
    endpoint = pin.tool.endpoint
    endpoint.settings = {"check_hosts": ["auth.example"]}
    endpoint.save()
    call_for_user(runtime(owner, agent))
    assert UserGrant.objects.get().next_check_at is not None
    endpoint.settings = {}
    endpoint.save()
    check_now()
    grant = UserGrant.objects.get()
    assert (grant.state, "another host" in grant.message) == ("failed", True)


def test_a_grant_that_is_forgotten_while_it_is_claimed_ends_the_question(owner, vendor, monkeypatch):
    vendor.script = challenge(vendor)
    agent, _ = desk(owner, vendor)
    call_for_user(runtime(owner, agent))
    UserGrant.objects.update(next_check_at=Now() - timedelta(seconds=1))
    grant, claim = UserGrant.objects.get(), QuerySet.update

    def claimed_and_forgotten(rows, **columns):
        changed = claim(rows, **columns)
        UserGrant.objects.all().delete()
        return changed

    monkeypatch.setattr(QuerySet, "update", claimed_and_forgotten)
    challenges.check(grant.pk)
    assert [r.path for r in vendor.requests] == ["/tools/call"]


def test_a_grant_that_no_user_answers_ends_after_an_hour(owner, vendor):
    vendor.script = challenge(vendor)
    agent, _ = desk(owner, vendor)
    call_for_user(runtime(owner, agent))
    challenges.tick()
    assert UserGrant.objects.get().state == "pending"
    UserGrant.objects.update(expires_at=Now() - timedelta(seconds=1))
    challenges.tick()
    assert UserGrant.objects.get().state == "expired"
    assert AuditEntry.objects.filter(action="expire", kind="usergrant").count() == 1


def test_two_users_and_two_teams_never_share_a_grant(vendor):
    admin = make_user(Role.ADMIN)
    vendor.script = challenge(vendor)
    clients = {}
    for name in ("one", "two"):
        team, person = teams.create_team(actor=admin, name=name), make_user(Role.DESIGNER, username=name)
        teams.add_member(team, person, actor=admin)
        agent, _ = desk(person, vendor, slug=f"desk-{name}", team=team)
        clients[name] = runtime(person, agent), person
    call_for_user(clients["one"][0], slug="desk-one", name="ada")
    call_for_user(clients["one"][0], slug="desk-one", name="bob")
    call_for_user(clients["two"][0], slug="desk-two", name="ada")
    assert (UserGrant.objects.count(), EndUser.objects.count()) == (3, 3)
    grants_by_user = {}
    for name, (_, person) in clients.items():
        api, pages = APIClient(), Client()
        api.force_login(person)
        pages.force_login(person)
        grants_by_user[name] = {row["id"] for row in api.get("/api/v1/grants/").json()["results"]}
        other = next(
            str(pk)
            for pk in UserGrant.objects.values_list("pk", flat=True)
            if str(pk) not in grants_by_user[name]
        )
        assert api.get(f"/api/v1/grants/{other}/").status_code == 404
        assert api.delete(f"/api/v1/grants/{other}/").status_code == 404
        assert pages.post(f"/grants/{other}/forget/").status_code == 404
    assert [len(ids) for ids in grants_by_user.values()] == [2, 1]
    assert not grants_by_user["one"] & grants_by_user["two"]
    # An authorization of one user holds for that user alone.
    (own_grant,) = grants_by_user["two"]
    UserGrant.objects.exclude(pk=own_grant).update(check_url="")
    vendor.script = status_reply("completed")
    UserGrant.objects.filter(pk=own_grant).update(next_check_at=Now() - timedelta(seconds=1))
    challenges.check(UserGrant.objects.get(pk=own_grant).pk)
    assert sorted(UserGrant.objects.values_list("state", flat=True)) == ["completed", "pending", "pending"]


def test_a_grant_is_forgotten_on_the_page_with_the_name_of_the_user(owner, vendor):
    vendor.script = challenge(vendor)
    agent, _ = desk(owner, vendor)
    answer = call_for_user(runtime(owner, agent))
    pages = Client()
    pages.force_login(owner)
    page = pages.get("/grants/")
    assert "google" in text_of(page)
    assert "Waiting for the user" in text_of(page)
    assert NAME not in page.content.decode()
    grant = UserGrant.objects.get()
    pages.post(f"/grants/{grant.pk}/forget/")
    assert (UserGrant.objects.count(), EndUser.objects.count()) == (0, 0)
    entry = AuditEntry.objects.get(action="forget")
    assert (entry.actor, entry.agent) == (owner, agent.pk)
    refused = runtime(owner, agent).post(answer.json()["resume"], {}, format="json")
    assert refused.status_code == 404  # another key's call
    assert "No user consents yet" in text_of(pages.get("/grants/"))


SECRET = "vault-value-5f2c9e81"


def test_a_missing_secret_is_said_before_anything_is_sent_and_then_goes_along(owner, vendor):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, requirements=Requirements(secrets=("api-pin",)))
    client = runtime(owner, agent)
    refused = call_for_user(client).json()
    assert (refused["outcome"], refused["error"]["code"]) == ("refused", "SECRET_MISSING")
    assert "“api-pin”" in refused["error"]["message"]
    assert vendor.requests == []
    preflight = client.get(PREFLIGHT).json()
    assert [obstacle["code"] for obstacle in preflight["tools"][0]["obstacles"]] == ["secret_missing"]
    assert preflight["can_run"] is False
    vault.set_secret(pin.tool.endpoint, actor=make_user(Role.ADMIN), name="api-pin", value=SECRET)
    assert call_for_user(client).json()["outcome"] == "ok"
    assert contexts(vendor) == [{"user_id": NAME, "secrets": [{"id": "api-pin", "value": SECRET}]}]
    assert client.get(PREFLIGHT).json()["can_run"] is True
    assert SECRET not in json.dumps(list(Call.objects.values()), default=str)


def test_a_vendor_that_sends_a_secret_back_is_not_believed(owner, vendor):
    vendor.script = json_reply({"call_id": "v", "success": True, "value": {"sky": f"heard {SECRET}"}})
    agent, pin = desk(owner, vendor, requirements=Requirements(secrets=("api-pin",)))
    vault.set_secret(pin.tool.endpoint, actor=make_user(Role.ADMIN), name="api-pin", value=SECRET)
    answer = call_for_user(runtime(owner, agent))
    assert answer.json()["error"]["code"] == "ECHO"
    assert SECRET not in answer.content.decode() + json.dumps(list(Call.objects.values()), default=str)


def test_a_secret_does_not_follow_its_endpoint_to_another_address(owner, vendor):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, requirements=Requirements(secrets=("api-pin",)))
    vault.set_secret(pin.tool.endpoint, actor=make_user(Role.ADMIN), name="api-pin", value=SECRET)
    EndpointSecret.objects.update(origin="https://elsewhere.example")
    assert call_for_user(runtime(owner, agent)).json()["error"]["code"] == "SECRET_MISSING"
    assert vendor.requests == []


def test_administrators_keep_the_vault_by_page_and_by_rest(owner, vendor):
    admin = make_user(Role.ADMIN)
    _, pin = desk(owner, vendor, requirements=Requirements(secrets=("api-pin", "other")))
    here = f"/endpoints/{pin.tool.endpoint_id}/secrets/"
    pages, api = Client(), APIClient()
    pages.force_login(admin)
    api.force_login(admin)
    assert "2 secrets missing" in text_of(pages.get(here))
    saved = pages.post(here, {"name": "api-pin", "value": SECRET}, follow=True)
    assert "1 secret missing" in text_of(saved)
    assert SECRET not in saved.content.decode()
    first = EndpointSecret.objects.get()
    answer = api.post(f"/api/v1{here}", {"name": "api-pin", "value": "another-value-77"}, format="json")
    assert (answer.status_code, answer.json()["id"]) == (200, str(first.pk))
    assert "another-value-77" not in answer.content.decode()
    secrets_body = api.get(f"/api/v1{here}").json()
    assert ([row["name"] for row in secrets_body["secrets"]], secrets_body["missing"]) == (
        ["api-pin"],
        ["other"],
    )
    for wrong in ({"name": "", "value": "x"}, {"name": "x", "value": " "}, {"name": "x"}):
        assert api.post(f"/api/v1{here}", wrong, format="json").status_code == 400
    assert api.delete(f"/api/v1{here}{first.pk}/").status_code == 204
    assert [e.action for e in AuditEntry.objects.filter(kind="endpointsecret").order_by("id")] == [
        "enter",
        "replace",
        "forget",
    ]
    pages.force_login(owner)
    assert pages.get(here).status_code == 403


@pytest.fixture
def authorization():
    with AuthorizationServer() as server:
        yield server


def client_at_google(pin, server):
    """An OAuth client of this installation that users of the endpoint's tools authorize at “google”."""
    admin = make_user(Role.ADMIN)
    row = make_client(server, "oauth_users", actor=admin, url=pin.tool.endpoint.url, scope="profile")
    providers.choose(pin.tool.endpoint, actor=admin, provider="google", credential=row)
    return row


def provider_page(link, browser):
    """Return the address to which the browser continues."""
    page = browser.post(urlsplit(link).path).content.decode()
    return html.unescape(page.partition('content="0; url=')[2].partition('"')[0])


def authorize(server, link, browser=None):
    """Authorize as the browser of the user does."""
    browser = browser or Client()
    assert "Let “desk" in text_of(browser.get(urlsplit(link).path))
    address = provider_page(link, browser)
    back = {name: values[0] for name, values in server.visit(address).items()}
    return browser.get("/grants/callback/", back), back


def test_a_user_authorizes_our_own_client_and_the_token_goes_along(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    row = client_at_google(pin, authorization)
    client = runtime(owner, agent)
    asks = call_for_user(client, resume_when_granted=True).json()
    assert (asks["outcome"], asks["error"]["code"]) == ("needs_authorization", "GRANT_MISSING")
    assert vendor.requests == []
    (link,) = [ask["url"] for ask in asks["asks"]]
    again = call_for_user(client).json()["asks"][0]["url"]
    assert again == link  # two calls that ask do not end each other's link
    done, _ = authorize(authorization, link)
    assert "act for you at “google” now" in text_of(done)
    assert set(authorization.forms[0]["scope"].split() if "scope" in authorization.forms[0] else []) <= {
        "profile",
        "mail.read",
    }
    grant = UserGrant.objects.get()
    assert (grant.state, grant.scopes, grant.credential) == ("completed", "mail.read", row)
    assert grant.granted_scopes == "mail.read"
    (_following,) = Call.objects.filter(continues=asks["call"])
    invocation.perform_due_calls()
    (token,) = authorization.access
    assert contexts(vendor) == [{"user_id": NAME, "authorization": [{"id": "google", "token": token}]}]
    stored_text = json.dumps([*Call.objects.values(), *UserGrant.objects.values()], default=str)
    stored_text += str(list(AuditEntry.objects.values()))
    assert token not in stored_text
    assert NAME not in stored_text
    # Another user has authorized nothing, and the link counts once.
    assert call_for_user(client, name="bob").json()["error"]["code"] == "GRANT_MISSING"
    assert len(contexts(vendor)) == 1
    assert Client().get(urlsplit(link).path).status_code == 404


@pytest.mark.parametrize("door", [by_a2t, by_acp, by_mcp])
def test_a_link_leads_to_the_address_of_pages_and_not_to_that_of_runtimes(
    owner, vendor, authorization, settings, door
):
    settings.PUBLIC_URL, settings.RUNTIMES_URL = "https://pegboard.example", "https://run.example"
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client_at_google(pin, authorization)
    answer = door(runtime(owner, agent)).content.decode()
    assert "https://pegboard.example/grants/authorize/" in answer
    assert "https://run.example/grants/" not in answer


def test_a_call_that_a_worker_makes_answers_a_whole_link(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    asks = call_for_user(client, resume_when_granted=True).json()
    authorize(authorization, asks["asks"][0]["url"])
    UserGrant.objects.all().delete()
    in_background = call_for_user(client, mode="async").json()["call"]
    by_itself = Call.objects.get(continues=asks["call"]).pk
    for pk in (in_background, by_itself):
        invocation.perform_due_calls()
        result = client.get(f"/api/v1/agents/desk/calls/{pk}/").json()
        assert result["asks"][0]["url"].startswith("http://testserver/grants/authorize/")


def test_nothing_is_sent_for_a_call_that_ended_while_its_token_was_renewed(
    owner, vendor, authorization, monkeypatch
):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    original = context.context_of

    def slowly(call, protocol):
        late = Call.objects.filter(pk=call.pk)
        late.update(gives_up_at=Now() - timedelta(seconds=1))
        queue.end_late(late)
        return original(call, protocol)

    monkeypatch.setattr(context, "context_of", slowly)
    assert call_for_user(client).json()["error"]["code"] == "WORKER_LOST"
    assert vendor.requests == []


def test_a_token_is_renewed_once_and_ends_with_its_refusal(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    UserGrant.objects.update(token_expires_at=Now() - timedelta(seconds=1))
    assert call_for_user(client).json()["outcome"] == "ok"
    first, second = authorization.access
    assert [context["authorization"][0]["token"] for context in contexts(vendor)] == [second]
    assert first != second
    # The server does not renew it any more.
    UserGrant.objects.update(token_expires_at=Now() - timedelta(seconds=1))
    authorization.scripts.append(json_reply({"error": "invalid_grant"}, status=400))
    assert call_for_user(client).json()["error"]["code"] == "GRANT_MISSING"
    assert AuditEntry.objects.filter(action="expire", kind="usergrant").count() == 1
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    # The vendor does not take it.
    vendor.script = challenge(vendor)
    assert call_for_user(client).json()["outcome"] == "needs_authorization"
    vendor.script = DONE
    assert call_for_user(client).json()["error"]["code"] == "GRANT_MISSING"


def with_tool(owner, agent, pin, alias, scopes):
    """One more tool of the same vendor, which needs these scopes at “google”."""
    needs = {"requirements": {"authorization": [{"id": "google", "oauth2": {"scopes": scopes}}]}}
    signature = make_signature(alias.title(), inputs=INPUTS, outputs=(), rest=needs)
    tool = make_tool(signature, endpoint=pin.tool.endpoint)
    pins.pin_tool(agent, actor=owner, tool=tool, alias=alias)
    publishing.publish(agent, actor=owner, channel="live")


def runs(client, tool):
    body = {"arguments": {"zip": "0150"}, "on_behalf_of": {"id": NAME}}
    return client.post(url(name=tool), body, format="json").json()


def test_what_was_authorized_goes_on_while_the_user_is_asked_for_more(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    with_tool(owner, agent, pin, "send", ["mail.read", "mail.send"])
    client_at_google(pin, authorization)
    client, pages = runtime(owner, agent), Client()
    pages.force_login(owner)
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    link = runs(client, "send")["asks"][0]["url"]
    assert runs(client, "sky")["outcome"] == "ok"
    # Also when the token is renewed meanwhile, which changes no link.
    UserGrant.objects.update(token_expires_at=Now() - timedelta(seconds=1))
    assert runs(client, "sky")["outcome"] == "ok"
    assert runs(client, "send")["asks"][0]["url"] == link
    (row,) = pages.get("/api/v1/grants/").json()["results"]
    assert (row["state"], row["granted_scopes"]) == ("pending", ["mail.read"])
    assert row["scopes"] == ["mail.read", "mail.send"]
    assert "Granted, more requested" in text_of(pages.get("/grants/"))
    ready = readiness_of_send(client)
    assert "authorize more at “google”" in ready["obstacles"][0]["message"]
    # A user who does not authorize more keeps what was authorized.
    UserGrant.objects.update(expires_at=Now() - timedelta(seconds=1))
    challenges.tick()
    assert runs(client, "sky")["outcome"] == "ok"
    grant = UserGrant.objects.get()
    assert (grant.state, grant.scopes, grant.resumes) == ("completed", "mail.read", False)
    assert AuditEntry.objects.filter(action="expire", kind="usergrant").count() == 1
    wider, browser = runs(client, "send")["asks"][0]["url"], Client()
    assert wider != link
    back = authorization.visit(provider_page(wider, browser))
    refused = {"error": "access_denied", "state": back["state"][0], "iss": back["iss"][0]}
    assert browser.get("/grants/callback/", refused).status_code == 400
    assert runs(client, "sky")["outcome"] == "ok"
    authorize(authorization, runs(client, "send")["asks"][0]["url"])
    assert runs(client, "send")["outcome"] == runs(client, "sky")["outcome"] == "ok"
    assert UserGrant.objects.get().granted_scopes == "mail.read mail.send"


def test_a_user_who_grants_less_keeps_what_works_and_is_asked_for_the_rest(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    with_tool(owner, agent, pin, "send", ["mail.read", "mail.send"])
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    authorization.grants_scope = "mail.read"
    for _ in range(2):
        authorize(authorization, runs(client, "send")["asks"][0]["url"])
        request_count = len(vendor.requests)
        assert runs(client, "send")["error"]["code"] == "GRANT_MISSING"
        assert len(vendor.requests) == request_count
        assert runs(client, "sky")["outcome"] == "ok"
    UserGrant.objects.update(token_expires_at=Now() - timedelta(seconds=1))
    authorization.grants_scope = "profile"  # a renewal may take back more
    assert runs(client, "sky")["error"]["code"] == "GRANT_MISSING"


@pytest.mark.parametrize(
    ("reply_scope", "granted"),
    [
        (None, ["openid", "a", "b"]),
        ("", ["openid", "a", "b"]),
        ("b,own", ["openid", "b"]),
        ("b profile https://as.example/a", ["openid", "a", "b"]),  # names of its own
    ],
)
def test_which_scopes_a_server_grants(reply_scope, granted):
    assert (
        token_replies.granted_scopes(["openid", "a", "b"], ["own", "a", "b", "openid"], reply_scope)
        == granted
    )


def test_a_grant_from_before_scopes_were_kept_goes_on_while_more_is_asked(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    with_tool(owner, agent, pin, "send", ["mail.read", "mail.send"])
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    UserGrant.objects.update(granted_scopes=None, sent_scopes=None)
    assert runs(client, "send")["error"]["code"] == "GRANT_MISSING"
    assert runs(client, "sky")["outcome"] == "ok"


@pytest.mark.django_db(transaction=True)  # the provider is notified after the commit
@pytest.mark.parametrize("is_forgotten", [True, False])
def test_a_renewal_that_is_overtaken_is_not_used(owner, vendor, authorization, is_forgotten):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    row = client_at_google(pin, authorization)
    row.grant.revocation_url = f"{authorization.url}/revoke"
    row.grant.save()
    client = runtime(owner, agent)
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    stale = UserGrant.objects.get()
    UserGrant.objects.update(token_expires_at=Now() - timedelta(seconds=1))

    def meanwhile(form):
        authorization.before_reply = None
        if is_forgotten:
            grants.forget(stale, actor=owner)
        else:
            UserGrant.objects.update(generation=stale.generation + 1, token_expires_at=None)
        connection.close()  # that of the server's thread

    authorization.before_reply = meanwhile
    answer = call_for_user(client).json()
    first, second = authorization.access
    used = [{"user_id": NAME, "authorization": [{"id": "google", "token": first}]}]
    ended = {form["token"] for form in authorization.revocations}
    if is_forgotten:
        assert (answer["error"]["code"], contexts(vendor)) == ("USER_FORGOTTEN", [])
        assert {first, second} <= ended
        with pytest.raises(DomainError):
            grants.forget(stale, actor=owner)
    else:
        assert (answer["outcome"], contexts(vendor), ended) == ("ok", used, set())


def test_a_user_grants_less_than_was_asked_for(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    with_tool(owner, agent, pin, "send", ["mail.send"])
    client_at_google(pin, authorization)
    client, pages = runtime(owner, agent), Client()
    pages.force_login(owner)
    call_for_user(client)
    asks = runs(client, "send")
    authorization.grants_scope = "profile mail.read"
    done, _ = authorize(authorization, asks["asks"][0]["url"])
    assert "not granted: “mail.send”" in text_of(done)
    grant = UserGrant.objects.get()
    assert (grant.state, grant.scopes, grant.granted_scopes) == (
        "completed",
        "mail.read mail.send",
        "mail.read",
    )
    (row,) = pages.get("/api/v1/grants/").json()["results"]
    assert row["refused_scopes"] == ["mail.send"]
    assert "not granted: “mail.send”" in text_of(pages.get("/grants/"))
    ready = readiness_of_send(client)
    assert "did not grant “mail.send” at “google”" in ready["obstacles"][0]["message"]
    assert runs(client, "sky")["outcome"] == "ok"
    # The call with the question does not ask again; another one does, with the reason.
    over = client.post(asks["resume"], {"answers": {}}, format="json").json()
    assert (over["outcome"], over["error"]["code"], over["asks"]) == ("refused", "GRANT_REFUSED", [])
    assert "“mail.send” at “google”" in over["error"]["message"]
    again = runs(client, "send")
    assert (again["outcome"], again["error"]["code"]) == ("needs_authorization", "GRANT_MISSING")
    assert "did not grant “mail.send” at “google”" in again["error"]["message"]
    assert "did not grant" not in runs(client, "send")["error"]["message"]
    assert len(contexts(vendor)) == 1
    authorization.grants_scope = None  # as asked for
    authorize(authorization, again["asks"][0]["url"])
    assert runs(client, "send")["outcome"] == runs(client, "sky")["outcome"] == "ok"


def test_what_is_asked_for_after_the_browser_went_away_was_not_authorized(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    with_tool(owner, agent, pin, "send", ["mail.send"])
    client_at_google(pin, authorization)
    client, browser = runtime(owner, agent), Client()
    address = provider_page(call_for_user(client).json()["asks"][0]["url"], browser)
    assert runs(client, "send")["outcome"] == "needs_authorization"
    back = {name: values[0] for name, values in authorization.visit(address).items()}
    assert browser.get("/grants/callback/", back).status_code == 200
    assert runs(client, "sky")["outcome"] == "ok"
    assert runs(client, "send")["outcome"] == "needs_authorization"


def test_scopes_are_asked_for_whole_or_not_at_all(owner, vendor, authorization):
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    scopes = [f"https://mail.example/{number:0130}" for number in range(20)]
    with_tool(owner, agent, pin, "send", scopes)
    with_tool(owner, agent, pin, "file", [f"{scope}.{side}" for scope in scopes for side in "ab"])
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    assert runs(client, "file")["error"]["code"] == "SCOPES_TOO_LONG"
    assert runs(client, "send")["outcome"] == "needs_authorization"
    assert UserGrant.objects.get().scopes == " ".join(scopes)


@pytest.mark.django_db(transaction=True)  # the page shows the result after the commit
@pytest.mark.parametrize(
    ("door", "expected_text"),
    [
        ("/revoke", "was notified, and revokes the tokens"),
        ("", "was not notified: it states no address for that"),
    ],
)
def test_the_provider_is_told_of_a_grant_that_is_forgotten(owner, vendor, authorization, door, expected_text):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    row = client_at_google(pin, authorization)
    row.grant.revocation_url = door and authorization.url + door
    row.grant.save()
    authorize(authorization, call_for_user(runtime(owner, agent)).json()["asks"][0]["url"])
    pages = Client()
    pages.force_login(owner)
    answer = pages.post(f"/grants/{UserGrant.objects.get().pk}/forget/")
    assert UserGrant.objects.count() == 0
    assert authorization.revoked == bool(door)
    assert [form["token_type_hint"] for form in authorization.revocations] == (
        ["refresh_token", "access_token"] if door else []
    )
    entry = AuditEntry.objects.get(action="revoke")
    assert (entry.kind, entry.agent, entry.after["told"]) == ("usergrant", agent.pk, bool(door))
    assert expected_text in entry.why
    assert expected_text in text_of(pages.get(answer.url))


def test_names_of_users_who_authorized_nothing_are_forgotten_in_time(owner, vendor):
    vendor.script = DONE
    agent, _ = desk(owner, vendor)
    client = runtime(owner, agent)
    for name in ("never asked", "in vain", "waits", "comes again", "new"):
        call_for_user(client, name=name)
    users = {
        name: EndUser.objects.get(digest=end_users.digest_of(agent.pk, name))
        for name in ("never asked", "in vain", "waits", "comes again", "new")
    }
    call = Call.objects.first()
    for name, state in (("in vain", "expired"), ("waits", "pending")):
        grants.ask(users[name], call, "google")
        UserGrant.objects.filter(end_user=users[name]).update(state=state)
    long_ago = Now() - timedelta(days=31)
    EndUser.objects.exclude(pk=users["new"].pk).update(first_seen_at=long_ago, last_seen_at=long_ago)
    call_for_user(client, name="comes again")
    for _ in range(2):
        tasks.forget_end_users()
        remaining = set(EndUser.objects.values_list("pk", flat=True))
        assert remaining == {users[name].pk for name in ("waits", "comes again", "new")}
    assert call_for_user(client, name="never asked").json()["outcome"] == "ok"


def test_a_refresh_token_never_goes_to_the_server_of_another_client(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    assert UserGrant.objects.get().refresh_token
    with AuthorizationServer() as other:
        client_at_google(pin, other)
        link = call_for_user(client).json()["asks"][0]["url"]
        grant = UserGrant.objects.get()
        assert (grant.access_token, grant.refresh_token, grant.token_expires_at) == ("", "", None)
        # The other server gives nothing to renew its token with.
        other.scripts.append(json_reply({"access_token": "of-the-other", "token_type": "Bearer"}))
        authorize(other, link)
        assert UserGrant.objects.get().refresh_token == ""
        UserGrant.objects.update(token_expires_at=Now() - timedelta(seconds=1))
        assert call_for_user(client).json()["error"]["code"] == "GRANT_MISSING"
        assert [form["grant_type"] for form in other.forms] == ["authorization_code"]


def test_a_new_authorization_without_a_refresh_token_keeps_no_old_one(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client_at_google(pin, authorization)
    client = runtime(owner, agent)
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    UserGrant.objects.update(scopes="", granted_scopes="")  # more is needed than was asked for
    authorization.scripts.append(json_reply({"access_token": "the-second", "token_type": "Bearer"}))
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    assert UserGrant.objects.get().refresh_token == ""


def test_only_the_browser_that_went_away_comes_back_and_once(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    client_at_google(pin, authorization)
    link = call_for_user(runtime(owner, agent)).json()["asks"][0]["url"]
    browser = Client()
    back = {name: values[0] for name, values in authorization.visit(provider_page(link, browser)).items()}
    assert Client().get("/grants/callback/", back).status_code == 400
    assert browser.get("/grants/callback/", back | {"state": back["state"] + "x"}).status_code == 400
    assert UserGrant.objects.get().state == "pending"
    assert authorization.forms == []
    done, back = authorize(authorization, link, browser)
    assert done.status_code == 200
    assert browser.get("/grants/callback/", back).status_code == 400
    assert UserGrant.objects.get().state == "completed"


def test_users_tokens_go_only_where_the_client_was_entered_for(owner, vendor, authorization):
    vendor.script = DONE
    agent, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    row = client_at_google(pin, authorization)
    client = runtime(owner, agent)
    authorize(authorization, call_for_user(client).json()["asks"][0]["url"])
    Credential.objects.filter(pk=row.pk).update(origin="https://elsewhere.example")
    assert call_for_user(client).json()["outcome"] == "ok"
    assert contexts(vendor) == [{"user_id": NAME}]


def test_administrators_choose_the_client_of_a_provider(owner, vendor, authorization):
    admin = make_user(Role.ADMIN)
    _, pin = desk(owner, vendor, rest=NEEDS_GOOGLE)
    row = make_client(authorization, "oauth_users", actor=admin, url=pin.tool.endpoint.url)
    other = make_client(authorization, "oauth_users", actor=admin)
    api, pages = APIClient(), Client()
    api.force_login(admin)
    pages.force_login(admin)
    endpoint = pin.tool.endpoint_id
    here, path = f"/endpoints/{endpoint}/secrets/", f"/api/v1/endpoints/{endpoint}/providers/"
    assert api.get(path).json() == {"providers": [{"provider": "google", "credential": None}]}
    assert "google the vendor asks" in text_of(pages.get(here))
    refused = api.post(path, {"provider": "google", "credential": str(other.pk)}, format="json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["credential"])
    choice = {"provider": "google", "credential": str(row.pk)}
    assert api.post(path, choice, format="json").json() == {"providers": [choice]}
    assert api.delete(f"/api/v1/credentials/{row.pk}/").json()["code"] == "credential_in_use"
    not_allowed = api.patch(f"/api/v1/endpoints/{endpoint}/", {"credential": str(row.pk)}, format="json")
    assert (not_allowed.status_code, list(not_allowed.json()["fields"])) == (400, ["credential"])
    posted = f"/endpoints/{endpoint}/providers/"
    assert "google with Weather" in text_of(pages.get(here))
    pages.post(posted, {"provider": "google"})
    assert api.get(path).json()["providers"][0]["credential"] is None
    pages.post(posted, choice)
    assert api.get(path).json()["providers"][0]["credential"] == str(row.pk)
