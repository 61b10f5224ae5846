"""The entrance for members: found, signed in at, renewed, as an administrator would."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db.models.functions import Now

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import client_registration, discovery, revocation, sign_in
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Grant
from catalog.models.runs import Trigger
from core.outbound.errors import ProtocolError
from demo import VENDORS
from demo.membership import CLIENT_ID, CLIENT_SECRET
from people.models import Role
from tests.demo.conftest import running
from tests.factories import make_endpoint, make_user

pytestmark = pytest.mark.django_db
BACK = "http://127.0.0.1:8000/credentials/callback/"
SESSION = "a login session"


@pytest.fixture
def weather():
    yield from running(VENDORS[1])


def connect(weather, kind: str):
    """Create a credential from the vendor's metadata, and the client's name and secret from its page."""
    authorization = discovery.discover(f"http://127.0.0.1:{weather.port}/members")
    [server] = authorization.servers
    assert server.problem == ""
    ada = make_user(Role.ADMIN)
    credential = credential_operations.create_credential(
        actor=ada,
        name="Members",
        kind=kind,
        url=authorization.resource,
        secret=CLIENT_SECRET,
        token_url=server.token_url,
        authorization_url=server.authorization_url,
        issuer=server.issuer,
        states_issuer=server.states_issuer,
        client_id=CLIENT_ID,
        client_authentication=server.client_authentication,
        scope=authorization.scope,
        resource=authorization.resource,
    )
    return ada, credential, make_endpoint(url=authorization.resource, credential=credential)


def run_enumeration(endpoint):
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def allow(weather, ada, credential) -> None:
    options = {"actor": ada, "session_key": SESSION, "redirect_uri": BACK}
    address = urlsplit(sign_in.begin(credential, **options))
    consent = weather.send("GET", f"{address.path}?{address.query}").decode()
    link = unescape(re.search(r'<a href="([^"]+)">Allow</a>', consent)[1])
    sign_in.complete(parse_qs(urlsplit(link).query), **options)


def test_page_names_the_client(weather):
    page = weather.send("GET", "/").decode()
    assert CLIENT_ID in page
    assert CLIENT_SECRET in page


def test_strangers_are_told_where_to_go(weather):
    assert weather.get("/members/tools")["code"] == "unauthorized"
    assert weather.status == 401
    assert "resource_metadata=" in weather.headers["WWW-Authenticate"]


def test_client_asks_for_itself(weather):
    _, _, endpoint = connect(weather, "oauth_client")
    run = run_enumeration(endpoint)

    assert (run.status, run.added) == ("succeeded", len(weather.tools()))


def test_person_signs_in_and_the_token_is_renewed(weather):
    ada, credential, endpoint = connect(weather, "oauth_code")
    assert run_enumeration(endpoint).error_code == "NEEDS_SIGN_IN"
    allow(weather, ada, credential)
    first = run_enumeration(endpoint)
    Grant.objects.update(expires_at=Now(), renew_at=Now())
    second = run_enumeration(endpoint)

    assert (first.status, second.status) == ("succeeded", "succeeded")
    assert Grant.objects.get().generation == 2
    assert Grant.objects.get().granted_scope == "forecasts warnings"


def test_old_refresh_token_ends_the_sign_in(weather):
    ada, credential, endpoint = connect(weather, "oauth_code")
    allow(weather, ada, credential)
    old = Grant.objects.get().refresh_token
    Grant.objects.update(expires_at=Now(), renew_at=Now())
    run_enumeration(endpoint)
    Grant.objects.update(expires_at=Now(), renew_at=Now(), refresh_token=old)

    assert run_enumeration(endpoint).error_code == "NEEDS_SIGN_IN"


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": "another"},
        {"redirect_uri": "https://evil.example/"},
        {"code_challenge_method": "plain"},
        {"code_challenge": ""},
    ],
)
def test_wrong_question_gets_no_consent_page(weather, wrong):
    from urllib.parse import urlencode

    fields = {
        "client_id": CLIENT_ID,
        "redirect_uri": BACK,
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
    }
    answer = weather.get(f"/authorize?{urlencode(fields | wrong)}")
    assert (weather.status, answer["error"]) == (400, "invalid_request")


def test_client_on_this_machine_registers_itself_and_says_goodbye(weather):
    authorization = discovery.discover(f"http://127.0.0.1:{weather.port}/members")
    [server] = authorization.servers
    options = {
        "redirect_uri": BACK,
        "authentication": server.client_authentication,
        "scope": authorization.scope,
    }
    registration = client_registration.register(server.registration_url, **options)
    ada = make_user(Role.ADMIN)
    credential = credential_operations.create_credential(
        actor=ada,
        name="Guest",
        kind="oauth_code",
        url=authorization.resource,
        registered_client=registration,
        token_url=server.token_url,
        authorization_url=server.authorization_url,
        revocation_url=server.revocation_url,
        issuer=server.issuer,
        resource=authorization.resource,
    )
    allow(weather, ada, credential)
    endpoint = make_endpoint(url=authorization.resource, credential=credential)
    assert run_enumeration(endpoint).status == "succeeded"
    prepared = revocation.prepare(Grant.objects.select_related("credential").get())
    assert prepared.send() == ""
    Grant.objects.update(expires_at=Now(), renew_at=Now())
    assert run_enumeration(endpoint).error_code == "NEEDS_SIGN_IN", "what was ended there is over here too"
    options["redirect_uri"] = "https://evil.example/"
    with pytest.raises(ProtocolError, match="does not accept the redirect address"):
        client_registration.register(server.registration_url, **options)
