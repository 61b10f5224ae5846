"""Clients that authenticate with Pegboard's own key: private_key_jwt."""

import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from django.test import Client
from jwt.algorithms import get_default_algorithms

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.credentials.oauth import grant_requests, tokens
from catalog.credentials.oauth.renewal import CredentialTokens
from catalog.models import Credential, Grant
from core.encryption import Secret
from core.errors import DomainError
from core.oauth import client_keys
from core.outbound.errors import RefusedError
from people.models import AuditEntry, Role
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import grant_of, make_client, sign
from tests.factories import make_user
from tests.hostile_vendor import json_reply
from tests.pages import signed_in as browser
from tests.pages import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def server():
    with AuthorizationServer(client_secret=None, method="key") as server:
        yield server


@pytest.fixture
def credential(server):
    row = make_client(server)
    server.public_keys = keys_of(row)
    return row


def keys_of(row: Credential) -> list[dict[str, str]]:
    return Client().get(f"/credentials/{row.pk}/keys.json").json()["keys"]


@pytest.mark.parametrize(
    ("revoked_at", "audience"),
    [
        ("https://as.example/revoke", "https://as.example/token"),
        ("https://elsewhere.example/revoke", "https://elsewhere.example/revoke"),
    ],
)
def test_another_server_gets_no_statement_for_the_token_address(revoked_at, audience):
    grant = Grant(client_authentication="key", token_url="https://as.example/token", client_id="me")
    grant.revocation_url = revoked_at
    form = grant_requests.revocation_form(grant, client_keys.create_key(), {"token": "t"})
    claims = jwt.decode(form.sent[0].reveal(), options={"verify_signature": False})
    assert claims["aud"] == audience


def test_a_token_is_got_with_a_statement_that_the_key_signed(server, credential):
    token = CredentialTokens(grant_of(credential)).renew()
    assert token.secret.reveal() in server.access
    (form,) = server.forms
    claims = jwt.decode(form["client_assertion"], options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 60
    (key,) = keys_of(credential)
    assert set(key) == {"kty", "n", "e", "kid", "alg", "use"}
    assert Grant.objects.get().public_key == key
    # Nothing of the private part lies anywhere in the clear.
    private = credential_operations.sessions.decrypt(credential).reveal()
    rows = [*Credential.objects.values(), *Grant.objects.values(), *AuditEntry.objects.values()]
    assert private not in str(rows)


def test_a_sign_in_its_renewals_and_revocation_are_signed_each_anew(
    server, django_capture_on_commit_callbacks
):
    actor = make_user(Role.ADMIN)
    row = make_client(server, "oauth_code", actor=actor, revocation_url=f"{server.url}/revoke")
    server.public_keys = keys_of(row)
    sign(server, row, actor)
    server.loses, server.takes_again = 1, True
    CredentialTokens(grant_of(row)).renew()
    with django_capture_on_commit_callbacks(execute=True):
        credential_operations.sign_out(row, actor=make_user(Role.ADMIN))
    assert server.revoked == 1
    assert len(server.proofs) == len(set(server.proofs)) == 5


def test_a_server_that_repeats_what_was_sent_tells_nothing(server, credential):
    def repeats(line, request):
        body = request.body.decode()
        sent_assertion = body.partition("client_assertion=")[2].partition("&")[0]
        return json_reply({"error": "invalid_client", "error_description": sent_assertion}, status=401)(
            line, request
        )

    server.scripts.append(repeats)
    with pytest.raises(RefusedError) as raised:
        CredentialTokens(grant_of(credential)).renew()
    assert server.forms[0]["client_assertion"] not in raised.value.message
    assert server.forms[0]["client_assertion"] not in str(AuditEntry.objects.values())


def test_an_administrator_makes_another_key(server, credential):
    admin = browser(Role.ADMIN)
    (old,) = keys_of(credential)
    page = text_of(admin.get(f"/credentials/{credential.pk}/"))
    assert f"/credentials/{credential.pk}/keys.json" in page
    assert old["kid"] in page
    answer = admin.post(f"/credentials/{credential.pk}/", {"make": "key"}, follow=True)
    assert "Another key was created" in text_of(answer)
    (new,) = keys_of(credential)
    assert new["kid"] != old["kid"]
    assert AuditEntry.objects.filter(action="replace").count() == 1
    with pytest.raises(RefusedError):
        CredentialTokens(grant_of(credential)).renew()
    server.public_keys = [new]
    Grant.objects.update(retry_at=None, refused_at=None)
    assert CredentialTokens(grant_of(credential)).renew()
    unchanged = admin.put(f"/api/v1/credentials/{credential.pk}/", {}, content_type="application/json").json()
    assert unchanged["client"]["public_key"]["kid"] not in (old["kid"], new["kid"])
    typed = {"secret": "mine"}
    refused = admin.put(f"/api/v1/credentials/{credential.pk}/", typed, content_type="application/json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["secret"])


def test_secret_and_key_take_the_place_of_each_other(server, credential):
    admin = make_user(Role.ADMIN)
    (old,) = keys_of(credential)

    def change(**changes):
        return credential_operations.update_credential(credential, actor=admin, **changes)

    # A key goes nowhere, so that another address takes nothing away.
    change(token_url="https://other.example/token")
    assert keys_of(credential) == [old]
    change(client_authentication="post")
    credential.refresh_from_db()
    assert (credential.sealed, Grant.objects.get().public_key) == ("", None)
    assert Client().get(f"/credentials/{credential.pk}/keys.json").status_code == 404
    credential_operations.replace_secret(credential, actor=admin, secret="given-by-the-server")
    change(client_authentication="key")
    (new,) = keys_of(credential)
    assert new["kid"] != old["kid"]
    credential_operations.remove_credential(credential, actor=admin)
    assert Client().get(f"/credentials/{credential.pk}/keys.json").status_code == 404


def test_the_form_offers_it_and_takes_no_secret(server):
    admin = browser(Role.ADMIN)
    client_fields = {f"client-{name}": value for name, value in server.settings(states_issuer="on").items()}
    payload = {"name": "Signs", "kind": "oauth_client", "url": server.url, **client_fields}
    admin.post("/credentials/new/", payload | {"secret": "mine"})
    assert not Credential.objects.exists()
    admin.post("/credentials/new/", payload)
    row = Credential.objects.get()
    server.public_keys = keys_of(row)
    assert tokens.read_grant(row.pk).public_key["alg"] == "RS256"
    assert CredentialTokens(grant_of(row)).renew()


def test_names_of_keys_are_their_digests():
    private = client_keys.create_key()
    public = client_keys.public_part(private)
    assert client_keys.public_part(Secret(private.reveal())) == public
    assert "d" not in public
    assert jwt.PyJWK(public).key.key_size == 2048


def pem_of(key) -> str:
    encoding = serialization.Encoding.PEM
    form, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(encoding, form, encryption).decode()


ISSUED = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.mark.parametrize("algorithm", ISSUED)
@pytest.mark.parametrize("is_jwk", [False, True])
def test_a_key_that_the_server_issued_signs(server, credential, algorithm, is_jwk):
    key, actor = ISSUED[algorithm], make_user(Role.ADMIN)
    text = pem_of(key).replace("\n", "")  # as a password field pastes it
    if is_jwk:
        text = json.dumps(get_default_algorithms()[algorithm].to_jwk(key, as_dict=True) | {"kid": "theirs"})
    credential = credential_operations.replace_secret(credential, actor=actor, secret=text)
    (public,) = keys_of(credential)
    assert (public["alg"], "d" in public, public["kid"] == "theirs") == (algorithm, False, is_jwk)
    private = sessions.decrypt(credential)
    statement = client_keys.create_assertion(private, client_id="me", audience="https://as.example", now=0)
    options = {"verify_exp": False, "verify_aud": False}
    decoded = jwt.decode(statement, key.public_key(), algorithms=[algorithm], options=options)
    assert (decoded["sub"], jwt.get_unverified_header(statement)["kid"]) == ("me", public["kid"])


@pytest.mark.parametrize(
    "text",
    [
        "mine",
        "{}",
        "[1]",
        '{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQ"}',
        pem_of(rsa.generate_private_key(public_exponent=65537, key_size=1024)),
        pem_of(ec.generate_private_key(ec.SECP521R1())),
        "-----BEGIN PRIVATE KEY-----AAAA-----END PRIVATE KEY-----",
    ],
    ids=["no key", "empty", "a list", "symmetric", "short", "unknown curve", "no DER"],
)
def test_other_texts_are_refused_as_a_key(credential, text):
    before = Credential.objects.values().get()
    with pytest.raises(DomainError) as refused:
        credential_operations.replace_secret(credential, actor=make_user(Role.ADMIN), secret=text)
    assert set(refused.value.fields) == {"secret"}
    assert Credential.objects.values().get() == before


def test_a_public_jwk_is_no_private_key(credential):
    public = json.dumps(client_keys.public_part(client_keys.create_key()))
    with pytest.raises(DomainError):
        credential_operations.replace_secret(credential, actor=make_user(Role.ADMIN), secret=public)


def test_an_administrator_enters_the_key_that_the_server_issued(credential):
    admin = browser(Role.ADMIN)
    (old,) = keys_of(credential)
    admin.post(f"/credentials/{credential.pk}/", {"secret": pem_of(ISSUED["ES256"])})
    (new,) = keys_of(credential)
    assert (old["alg"], new["alg"]) == ("RS256", "ES256")
