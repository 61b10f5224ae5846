"""Clients of runtimes that sign a user in at the identity provider, and what attackers try with that."""

import time
from datetime import timedelta

import jwt
import pytest
import time_machine
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from catalog.models import Call
from designer.agents import access_tokens, agents
from designer.models import KeyAgent, Receipt
from people import teams, users
from people.models import ApiKey, AuditEntry, Identity, Role
from people.sso import provider
from tests.factories import make_user
from tests.identity_provider import CLIENT, EC_KEY, FOREIGN_KEY, PUBLIC_PEM, WEAK_KEY, jwk
from tests.pages import text_of
from tests.people.sso.test_sign_in import idp
from tests.serving.test_calls import desk_with, owner, vendor

__all__ = ["idp", "owner", "vendor"]
pytestmark = pytest.mark.django_db
SITE = "https://pegboard.example"
SERVED = "/serve/desk/live/mcp"
AUDIENCE = f"{SITE}{SERVED}"
METADATA = f"{SITE}/.well-known/oauth-protected-resource"


@pytest.fixture
def signed(idp, owner, settings):
    """The provider, at which `owner` has signed in before."""
    access_tokens.clear_cache()
    settings.PUBLIC_URL = SITE
    settings.OIDC |= {"runtimes": "marked", "audiences": [], "runtime_scopes": []}
    Identity.objects.create(user=owner, issuer=idp.issuer, subject="ada-1")
    yield idp
    access_tokens.clear_cache()


@pytest.fixture
def desk(signed, owner, vendor):
    return desk_with(owner, vendor)[0]


def list_tools(token, path=SERVED):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return APIClient().post(path, body, format="json", headers=headers)


def runs(token, path="/api/v1/agents/desk/releases/live/tools/sky/invoke/"):
    headers = {"Authorization": f"Bearer {token}"}
    return APIClient().post(path, {"arguments": {"Zip_code": "0150"}}, format="json", headers=headers)


def test_a_client_finds_the_provider_and_calls_as_its_user(desk, signed, owner):
    refused = list_tools(None)
    assert refused.status_code == 401
    metadata = f"{METADATA}{SERVED}"
    assert refused.headers["WWW-Authenticate"] == f'Bearer realm="pegboard", resource_metadata="{metadata}"'
    metadata_response = Client().get(metadata.removeprefix(SITE))
    assert metadata_response.json() == {
        "resource": AUDIENCE,
        "authorization_servers": [signed.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Pegboard",
        "scopes_supported": ["openid"],
    }
    # A browser asks first whether MCP-Protocol-Version may be sent.
    preflight = Client().options(metadata.removeprefix(SITE))
    assert preflight.status_code == 204
    assert {
        name: text for name, text in preflight.headers.items() if name.startswith("Access-Control-Allow-")
    } == {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Allow-Methods": "GET, HEAD",
        "Access-Control-Allow-Headers": "*",
    }
    token = signed.access_token(AUDIENCE)
    assert [tool["name"] for tool in list_tools(token).json()["result"]["tools"]] == ["sky"]
    # One key for user and agent, whichever door is taken; calls are its calls.
    assert runs(token).json()["outcome"] == "ok"
    key = ApiKey.objects.get()
    assert (key.user, key.is_of_signed_in, KeyAgent.objects.get().agent) == (owner, True, desk)
    assert set(Receipt.objects.values_list("key", flat=True)) == {key.pk}
    call = Call.objects.get()
    assert (call.api_key, call.requested_by) == (key, owner)
    assert list(AuditEntry.objects.filter(kind="apikey").values_list("actor", "action")) == [
        (owner.pk, "name agent"),
        (owner.pk, "issue key"),
    ]
    # It is known for a minute, and then costs what an API key costs.
    request_count = len(signed.asked)
    with time_machine.travel(timezone.now() + timedelta(seconds=30), tick=True):
        assert list_tools(token).status_code == 200
    assert len(signed.asked) == request_count


def test_a_token_that_is_known_costs_no_more_queries_than_a_key(
    desk, signed, owner, django_assert_max_num_queries
):
    token = signed.access_token(AUDIENCE)
    list_tools(token)
    with django_assert_max_num_queries(3):
        assert list_tools(token).status_code == 200


def test_a_path_is_no_audience(desk, signed, settings):
    settings.PUBLIC_URL, settings.RUNTIMES_URL = "", "https://run.example"
    assert list_tools(signed.access_token(SERVED)).status_code == 401
    assert list_tools(signed.access_token(f"https://run.example{SERVED}")).status_code == 200


def without_algorithm(idp):
    claims = jwt.decode(idp.access_token(AUDIENCE), options={"verify_signature": False})
    return jwt.encode(claims, "", algorithm="none", headers={"typ": "at+jwt", "kid": "r1"})


def under_the_public_key(idp):
    claims = jwt.decode(idp.access_token(AUDIENCE), options={"verify_signature": False})
    head = jwt.encode(claims, "a" * 32, algorithm="HS256", headers={"typ": "at+jwt", "kid": "r1"})
    signed = head.rpartition(".")[0]
    digest = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    return f"{signed}.{jwt.utils.base64url_encode(digest.sign(signed.encode(), PUBLIC_PEM)).decode()}"


HOSTILE = {
    "no algorithm": without_algorithm,
    "the public key as a secret": under_the_public_key,
    "another audience": lambda idp: idp.access_token("https://other.example/mcp"),
    "an audience that begins alike": lambda idp: idp.access_token(f"{SITE}/serve/desk-2/live/mcp"),
    "another agent": lambda idp: idp.access_token(f"{SITE}/serve/other/live/mcp"),
    "the site": lambda idp: idp.access_token(SITE),
    "no audience": lambda idp: idp.access_token(None),
    "audiences that are no texts": lambda idp: idp.access_token([7, None]),
    "another issuer": lambda idp: idp.access_token(AUDIENCE, iss="https://id.example"),
    "another tenant": lambda idp: idp.access_token(AUDIENCE, iss=f"{idp.issuer}/other"),
    "expired": lambda idp: idp.access_token(AUDIENCE, exp=int(time.time()) - 61),
    "not yet": lambda idp: idp.access_token(AUDIENCE, nbf=int(time.time()) + 120),
    "no end": lambda idp: idp.access_token(AUDIENCE, exp=None),
    "an end in words": lambda idp: idp.access_token(AUDIENCE, exp=str(int(time.time()) + 60)),
    "no client": lambda idp: idp.access_token(AUDIENCE, client_id=None),
    "an id token": lambda idp: idp.access_token(CLIENT, typ="JWT"),
    "a token that is not marked": lambda idp: idp.access_token(AUDIENCE, typ="JWT"),
    "an id token with our audience": lambda idp: idp.access_token(AUDIENCE, nonce="n"),
    "a foreign key": lambda idp: idp.access_token(AUDIENCE, key=FOREIGN_KEY),
    "a key of its own": lambda idp: idp.access_token(AUDIENCE, key=FOREIGN_KEY, kid="mine"),
    "the key of another algorithm": lambda idp: idp.access_token(AUDIENCE, kid="e1"),
    "a subject that is a number": lambda idp: idp.access_token(AUDIENCE, sub=1),
    "no key of ours": lambda idp: "eyJ.eyJ.",
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_token_that_is_not_valid_opens_nothing(desk, signed, hostile):
    token = HOSTILE[hostile](signed)
    for answer in (list_tools(token), runs(token)):
        assert answer.status_code == 401, answer.content
    assert 'error="invalid_token"' in list_tools(token).headers["WWW-Authenticate"]
    assert not ApiKey.objects.exists()
    assert not Call.objects.exists()


def test_a_valid_token_of_an_unknown_user_is_forbidden_and_asks_for_no_sign_in(desk, signed):
    token = signed.access_token(AUDIENCE, sub="ada-2")
    for answer in (list_tools(token), runs(token)):
        assert answer.status_code == 403, answer.content
        assert "WWW-Authenticate" not in answer.headers
    assert runs(token).json()["code"] == "unknown_user"
    assert not ApiKey.objects.exists()
    assert not Call.objects.exists()


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_keys_of_every_kind_that_is_believed_and_no_weaker_one(desk, signed):
    assert list_tools(signed.access_token(AUDIENCE, key=EC_KEY, alg="ES256", kid="e1")).status_code == 200
    signed.keys = [jwk(WEAK_KEY, "w1")]
    provider.clear_cache()
    assert list_tools(signed.access_token(AUDIENCE, key=WEAK_KEY, kid="w1")).status_code == 401


def test_a_token_is_good_for_the_addresses_of_its_agent_alone(desk, signed, owner, vendor):
    desk_with(owner, vendor, slug="other")
    agents.create_agent(actor=owner, name="Unpublished", slug="unpublished")
    token = signed.access_token([AUDIENCE, "https://elsewhere.example"])
    assert list_tools(token, "/serve/desk/1/mcp").status_code == 200
    assert list_tools(token, "/serve/other/live/mcp").status_code == 401
    assert runs(token, "/api/v1/agents/other/releases/live/tools/sky/invoke/").status_code == 401
    headers = {"Authorization": f"Bearer {token}"}
    assert APIClient().get("/api/v1/tools/", headers=headers).status_code == 401
    assert APIClient().get("/api/v1/agents/desk/pins/", headers=headers).status_code == 403
    assert list_tools(signed.access_token(f"{SITE}/serve/desk")).status_code == 200


def test_an_agent_that_the_user_may_not_see_is_not_there(signed, vendor):
    admin = make_user(Role.ADMIN)
    team = teams.create_team(actor=admin, name="Others")
    desk_with(admin, vendor, team=team)
    token = signed.access_token(AUDIENCE)
    unknown = list_tools(signed.access_token(f"{SITE}/serve/nothing"), "/serve/nothing/live/mcp")
    answer = list_tools(token)
    assert (answer.status_code, answer.content) == (404, unknown.content)
    assert not ApiKey.objects.exists()


def test_an_agent_that_got_a_new_address_is_found_at_the_old_one(desk, signed, owner):
    agents.update_agent(desk, actor=owner, slug="front")
    token = signed.access_token(AUDIENCE)
    assert (list_tools(token).status_code, runs(token).json()["outcome"]) == (200, "ok")
    # The token was issued for the old address and for no other one.
    assert list_tools(token, "/serve/front/live/mcp").status_code == 401
    assert KeyAgent.objects.get().agent == desk


def leaves_the_team(user, desk):
    team = teams.create_team(actor=make_user(Role.ADMIN), name="Others")
    desk.team = team
    desk.save()


def is_deactivated(user, desk):
    users.update_user(user, actor=make_user(Role.ADMIN), is_active=False)


def is_revoked(user, desk):
    admin = Client()
    admin.force_login(make_user(Role.ADMIN))
    key = ApiKey.objects.get()
    assert "clients that sign in, no secret" in text_of(admin.get("/keys/"))
    admin.post(f"/keys/{key.pk}/revoke/")


@pytest.mark.parametrize(
    ("happens", "status"), [(leaves_the_team, 404), (is_deactivated, 401), (is_revoked, 403)]
)
def test_access_ends_at_once(desk, signed, owner, happens, status):
    token = signed.access_token(AUDIENCE)
    assert list_tools(token).status_code == 200
    happens(owner, desk)
    for access_token in (token, signed.access_token(AUDIENCE, jti="another")):
        assert list_tools(access_token).status_code == status
        assert runs(access_token).status_code == status


def test_an_administrator_lets_in_again_what_was_revoked(desk, signed, owner):
    token = signed.access_token(AUDIENCE)
    list_tools(token)
    is_revoked(owner, desk)
    key, browser, admin = ApiKey.objects.get(), Client(), Client()
    browser.force_login(owner)
    admin.force_login(make_user(Role.ADMIN))
    assert browser.post(f"/keys/{key.pk}/restore/").status_code == 403
    assert "Restore" in text_of(admin.get("/keys/"))
    admin.post(f"/keys/{key.pk}/restore/")
    assert list_tools(token).status_code == 200
    _, plain = access_tokens.agent_keys.issue(owner, actor=owner, name="K", scopes=["invoke"], agents=[desk])
    usual = ApiKey.objects.exclude(pk=key.pk).get()
    admin.delete(f"/api/v1/keys/{usual.pk}/")
    assert admin.post(f"/api/v1/keys/{usual.pk}/restore/").json()["code"] == "key_revoked"
    assert list_tools(plain).status_code == 401
    assert admin.post(f"/api/v1/keys/{key.pk}/restore/").json()["is_of_signed_in"] is True


def test_a_user_who_is_unlinked_loses_access_within_a_minute(desk, signed):
    token = signed.access_token(AUDIENCE)
    assert list_tools(token).status_code == 200
    Identity.objects.all().delete()
    access_tokens._cache.clear()  # as time does
    assert list_tools(token).status_code == 403


def test_a_viewer_lists_and_does_not_run(desk, signed):
    viewer = make_user(Role.VIEWER)
    Identity.objects.create(user=viewer, issuer=signed.issuer, subject="viewer")
    token = signed.access_token(AUDIENCE, sub="viewer")
    assert list_tools(token).status_code == 200
    assert runs(token).status_code == 403


def test_what_a_deployment_says_of_tokens(desk, signed, settings):
    settings.OIDC |= {"audiences": ["pegboard-runtimes"], "runtime_scopes": ["pegboard.run"]}
    token = signed.access_token("pegboard-runtimes")
    refused = list_tools(token)
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]
    assert 'scope="pegboard.run"' in list_tools(None).headers["WWW-Authenticate"]
    metadata = Client().get(f"/.well-known/oauth-protected-resource{SERVED}").json()
    assert metadata["scopes_supported"] == ["pegboard.run"]
    for scope in ({"scope": "openid pegboard.run"}, {"scope": None, "scp": ["pegboard.run"]}):
        assert list_tools(signed.access_token("pegboard-runtimes", **scope)).status_code == 200
    plain = {"typ": "JWT", "client_id": None, "scope": "pegboard.run"}
    assert list_tools(signed.access_token("pegboard-runtimes", **plain)).status_code == 401
    settings.OIDC |= {"runtimes": "unmarked"}
    assert list_tools(signed.access_token("pegboard-runtimes", **plain)).status_code == 200
    page = Client()
    page.force_login(make_user(Role.VIEWER))
    assert "Or let users sign in" in text_of(page.get("/agents/desk/releases/1/connect/"))
    settings.OIDC |= {"runtimes": "off"}
    assert list_tools(signed.access_token(AUDIENCE)).status_code == 401
    assert "resource_metadata" not in list_tools(None).headers["WWW-Authenticate"]
    assert Client().get(f"/.well-known/oauth-protected-resource{SERVED}").status_code == 404
    assert "Or let users sign in" not in text_of(page.get("/agents/desk/releases/1/connect/"))


def test_made_up_key_ids_stop_no_token_while_the_provider_is_away(desk, signed, monkeypatch):
    assert list_tools(signed.access_token(AUDIENCE)).status_code == 200
    monkeypatch.setattr(provider, "REFETCH_SECONDS", -1.0)
    signed.stop()
    assert list_tools(signed.access_token(AUDIENCE, kid="made-up")).status_code == 503
    assert access_tokens._away_until > time.monotonic()
    assert list_tools(signed.access_token(AUDIENCE, jti="another")).status_code == 200
    assert list_tools(signed.access_token(AUDIENCE, kid="made-up")).status_code == 503


def test_a_provider_that_is_away_is_not_asked_for_each_token(desk, signed):
    signed.stop()
    provider.clear_cache()
    token = signed.access_token(AUDIENCE)
    answers = [list_tools(token), list_tools(token), runs(token)]
    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert access_tokens._away_until > time.monotonic()
