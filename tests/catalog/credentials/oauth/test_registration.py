"""Registering Pegboard at an authorization server: asked once, judged, encrypted; odd replies are refused."""

import time
from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import client_registration
from catalog.credentials.oauth.clients import RegisteredClient
from catalog.models import Grant
from core.encryption import Secret
from core.outbound.errors import ProtocolError
from people.models import AuditEntry, Role
from tests.authorization_server import AuthorizationServer, scripted
from tests.catalog.credentials.oauth.cases import REDIRECT, make_client, status_of
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor, json_reply, raw, reply

SECRET = "the secret that a server made for us"
FINE = {
    "client_id": "made-for-us",
    "client_secret": SECRET,
    "client_secret_expires_at": 0,
    "redirect_uris": [REDIRECT],
    "grant_types": ["authorization_code", "refresh_token"],
    "token_endpoint_auth_method": "client_secret_basic",
    "registration_access_token": "a token that nobody keeps",
    "registration_client_uri": "https://evil.example/manage",
}


def answered(script, path: str = "/register") -> RegisteredClient:
    with HostileVendor(script) as server:
        return client_registration.register(
            f"{server.url}{path}", redirect_uri=REDIRECT, authentication="basic", scope="read"
        )


@pytest.mark.parametrize("status", [200, 201])
def test_we_say_who_we_are_and_take_what_we_are_given(status):
    with HostileVendor(json_reply(FINE, status=status)) as server:
        registration = client_registration.register(
            f"{server.url}/register", redirect_uri=REDIRECT, authentication="basic", scope="read"
        )
        [request] = server.requests
    assert (request.method, request.headers["content-type"]) == ("POST", "application/json")
    assert request.json() == {
        "client_name": "Pegboard at pegboard.example",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_basic",
        "application_type": "web",
        "scope": "read",
    }
    assert (registration.client_id, registration.client_authentication) == ("made-for-us", "basic")
    assert (registration.secret.reveal(), registration.secret_expires_at) == (SECRET, None)
    assert SECRET not in repr(registration)


def without(*names: str) -> dict:
    return {name: value for name, value in FINE.items() if name not in names}


TAKEN = {
    "nothing but an id": ({"client_id": "x"}, ("none", None)),
    "a secret and no word about the way": (without("token_endpoint_auth_method"), ("basic", SECRET)),
    "another way than asked for": (
        FINE | {"token_endpoint_auth_method": "client_secret_post"},
        ("post", SECRET),
    ),
    "a secret for a public client": (FINE | {"token_endpoint_auth_method": "none"}, ("none", None)),
    "null for what is not said": (
        FINE | dict.fromkeys(("client_secret_expires_at", "redirect_uris", "grant_types", "error")),
        ("basic", SECRET),
    ),
    "no end": (without("client_secret_expires_at"), ("basic", SECRET)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_not_said_is_as_it_was_asked_for(name):
    document, (way, secret) = TAKEN[name]
    registration = answered(json_reply(document, status=201))
    assert (registration.client_authentication, registration.secret and registration.secret.reveal()) == (
        way,
        secret,
    )


ODD = {
    "a list": ([], "REGISTRATION_SHAPE"),
    "a web page": (
        reply(b"<html>Welcome</html>", headers={"Content-Type": "text/html"}),
        "REGISTRATION_NOT_JSON",
    ),
    "nothing": (reply(b"", status=201), "REGISTRATION_EMPTY_REPLY"),
    "two ids": (b'{"client_id":"a","client_id":"b"}', "REGISTRATION_JSON_DUPLICATE"),
    "10 MB": (b'{"client_id":"' + b"a" * 10_000_000 + b'"}', "REGISTRATION_BODY_TOO_LARGE"),
    "no id": (without("client_id"), "REGISTRATION_ID"),
    "an id that is a number": (FINE | {"client_id": 7}, "REGISTRATION_ID"),
    "an id with a line break": (FINE | {"client_id": "a\r\nX-Evil: 1"}, "REGISTRATION_ID"),
    "an endless id": (FINE | {"client_id": "a" * 501}, "REGISTRATION_ID"),
    "no secret where one is needed": (without("client_secret"), "REGISTRATION_SECRET"),
    "an empty secret": (FINE | {"client_secret": " "}, "REGISTRATION_SECRET"),
    "a secret that is a list": (FINE | {"client_secret": [SECRET]}, "REGISTRATION_SECRET"),
    "a proof that we do not know": (
        FINE | {"token_endpoint_auth_method": "private_key_jwt"},
        "REGISTRATION_METHOD",
    ),
    "another address to come back to": (FINE | {"redirect_uris": [f"{REDIRECT}x"]}, "REGISTRATION_CALLBACK"),
    "no sign-in": (FINE | {"grant_types": ["client_credentials"]}, "REGISTRATION_GRANT"),
    "a secret of yesterday": (FINE | {"client_secret_expires_at": 86_400}, "REGISTRATION_EXPIRY"),
    "a secret until -1": (FINE | {"client_secret_expires_at": -1}, "REGISTRATION_EXPIRY"),
    "a secret until 10^400": (
        b'{"client_id":"a","client_secret":"b","client_secret_expires_at":1' + b"0" * 400 + b"}",
        "REGISTRATION_EXPIRY",
    ),
    "a secret until soon": (FINE | {"client_secret_expires_at": "soon"}, "REGISTRATION_EXPIRY"),
    "an error with 200": ({"error": "invalid_redirect_uri"}, "REGISTRATION_REFUSED"),
    "an error that is no text": ({"error": {"a": 1}}, "REGISTRATION_SHAPE"),
    "a redirect": (
        reply(b"", status=302, headers={"Location": "http://169.254.169.254/"}),
        "REGISTRATION_REDIRECT",
    ),
    "500": (json_reply({}, status=500), "REGISTRATION_HTTP_500"),
    "404": (json_reply({}, status=404), "REGISTRATION_NOT_FOUND"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_reply_is_refused_with_a_code_and_a_sentence(name):
    answer, code = ODD[name]
    with pytest.raises(ProtocolError) as raised:
        answered(answer if callable(answer) else scripted(answer, status=200))
    assert raised.value.code == code
    assert raised.value.message.endswith((".", "?"))
    assert SECRET not in raised.value.message


REFUSALS = {
    "invalid_redirect_uri": (400, "does not accept the redirect address of this Pegboard."),
    "invalid_client_metadata": (400, "does not register a client like Pegboard."),
    "unapproved_software_statement": (400, "registers approved clients only."),
    "invalid_token": (401, "requires a token for a registration."),
    "access_denied": (403, "registers known clients only."),
    "<b>x</b>": (400, "did not register Pegboard: <b>x</b>."),
}


@pytest.mark.parametrize("error", REFUSALS)
def test_refusal_says_what_to_do(error):
    status, sentence = REFUSALS[error]
    error_body = {"error": error, "error_description": "Ask\u202e us \x07first."}
    with pytest.raises(ProtocolError) as raised:
        answered(json_reply(error_body, status=status))
    assert raised.value.code == "REGISTRATION_REFUSED"
    assert sentence.removesuffix(".") in raised.value.message
    assert "Its message: “Ask\\u202e us \\x07first.”" in raised.value.message


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/register", "ftp://as.example/register", "", "http://10.0.0.1/"]
)
def test_forbidden_address_is_not_reached(address):
    with pytest.raises(ProtocolError) as raised:
        client_registration.register(address, redirect_uri=REDIRECT, authentication="basic", scope="")
    assert raised.value.code in ("REGISTRATION_URL", "REGISTRATION_ADDRESS")


def test_registration_is_asked_for_once_although_the_reply_is_lost():
    with HostileVendor(raw(b"HTTP/1.1 201 Created\r\nContent-Length: 50\r\n\r\n{")) as server:
        with pytest.raises(ProtocolError):
            client_registration.register(
                f"{server.url}/register", redirect_uri=REDIRECT, authentication="basic", scope=""
            )
        assert len(server.requests) == 1


def registered(**changed) -> RegisteredClient:
    members = {"client_id": "made-for-us", "client_authentication": "basic", "secret": Secret(SECRET)}
    return RegisteredClient(**members | {"secret_expires_at": None} | changed)


@pytest.mark.django_db
def test_secret_that_was_given_for_a_while_says_so_before_it_is_over():
    with AuthorizationServer() as server:
        make = partial(make_client, server, "oauth_code", client_id="ignored", secret="")
        week, now = timedelta(days=7), timezone.now()
        lasting = make(registered_client=registered(secret_expires_at=now + 2 * week), name="lasting")
        ending = make(registered_client=registered(secret_expires_at=now + week / 2), name="ending")
        Grant.objects.filter(credential=lasting).update(secret_expires_at=now + 2 * week)
        assert status_of(lasting).state == "new"
        assert (status_of(ending).state, status_of(ending).remedy) == ("expiring", "edit")
        Grant.objects.filter(credential=ending).update(secret_expires_at=now - week)
        assert status_of(ending).state == "refused"
        assert "register Pegboard there again" in status_of(ending).message

        credential_operations.update_credential(
            ending, actor=make_user(Role.ADMIN), registered_client=registered(client_id="another")
        )
        assert status_of(ending).state == "new"
        assert AuditEntry.objects.filter(action="edit").get().after["client_id"] == "another"
        assert SECRET not in str(AuditEntry.objects.values_list("before", "after"))


def test_time_is_read_as_seconds_since_1970():
    ends = int(time.time()) + 3600
    registration = answered(json_reply(FINE | {"client_secret_expires_at": ends}))
    assert int(registration.secret_expires_at.timestamp()) == ends
