"""Connecting a vendor that wants a sign-in: one way from the address to the first run, without a loss."""

import re

import pytest

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import clients
from catalog.models import Credential, Endpoint, Grant, Run, Vendor
from people.models import AuditEntry, Role
from tests.catalog.credentials.oauth.cases import grant_of
from tests.factories import make_user, make_vendor
from tests.pages import signed_in, text_of
from tests.strict_authorization import StrictServer

pytestmark = pytest.mark.django_db
BACK = "http://testserver/credentials/callback/"
NEW, PREVIEW = "/endpoints/new/", "/endpoints/new/preview/"


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


@pytest.fixture
def server():
    with StrictServer(redirect_uri=BACK) as server:
        yield server


def typed(server: StrictServer, **more: str) -> dict[str, str]:
    form = {"vendor": "", "vendor_name": "Forecasts", "protocol": "mcp", "url": server.resource}
    return form | {"credential": "", "interval_minutes": "60"} | more


def offered(admin, server, **more: str) -> dict:
    page = admin.post(PREVIEW, typed(server, **more), headers={"HX-Request": "true"})
    assert "This vendor requires a sign-in" in text_of(page)
    [offer] = page.context["offers"]
    return offer


def goes_to(page) -> str:
    assert page.status_code == 200, page.headers.get("Location")
    return re.search(r'href="(http[^"]*/authorize[^"]*)"', page.content.decode())[1].replace("&amp;", "&")


def come_back(admin, server, page):
    back = {name: values[0] for name, values in server.visit(goes_to(page)).items()}
    return admin.get("/credentials/callback/", back)


def test_registered_signed_in_and_read_with_one_press_after_the_look(admin, server):
    offer = offered(admin, server)
    assert not Vendor.objects.exists(), "a look saves nothing"

    page = admin.post(NEW, typed(server, register=offer["register"]))
    endpoint = Endpoint.objects.get()
    assert (endpoint.is_paused, Run.objects.exists()) == (True, False), "it waits for the sign-in"
    assert grant_of(endpoint.credential).registered_at
    answer = come_back(admin, server, page)

    endpoint.refresh_from_db()
    assert answer["Location"] == f"/runs/{Run.objects.get().pk}/"
    assert (endpoint.is_paused, endpoint.vendor.name, endpoint.url) == (False, "Forecasts", server.resource)
    assert Grant.objects.get().granted_scope == "read write offline_access"
    assert server.faults == []
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["connect", "enter", "connect", "sign in", "edit", "enumerate"]
    row = AuditEntry.objects.get(action="sign in")
    assert row.after["server"] == server.issuer
    assert row.after["scope"] == "read write offline_access"


def test_with_a_client_that_is_there_already(admin, server):
    server.registers = False
    offer = offered(admin, server)
    assert "register" not in offer
    page = admin.post(NEW, typed(server, found=offer["settings"]))
    assert page.context["client"]["token_url"].value() == f"{server.url}/token"
    assert page.context["form"]["kind"].value() == "oauth_code"
    assert not Vendor.objects.exists()

    client = page.context["client"]
    form = {f"client-{name}": client[name].value() for name in client.fields if client[name].value()}
    form |= {"credential": "new", "kind": "oauth_code", "secret": server.secret}
    page = admin.post(NEW, typed(server, **form | {"client-client_id": server.client_id}))
    answer = come_back(admin, server, page)
    assert answer["Location"] == f"/runs/{Run.objects.get().pk}/"
    assert server.faults == []
    assert server.secret not in page.content.decode()


def test_browser_that_is_closed_on_the_way_loses_nothing(admin, server):
    admin.post(NEW, typed(server, register=offered(admin, server)["register"]))
    endpoint = Endpoint.objects.get()

    another = signed_in(Role.ADMIN)  # on another machine, the next day
    page = another.get(f"/endpoints/{endpoint.pk}/")
    host = server.url.removeprefix("http://")
    assert f"Waiting for a sign-in at {host}" in text_of(page)
    page = another.post(f"/credentials/{endpoint.credential_id}/sign-in/")
    answer = come_back(another, server, page)
    assert answer["Location"] == f"/runs/{Run.objects.get().pk}/"
    assert "Waiting for a sign-in" not in text_of(another.get(f"/endpoints/{endpoint.pk}/"))


def test_refused_sign_in_leads_back_to_the_endpoint_and_can_be_begun_again(admin, server):
    page = admin.post(NEW, typed(server, register=offered(admin, server)["register"]))
    state = re.search(r"state=([\w-]+)", goes_to(page))[1]
    query = {"state": state, "error": "access_denied", "iss": server.issuer}
    answer = admin.get("/credentials/callback/", query, follow=True)

    assert answer.redirect_chain == [(f"/endpoints/{Endpoint.objects.get().pk}/", 302)]
    assert "access was denied" in text_of(answer)
    assert "Sign in at" in text_of(answer)
    assert not Run.objects.exists()


def test_refused_registration_leaves_the_form_as_it_was_and_another_way(admin, server):
    offer = offered(admin, server)
    server.registers = False  # meanwhile
    page = admin.post(NEW, typed(server, register=offer["register"]))

    [error] = page.context["form"].non_field_errors()
    assert server.url.removeprefix("http://") in error
    assert error in text_of(page)
    assert page.context["form"]["vendor_name"].value() == "Forecasts"
    assert page.context["client"]["token_url"].value() == f"{server.url}/token"
    assert not Vendor.objects.exists()


@pytest.mark.parametrize(
    ("changed", "expected_text"),
    [
        ({"require_pushed_authorization_requests": True}, "PAR, RFC 9126"),
        ({"issuer": "https://new.example"}, "It states the issuer https://new.example now"),
        ({"authorization_endpoint": "https://new.example/authorize"}, "has changed since you looked it up"),
    ],
)
def test_server_that_changed_since_the_look_gets_no_client(admin, server, changed, expected_text):
    offer = offered(admin, server)
    described = server._described

    def changes(path):
        status, document, headers = described(path)
        return status, document | changed if "issuer" in document else document, headers

    server._described = changes
    page = admin.post(NEW, typed(server, register=offer["register"]))

    assert expected_text in text_of(page)
    assert ("POST", "/register") not in server.calls
    assert not Credential.objects.exists()


def test_vendor_that_moved_to_another_server_is_noticed_before_the_next_sign_in(admin, server):
    page = admin.post(NEW, typed(server, register=offered(admin, server)["register"]))
    come_back(admin, server, page)
    row = Credential.objects.get()
    old = grant_of(row).client_id
    clients.forget_tokens(row.grant, "the vendor does not take it any more")
    with StrictServer(redirect_uri=BACK) as new:
        described = server._described
        server._described = lambda path: (
            (200, {"resource": server.resource, "authorization_servers": [new.issuer]}, {})
            if "protected-resource" in path
            else described(path)
        )
        refused = admin.post(f"/api/v1/credentials/{row.pk}/sign-in/")
        assert (refused.status_code, refused.json()["code"]) == (409, "sign_in_moved")
        assert new.issuer in refused.json()["message"]
        page = admin.post(f"/credentials/{row.pk}/sign-in/")
        assert "The vendor now uses another authorization server" in text_of(page)
        [offer] = page.context["offers"]
        form = {"name": row.name, "register": offer["register"]}
        answer = admin.post(f"/credentials/{row.pk}/edit/", form)
        assert answer.status_code == 302, text_of(answer)
        grant = grant_of(row)
        assert (grant.issuer, grant.client_id == old) == (new.issuer, False)
        refused = admin.post(f"/api/v1/credentials/{row.pk}/sign-in/")
        assert refused.json()["address"].startswith(new.url)
        page = admin.post(f"/credentials/{row.pk}/sign-in/")
        assert goes_to(page).startswith(new.url)
        assert old not in goes_to(page)


def test_form_that_is_not_complete_registers_nobody(admin, server):
    offer = offered(admin, server)
    for wrong in ({"url": "nowhere"}, {"interval_minutes": "x"}):
        page = admin.post(NEW, typed(server, register=offer["register"]) | wrong)
        assert page.status_code == 200
    make_vendor(name="Forecasts", slug="forecasts")
    page = admin.post(NEW, typed(server, register=offer["register"]))
    assert "There is a vendor “forecasts” already." in text_of(page)
    assert ("POST", "/register") not in server.calls
    assert not Credential.objects.exists()
    # A vendor without a name is named by its address until a user names it.
    admin.post(NEW, typed(server, register=offer["register"], vendor_name=""))
    assert Vendor.objects.latest("pk").name == "127.0.0.1"


def test_credential_that_still_waits_makes_the_next_endpoint_wait_too(admin, server):
    admin.post(NEW, typed(server, register=offered(admin, server)["register"]))
    first = Endpoint.objects.get()
    again = {"vendor_name": "Again", "url": f"{server.resource}?profile=2"}
    page = admin.post(NEW, typed(server, credential=str(first.credential_id)) | again)
    answer = come_back(admin, server, page)
    assert answer["Location"] == f"/credentials/{first.credential_id}/"
    assert not Endpoint.objects.filter(is_paused=True).exists()
    assert Run.objects.count() == 2


def test_vendor_that_names_no_server_is_asked_about_with_a_key(admin, server):
    server.path = "/nowhere"
    server._described = lambda path: (404, {}, {})
    page = admin.post(PREVIEW, typed(server), headers={"HX-Request": "true"})
    assert page.context["offers"] == []
    assert "The vendor does not declare how to sign in." in text_of(page)
    page = admin.post(NEW, typed(server, enter="bearer"))
    assert (page.context["form"]["credential"].value(), page.context["form"]["kind"].value()) == (
        "new",
        "bearer",
    )


FORGED = ("", "[]", "{", '{"registration_url": 7}', '{"token_url": "\\ud800"}')


def test_forged_offer_changes_nothing(admin, server):
    form = typed(server, url="http://127.0.0.1:9/nobody", credential="new")
    for button, value in [("found", value) for value in FORGED] + [
        ("register", FORGED[3]),
        ("as-document", ""),
    ]:
        assert admin.post(NEW, form | {button: value}).status_code == 200
    assert not Credential.objects.exists()
    assert not Vendor.objects.exists()


def test_designers_may_not(server):
    for path in (NEW, PREVIEW):
        assert signed_in(Role.DESIGNER).post(path, typed(server)).status_code == 403


def test_server_that_reads_about_us_gets_an_id_without_registering(admin, server):
    described = server._described

    def reads(path):
        status, document, headers = described(path)
        return status, document | {"client_id_metadata_document_supported": True}, headers

    server._described = reads
    assert "as_document" not in offered(admin, server), "over http nobody could read it"
    page = admin.post(PREVIEW, typed(server), headers={"HX-Request": "true"}, secure=True)
    [offer] = page.context["offers"]
    page = admin.post(NEW, typed(server, **{"as-document": offer["as_document"]}), secure=True)
    grant = Grant.objects.get()
    assert (grant.client_id, grant.client_authentication) == (
        "https://testserver/credentials/client.json",
        "none",
    )
    document = signed_in(Role.VIEWER).get("/credentials/client.json", secure=True).json()
    assert document["client_id"] == grant.client_id
    assert document["redirect_uris"] == [BACK.replace("http:", "https:")]
    assert document["token_endpoint_auth_method"] == "none"
    assert "client_id=https%3A%2F%2Ftestserver%2Fcredentials%2Fclient.json" in goes_to(page)


def test_details_of_a_plain_credential_are_edited(admin):
    row = credential_operations.create_credential(
        actor=make_user(Role.ADMIN),
        name="Key",
        kind="header",
        url="http://127.0.0.1:9/",
        secret="s3cret",
        header="X-Key",
    )
    path = f"/credentials/{row.pk}/edit/"
    form = admin.get(path).context["form"]
    assert list(form.fields) == ["name", "header"]
    edited = {"name": "Main key", "header": "X-Api-Key", "expected": form.expected}

    assert admin.post(path, edited).status_code == 302
    after = Credential.objects.get()
    assert (after.name, after.details["header"], after.fingerprint, after.sealed) == (
        "Main key",
        "X-Api-Key",
        row.fingerprint,
        row.sealed,
    )
    row_of_trail = AuditEntry.objects.get(action="edit")
    assert row_of_trail.before == {"name": "Key", "header": "X-Key"}
    late = admin.post(path, edited | {"name": "Another"})
    assert late.status_code == 409
    assert "has changed this since you opened it" in text_of(late)
    wrong = admin.post(path, {"name": "", "header": "Host"})
    assert wrong.context["form"].errors
    assert Credential.objects.get().name == "Main key"


def chosen_of(admin, server, path: str, form: dict[str, str]) -> dict:
    page = admin.post(path, form | {"look-up": "1"})
    [offer] = page.context["offers"]
    return offer


def entered(server, kind: str) -> Credential:
    addresses = {"token_url": f"{server.url}/token", "authorization_url": f"{server.url}/authorize"}
    return credential_operations.create_credential(
        actor=make_user(Role.ADMIN),
        name="Forecasts",
        kind=kind,
        url=server.resource,
        secret=server.secret,
        client_id=server.client_id,
        client_authentication="basic",
        **addresses if kind == "oauth_code" else {"token_url": addresses["token_url"]},
    )


def test_whoever_edits_too_late_registers_nobody(admin, server):
    row = entered(server, "oauth_code")
    path = f"/credentials/{row.pk}/edit/"
    client = admin.get(path).context["client"]
    form = {name: client[name].value() or "" for name in client.fields} | {"parameters": ""}
    offer = chosen_of(admin, server, path, form)
    credential_operations.update_credential(row, actor=make_user(Role.ADMIN), name="Renamed meanwhile")

    late = admin.post(path, form | {"expected": client.expected, "register": offer["register"]})
    assert late.status_code == 409
    assert ("POST", "/register") not in server.calls


def test_whoever_registers_signs_in_whatever_kind_was_chosen_before(admin, server):
    form = {"name": "Forecasts", "url": server.resource, "kind": "oauth_client", "secret": ""}
    offer = chosen_of(admin, server, "/credentials/new/", form)
    assert admin.post("/credentials/new/", form | {"register": offer["register"]}).status_code == 302
    assert Credential.objects.get().kind == "oauth_code"


def test_what_asks_as_itself_is_not_offered_a_sign_in(admin, server):
    row = entered(server, "oauth_client")
    offer = chosen_of(admin, server, f"/credentials/{row.pk}/edit/", {"resource": server.resource})
    assert not {"register", "as_document"} & offer.keys()
