"""The state of a credential on pages and over REST: how to repair it, and never its secret."""

import json
import re

import pytest
from rest_framework.test import APIClient

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Credential, Endpoint, Grant
from catalog.models.runs import Trigger
from people.models import AuditEntry, Role
from tests.authorization_server import CLIENT_SECRET, AuthorizationServer, scripted
from tests.catalog.credentials.oauth.cases import make_client, wear_out
from tests.factories import make_endpoint, make_user
from tests.pages import signed_in, text_of
from tests.vendor import Vendor

pytestmark = pytest.mark.django_db
API = "/api/v1/credentials/"
PRIMARY = re.compile(r'class="button is-primary"[^>]*>(?:<svg.*?</svg>)?([^<]*)<', re.DOTALL)


@pytest.fixture
def server():
    with AuthorizationServer() as server:
        yield server


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


def state_of(api: APIClient, pk: object) -> dict:
    return api.get(f"{API}{pk}/").json()["status"]


def run_enumeration(endpoint: Endpoint) -> str:
    fresh = Endpoint.objects.select_related("credential", "vendor").get(pk=endpoint.pk)
    return enumeration_runs.perform(
        enumeration_runs.request_run(fresh, trigger=Trigger.COMMAND).pk
    ).error_code


@pytest.fixture
def guarded(vendor: Vendor):
    """A vendor that takes one token, and an endpoint whose credential has another."""

    def guard(number, document):
        is_fine = vendor.headers[-1].get("authorization") == "Bearer the right one"
        return None if is_fine else (401, b"{}")

    vendor.script = guard
    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN, username="ada"),
        name="Key",
        kind="bearer",
        url=vendor.url,
        secret="a wrong one",
    )
    return make_endpoint(url=vendor.url, credential=credential, name="Main")


def test_a_secret_that_the_vendor_refuses_says_so_and_is_replaced_in_place(guarded, admin, admin_api):
    pk = guarded.credential_id
    assert state_of(admin_api, pk)["state"] == "new"

    assert run_enumeration(guarded) == "AUTH"

    credential_state = state_of(admin_api, pk)
    assert (credential_state["state"], credential_state["remedy"], credential_state["error"]["code"]) == (
        "refused",
        "enter_secret",
        "AUTH",
    )
    host = guarded.url.split("/")[2]
    assert re.fullmatch(
        rf"{host} has refused it since \d\d:\d\d:\d\d UTC on \d+ \w+ \d{{4}} \(401 Unauthorized\)\.",
        credential_state["message"],
    )
    page = admin.get(f"/credentials/{pk}/")
    assert PRIMARY.findall(page.content.decode()) == ["Enter the secret again"]
    assert credential_state["message"] in text_of(page)
    assert "Main" in text_of(page)
    assert "by ada" in text_of(page)

    admin.post(f"/credentials/{pk}/", {"secret": "the right one"})
    assert state_of(admin_api, pk)["state"] == "new"
    assert run_enumeration(guarded) == ""

    assert state_of(admin_api, pk)["state"] == "ok"
    trail = AuditEntry.objects.filter(kind="credential").order_by("pk")
    assert [entry.action for entry in trail] == ["enter", "refuse", "replace"]
    assert set(trail[2].after) == {"fingerprint"}


def test_a_secret_that_is_taken_again_is_no_longer_refused(guarded, vendor, admin_api):
    for _ in range(2):
        assert run_enumeration(guarded) == "AUTH"
    vendor.script = None
    assert run_enumeration(guarded) == ""

    assert state_of(admin_api, guarded.credential_id)["state"] == "ok"
    trail = AuditEntry.objects.filter(kind="credential").order_by("pk")
    assert [entry.action for entry in trail] == ["enter", "refuse", "accept"]


@pytest.mark.django_db(transaction=True)
def test_a_refusal_of_the_old_secret_is_not_held_against_the_new_one(guarded, admin_api):
    with sessions.open_session(guarded) as session:
        with pytest.raises(Exception, match="401"):
            session.get("/tools")
        credential_operations.replace_secret(
            guarded.credential, actor=make_user(Role.ADMIN), secret="the right one"
        )

    assert state_of(admin_api, guarded.credential_id)["state"] == "new"


@pytest.mark.parametrize(
    ("keys", "sealed", "expected_start"),
    [
        (
            None,
            "v1:k1:AAAA",
            "Its secret cannot be decrypted with the keys of this installation. Enter it again.",
        ),
        (None, "", "Its secret does not exist any more. Enter it again."),
        (
            [],
            None,
            "Its secret needs a key that is not in PEGBOARD_KEYS. Ask the operator of this installation",
        ),
    ],
)
def test_a_secret_that_does_not_open_is_refused_with_a_way_out(
    admin, admin_api, settings, keys, sealed, expected_start
):
    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Key", kind="bearer", url="https://a.example/", secret="s3cret"
    )
    settings.KEYS = settings.KEYS if keys is None else keys
    if sealed is not None:
        Credential.objects.update(sealed=sealed)

    credential_state = state_of(admin_api, credential.pk)

    assert (credential_state["state"], credential_state["remedy"]) == ("refused", "enter_secret")
    assert credential_state["message"].startswith(expected_start)
    page = admin.get(f"/credentials/{credential.pk}/")
    assert PRIMARY.findall(page.content.decode()) == ["Enter the secret again"]


def oauth_form(server: AuthorizationServer, kind: str = "oauth_code", **changed) -> dict:
    client = {f"client-{name}": value for name, value in server.settings().items()}
    fields = {"name": "Weather", "kind": kind, "url": f"{server.url}/tools", "secret": CLIENT_SECRET}
    form = fields | client | {"client-states_issuer": "on"} | changed
    return {name: value for name, value in form.items() if value is not None}


def enter(admin, server: AuthorizationServer, kind: str = "oauth_code", **changed) -> Credential:
    answer = admin.post("/credentials/new/", oauth_form(server, kind, **changed))
    assert answer.status_code == 302, text_of(answer)
    return Credential.objects.select_related("grant").get()


def go_and_come_back(admin, server: AuthorizationServer, credential: Credential):
    page = admin.post(f"/credentials/{credential.pk}/sign-in/")
    (address,) = {*re.findall(r'href="(http[^"]*/authorize[^"]*)"', page.content.decode())}
    assert f'content="0; url={address}"' in page.content.decode()
    back = server.visit(address.replace("&amp;", "&"))
    return admin.get(
        "/credentials/callback/", {name: values[0] for name, values in back.items()}, follow=True
    )


def test_a_sign_in_begins_in_a_browser_to_which_it_comes_back(admin, server, settings):
    settings.PUBLIC_URL = "https://pegboard.example"
    path = f"/credentials/{enter(admin, server).pk}/sign-in/"
    response = admin.post(path, headers={"Origin": "https://pegboard.example"})
    assert "redirect_uri=https%3A%2F%2Fpegboard.example%2F" in response.content.decode()
    page = admin.post(path, headers={"Origin": "http://10.0.0.7"}, follow=True)
    assert "A sign-in comes back to https://pegboard.example/" in text_of(page)
    assert "Open Pegboard there and begin the sign-in again." in text_of(page)


def test_a_person_signs_in_at_the_vendor_and_sees_what_was_granted(admin, server):
    server.grants_scope = "read profile"
    credential = enter(admin, server)
    assert credential.grant.resource == f"{server.url}/tools"
    page = admin.get(f"/credentials/{credential.pk}/")
    host = server.url.removeprefix("http://")
    assert PRIMARY.findall(page.content.decode()) == [f"Sign in at {host}"]
    assert "http://testserver/credentials/callback/" in text_of(page)

    page = go_and_come_back(admin, server, credential)

    assert page.redirect_chain == [(f"/credentials/{credential.pk}/", 302)]
    page_text = text_of(page)
    assert "Signed in. “Weather” can be used now." in page_text
    assert "Not granted: write ." in page_text
    assert "Granted as well: profile ." in page_text
    assert "Requested scopes read write Granted scopes read profile" in page_text
    assert PRIMARY.findall(page.content.decode()) == []
    assert "no-store" in page.headers["Cache-Control"]
    for secret in (*server.access, "refresh-token", CLIENT_SECRET):
        assert secret not in page.content.decode()


@pytest.mark.django_db(transaction=True)
def test_a_sign_in_that_is_over_asks_for_the_next_one(admin, admin_api, server):
    credential = enter(admin, server)
    go_and_come_back(admin, server, credential)
    endpoint = make_endpoint(url=f"{server.url}/", credential=credential)
    assert run_enumeration(endpoint) == ""
    assert state_of(admin_api, credential.pk)["state"] == "ok"
    assert state_of(admin_api, credential.pk)["used_at"]

    wear_out(credential)
    server.scripts.append(scripted({"error": "invalid_grant"}, status=400))
    assert run_enumeration(endpoint) == "NEEDS_SIGN_IN"

    credential_state = state_of(admin_api, credential.pk)
    assert (credential_state["state"], credential_state["remedy"]) == ("needs_sign_in", "sign_in")
    assert credential_state["message"].startswith("It needs a sign-in since ")
    content = admin.get("/credentials/").content.decode()
    assert "Needs a sign-in" in content
    go_and_come_back(admin, server, credential)
    assert state_of(admin_api, credential.pk)["state"] == "ok"


def test_forged_replayed_and_foreign_replies_to_a_sign_in_are_refused(admin, server):
    credential = enter(admin, server)
    page = admin.post(f"/credentials/{credential.pk}/sign-in/")
    address = re.search(r'href="(http[^"]*/authorize[^"]*)"', page.content.decode())[1].replace("&amp;", "&")
    back = {name: values[0] for name, values in server.visit(address).items()}

    unknown, known_path = "/credentials/", f"/credentials/{credential.pk}/"
    for query, client, where in (
        ({}, admin, unknown),
        ({**back, "state": "guessed"}, admin, unknown),
        (back, signed_in(Role.ADMIN), unknown),
        ({**back, "iss": "https://evil.example"}, admin, known_path),
        (back, admin, unknown),  # the one before has used the state up
    ):
        answer = client.get("/credentials/callback/", query, follow=True)
        assert answer.redirect_chain == [(where, 302)]
        assert "tart again" in text_of(answer)
    assert signed_in(Role.DESIGNER).get("/credentials/callback/", back).status_code == 403
    assert Grant.objects.get().access_token == ""


def test_an_error_from_the_server_is_shown_as_text(admin, server):
    credential = enter(admin, server)
    page = admin.post(f"/credentials/{credential.pk}/sign-in/")
    state = re.search(r"state=([\w-]+)", page.content.decode())[1]

    answer = admin.get(
        "/credentials/callback/",
        {
            "state": state,
            "error": "access_denied",
            "error_description": "<img src=x onerror=alert(1)>",
            "iss": server.url,
        },
        follow=True,
    )

    assert "<img" not in answer.content.decode()
    assert Grant.objects.get().access_token == ""


def test_settings_of_a_client_are_refused_beside_their_fields(admin, server):
    answer = admin.post(
        "/credentials/new/",
        oauth_form(server, **{"client-token_url": "", "client-client_id": "", "name": "x"}),
    )

    assert set(answer.context["client"].errors) == {"token_url", "client_id"}
    assert CLIENT_SECRET not in answer.content.decode()
    assert not Credential.objects.exists()
    answer = admin.post("/credentials/new/", oauth_form(server, **{"client-parameters": "no pair"}))
    assert set(answer.context["client"].errors) == {"parameters"}


def test_a_public_client_has_no_secret_to_replace(admin, server):
    credential = enter(admin, server, **{"client-client_authentication": "none", "secret": ""})

    page = text_of(admin.get(f"/credentials/{credential.pk}/"))

    assert "without a secret" in page
    assert "Replace the" not in page


def test_settings_of_a_client_are_edited_and_a_late_edit_is_told(admin, server):
    credential = enter(admin, server, "oauth_client", **{"client-parameters": "tenant=acme\norg=7"})
    path = f"/credentials/{credential.pk}/edit/"
    form = admin.get(path).context["client"]
    assert set(form["parameters"].value().splitlines()) == {"tenant=acme", "org=7"}
    form_fields = {name: value for name, value in server.settings().items() if value is not False}
    form_fields |= {
        "name": credential.name,
        "states_issuer": "on",
        "parameters": "tenant=acme",
        "expected": form.expected,
    }

    assert admin.post(path, form_fields | {"scope": "read"}).status_code == 302
    credential.grant.refresh_from_db()
    assert (credential.grant.scope, credential.grant.parameters) == ("read", {"tenant": "acme"})
    late = admin.post(path, form_fields | {"scope": "admin"})
    assert late.status_code == 409
    assert "has changed this since you opened it" in text_of(late)
    credential.grant.refresh_from_db()
    assert credential.grant.scope == "read"


def test_a_lookup_fills_in_what_the_vendor_says_and_saves_nothing(admin, server):
    server.documents = {
        "/.well-known/oauth-protected-resource": server.resource(),
        "/.well-known/oauth-protected-resource/tools": server.resource(),
        "/.well-known/oauth-authorization-server": server.metadata(),
    }
    form = {"name": "Weather", "kind": "oauth_code", "url": f"{server.url}/tools", "secret": "typed already"}

    page = admin.post("/credentials/new/", form | {"look-up": "1"}, headers={"HX-Request": "true"})

    assert not page.content.decode().lstrip().startswith("<!doctype")
    assert f"{server.url}/authorize" in text_of(page)
    (offer,) = page.context["offers"]
    page = admin.post("/credentials/new/", form | {"found": offer["settings"]})
    client = page.context["client"]
    assert client["token_url"].value() == f"{server.url}/token"
    assert client["client_authentication"].value() == "post"
    assert client["resource"].value() == f"{server.url}/tools"
    assert "typed already" not in page.content.decode()
    assert not Credential.objects.exists()


@pytest.mark.parametrize(
    "offer",
    [
        "",
        "[]",
        "nonsense",
        '{"token_url": 7, "name": "x", "kind": {}}',
        '{"token_url": "\\ud800"}',
        "[" * 100_000,
    ],
    ids=["nothing", "a list", "no JSON", "other things", "half a character", "too deep"],
)
def test_a_forged_offer_changes_nothing(admin, offer):
    form = {"name": "Weather", "kind": "oauth_code", "url": "https://a.example/", "found": offer}

    page = admin.post("/credentials/new/", form)

    assert page.status_code == 200
    assert page.context["form"]["name"].value() == "Weather"
    assert not page.context["client"]["token_url"].value()


def test_an_address_behind_us_is_not_looked_up(admin, admin_api, settings):
    settings.OUTBOUND_ALLOW = ""

    page = admin.post("/credentials/new/", {"kind": "oauth_code", "url": "http://10.0.0.1/", "look-up": "1"})

    assert "This address cannot be used" in text_of(page)
    answer = admin_api.post(f"{API}look-up/", {"url": "http://10.0.0.1/"})
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {"url"})


@pytest.mark.django_db(transaction=True)
def test_everything_is_there_over_rest_too(admin_api, server):
    server.documents = {
        "/.well-known/oauth-protected-resource": server.resource(),
        "/.well-known/oauth-protected-resource/tools": server.resource(),
        "/.well-known/oauth-authorization-server": server.metadata(),
    }
    discovery = admin_api.post(f"{API}look-up/", {"url": f"{server.url}/tools"}).json()
    assert discovery["servers"][0]["token_url"] == f"{server.url}/token"
    assert discovery["steps"]

    fields = {"name": "Weather", "kind": "oauth_client", "url": f"{server.url}/", "secret": CLIENT_SECRET}
    response = admin_api.post(API, fields | {"client": server.settings()})
    assert response.status_code == 201, response.json()
    path = f"{API}{response.json()['id']}/"
    endpoint = make_endpoint(url=f"{server.url}/", credential_id=response.json()["id"])
    assert run_enumeration(endpoint) == ""
    credential_reply = admin_api.get(path)
    row = credential_reply.json()
    assert row["status"]["state"] == "ok"
    assert row["status"]["expires_at"] > row["status"]["renewed_at"]
    assert row["status"]["scopes"] == {
        "asked": ["read", "write"],
        "granted": ["read", "write"],
        "missing": [],
        "extra": [],
        "wanted": [],
    }
    assert row["endpoints"] == [
        {"id": endpoint.pk, "vendor": endpoint.vendor.slug, "url": endpoint.url},
    ]
    assert row["client"]["token_url"] == f"{server.url}/token"

    changed = admin_api.patch(
        path, {"client": {"scope": "read"}}, headers={"If-Match": credential_reply.headers["ETag"]}
    )
    assert changed.json()["client"]["scope"] == "read"
    late = admin_api.patch(
        path, {"client": {"scope": "x"}}, headers={"If-Match": credential_reply.headers["ETag"]}
    )
    assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")
    assert admin_api.post(f"{path}sign-out/").status_code == 204
    assert Grant.objects.get().access_token == ""


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"client": None}, "client"),
        ({"kind": "bearer"}, "client"),
        ({"secret": ""}, "secret"),
        ({"client": {"client_id": "x"}}, "token_url"),
        ({"client": {"token_url": "nope", "client_id": "x"}}, "token_url"),
        ({"client": {"token_url": "https://a.example/", "client_id": 7}}, "client"),
    ],
)
def test_settings_of_a_client_are_judged_over_rest(admin_api, server, change, field):
    fields = {"name": "Weather", "kind": "oauth_client", "url": f"{server.url}/", "secret": CLIENT_SECRET}
    body = fields | {"client": server.settings()} | change
    answer = admin_api.post(API, {name: value for name, value in body.items() if value is not None})

    assert answer.status_code == 400
    assert field in {name.split(".")[0] for name in answer.json()["fields"]}
    assert not Credential.objects.exists()


EDITS = [
    ("endpoint", "http://127.0.0.1:9100/api", "https://127.0.0.1:9100/api"),
    ("endpoint", "http://127.0.0.1:9100/api", "http://127.0.0.2:9100/api"),
    ("endpoint", "http://127.0.0.1:9100/api", "http://127.0.0.1:9101/api"),
    ("token", "http://127.0.0.1:9100/token", "https://127.0.0.1:9100/token"),
    ("token", "http://127.0.0.1:9100/token", "http://127.0.0.2:9100/token"),
    ("token", "http://127.0.0.1:9100/token", "http://127.0.0.1:9101/token"),
]


@pytest.mark.parametrize(("what", "before", "after"), EDITS)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.DESIGNER, Role.ADMIN])
def test_another_origin_unbinds_the_secret(what, before, after, role):
    """A user who may change an address must not receive the secret there."""
    settings = {"token_url": "http://127.0.0.1:9100/token", "client_id": "x"}
    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN),
        name="Key",
        kind="oauth_client",
        url=EDITS[0][1],
        secret="s3cret",
        **settings,
    )
    endpoint = make_endpoint(url=EDITS[0][1], credential=credential)
    api = APIClient()
    api.force_login(make_user(role))

    if what == "endpoint":
        answer = api.patch(f"/api/v1/endpoints/{endpoint.pk}/", {"url": after})
    else:
        answer = api.patch(f"{API}{credential.pk}/", {"client": {"token_url": after}})

    assert answer.status_code == (200 if role == Role.ADMIN else 403)
    endpoint.refresh_from_db()
    credential.refresh_from_db()
    is_unbound = endpoint.credential_id is None if what == "endpoint" else credential.sealed == ""
    assert is_unbound == (role == Role.ADMIN)
    if is_unbound and what == "token":
        credential_state = state_of(api, credential.pk)
        assert (credential_state["state"], credential_state["remedy"]) == ("refused", "enter_secret")


SECRETS = {"secret", "sealed", "access_token", "refresh_token", "client_secret", "verifier", "key_id"}


def members(schema: object, components: dict, schemas_seen: frozenset = frozenset()) -> set[str]:
    """The names of every member that a value of this schema may hold, at any depth."""
    if isinstance(schema, list):
        return set().union(*(members(child, components, schemas_seen) for child in schema))
    if not isinstance(schema, dict):
        return set()
    names = set(schema.get("properties", {}))
    if (name := str(schema.get("$ref", "")).rpartition("/")[2]) and name not in schemas_seen:
        names |= members(components[name], components, schemas_seen | {name})
    return names.union(*(members(value, components, schemas_seen) for value in schema.values()))


def test_secrets_go_in_and_never_come_out(admin, admin_api, server):
    """K5: the schema, OPTIONS, every page and every reply that has to do with credentials."""
    credential = enter(admin, server)
    go_and_come_back(admin, server, credential)
    credential = Credential.objects.select_related("grant").get()
    endpoint = make_endpoint(url=f"{server.url}/", credential=credential)
    schema = admin_api.get("/api/schema/?format=json").json()
    components = schema["components"]["schemas"]
    calls = {path: calls for path, calls in schema["paths"].items() if path.startswith(API)}
    assert len(calls) == 5
    for path, methods in calls.items():
        for method, call in methods.items():
            names = members(call.get("responses", {}), components)
            assert not SECRETS & names, (path, method)
            if "requestBody" in call and "secret" in members(call["requestBody"], components):
                name = call["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert components[name]["properties"]["secret"]["writeOnly"] is True
                assert "default" not in components[name]["properties"]["secret"]

    pk = credential.pk
    replies = [
        admin_api.generic(method, path) for path in (API, f"{API}{pk}/") for method in ("GET", "OPTIONS")
    ]
    replies += [admin_api.patch(f"{API}{pk}/", {"client": {"scope": "read"}})]
    replies += [admin_api.put(f"{API}{pk}/", {"secret": CLIENT_SECRET})]
    replies += [admin_api.get("/api/v1/audit/"), admin_api.get(f"/api/v1/endpoints/{endpoint.pk}/")]
    pages = ["/credentials/", "/credentials/new/", f"/credentials/{pk}/", f"/credentials/{pk}/edit/"]
    pages += [f"/endpoints/{endpoint.pk}/", "/endpoints/new/", "/audit/"]
    replies += [admin.get(path) for path in pages]
    replies += [admin.post(f"/credentials/{pk}/", {"secret": f"{CLIENT_SECRET}\n\x01"})]
    replies += [admin.post("/credentials/new/", oauth_form(server, name=""))]
    grant = Grant.objects.get()
    hidden = [CLIENT_SECRET, *server.access, grant.access_token, grant.refresh_token]
    hidden += [Credential.objects.get().sealed, credential.sealed, *(f.current for f in server.families)]
    for answer in replies:
        text = answer.content.decode()
        assert answer.status_code in (200, 405), (answer.status_code, text)
        assert not [secret for secret in hidden if secret and secret in text]
        assert not [secret for secret in hidden if secret and json.dumps(secret)[1:-1] in text]
        for field in re.findall(r"<input[^>]*type=\"password\"[^>]*>", text):
            assert "value=" not in field
    for path in pages[:4]:
        assert "no-store" in admin.get(path).headers["Cache-Control"]


def test_list_of_many_credentials_costs_the_same(admin, server, django_assert_max_num_queries):
    for _ in range(3):
        make_client(server, "oauth_code")
        credential_operations.create_credential(
            actor=make_user(Role.ADMIN), name="Key", kind="bearer", url="https://a.example/", secret="s3cret"
        )

    with django_assert_max_num_queries(12):
        assert admin.get("/credentials/").status_code == 200
