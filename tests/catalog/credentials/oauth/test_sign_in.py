"""Signing in at an authorization server, and the attacks on it: RFC 9700 section 4."""

import threading
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db.models.functions import Now
from django.test import Client

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import grant_status, sign_in
from catalog.models import Grant, SignIn
from core import encryption
from core.errors import DomainError
from core.oauth.client import challenge_of
from people.models import AuditEntry, Role
from tests.authorization_server import AuthorizationServer, scripted
from tests.catalog.credentials.oauth.cases import (
    REDIRECT,
    begin,
    complete,
    grant_of,
    make_client,
    sign,
    signed_in,
    status_of,
)
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def server():
    with AuthorizationServer() as server:
        yield server


@pytest.fixture
def ada():
    return make_user(Role.ADMIN)


@pytest.fixture
def credential(server, ada):
    return make_client(server, "oauth_code", actor=ada)


def query_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def refused(query, actor, code: str, **options) -> str:
    with pytest.raises(DomainError) as raised:
        complete(query, actor, **options)
    assert raised.value.code == code
    return raised.value.message


def nothing_was_kept(credential) -> bool:
    grant = grant_of(credential)
    return (grant.generation, grant.access_token, grant.refresh_token) == (0, "", "")


def test_sign_in_asks_for_everything_and_keeps_what_comes(server, credential, ada):
    address = begin(credential, ada)
    query = query_of(address)
    assert query | {"state": "", "code_challenge": ""} == {
        "response_type": "code",
        "client_id": "pegboard:1",
        "redirect_uri": REDIRECT,
        "scope": "read write",
        "resource": f"{server.url}/",
        "state": "",
        "code_challenge": "",
        "code_challenge_method": "S256",
    }
    assert len(query["state"]) == len(query["code_challenge"]) == 43

    assert complete(server.visit(address), ada) == credential
    form = server.forms[0]
    assert challenge_of(form["code_verifier"]) == query["code_challenge"]
    assert (form["redirect_uri"], form["resource"]) == (REDIRECT, f"{server.url}/")
    status = status_of(credential)
    assert (status.state, status.signed_in_by) == (grant_status.SignInState.OK, str(ada))
    assert status.granted == ["read", "write"]
    entry = AuditEntry.objects.latest("pk")
    details = {"server": server.url, "asked": "read write", "scope": "read write"}
    assert (entry.action, entry.actor, entry.after) == ("sign in", ada, details)


def test_what_the_address_and_the_settings_say_goes_along(server, ada):
    settings = {
        "authorization_url": f"{server.url}/authorize?tenant=a",
        "parameters": {"prompt": "consent"},
        "resource": "",
        "audience": "us",
    }
    query = query_of(begin(make_client(server, "oauth_code", **settings), ada))

    assert (query["tenant"], query["prompt"], query["audience"]) == ("a", "consent", "us")
    assert "resource" not in query


def test_new_sign_in_takes_the_place_of_the_old_one(server, ada):
    credential = signed_in(server)
    server.life = None
    sign(server, credential, ada)

    grant = grant_of(credential)
    assert (grant.generation, grant.expires_at, grant.signed_in_by) == (2, None, ada)


def test_neither_state_nor_verifier_can_be_read_from_the_database(credential, ada):
    query = query_of(begin(credential, ada))

    row = SignIn.objects.get()
    verifier = encryption.decrypt(row.verifier, row=row.pk, field=sign_in.VERIFIER_FIELD, name="").reveal()
    assert challenge_of(verifier) == query["code_challenge"]
    stored_text = repr(SignIn.objects.values().get())
    assert query["state"] not in stored_text
    assert verifier not in stored_text
    assert sign_in.VERIFIER_FIELD in {column.name for column in encryption.columns()}


def test_attack_1_missing_and_forged_state(server, credential, ada):
    back = server.visit(begin(credential, ada))

    for state in ([], [""], ["forged"], [back["state"][0] + "x"], back["state"] * 2):
        refused({**back, "state": state}, ada, "sign_in_unknown")
    assert nothing_was_kept(credential)
    assert server.forms == []


def test_attack_2_replayed_state(server, credential, ada):
    back = server.visit(begin(credential, ada))
    complete(back, ada)

    refused(back, ada, "sign_in_unknown")
    assert len(server.forms) == 1


def test_attack_3_state_from_another_session_or_person(server, credential, ada):
    eve = make_user(Role.ADMIN)
    back = server.visit(begin(credential, eve, session="session of Eve"))

    refused(back, ada, "sign_in_unknown")
    refused(back, ada, "sign_in_unknown", session="session of Eve")
    refused(back, eve, "sign_in_unknown", session="another session of Eve")
    assert nothing_was_kept(credential)
    complete(back, eve, session="session of Eve")


def test_attack_4_code_from_another_flow(server, credential, ada):
    """PKCE: the code was given for another challenge than the one that our verifier answers."""
    stolen = server.visit(begin(credential, ada))["code"]
    back = server.visit(begin(credential, ada))

    message = refused({**back, "code": stolen}, ada, "sign_in_failed")
    assert "not completed" in message
    assert nothing_was_kept(credential)


@pytest.mark.parametrize("spelling", ["https://evil.example", "{url}/", "{url}#", " {url}", ""])
def test_attack_5_answer_of_another_server(server, credential, ada, spelling):
    """Mix-up: RFC 9207. No spelling but the exact one will do, and none at all is no answer."""
    back = server.visit(begin(credential, ada))
    issuer = spelling.format(url=server.url)

    refused({**back, "iss": [issuer] if issuer else []}, ada, "sign_in_issuer")
    assert server.forms == []
    assert nothing_was_kept(credential)


def test_attack_5_errors_of_another_server_are_not_believed(server, credential, ada):
    back = server.visit(begin(credential, ada))

    refused({"state": back["state"], "error": ["access_denied"]}, ada, "sign_in_issuer")


def test_server_that_never_promised_to_name_itself_need_not(ada):
    with AuthorizationServer(says_issuer=False) as server:
        sign(server, make_client(server, "oauth_code", issuer=""), ada)


def test_server_that_names_itself_is_entered_first(server, ada):
    credential = make_client(server, "oauth_code", issuer="", states_issuer=False)
    back = server.visit(begin(credential, ada))

    assert server.url in refused(back, ada, "sign_in_issuer")


def test_attack_6_another_redirect_address(server, credential, ada):
    back = server.visit(begin(credential, ada))

    for wrong in (f"{REDIRECT}extra/", REDIRECT.rstrip("/"), REDIRECT.replace("https", "http")):
        with pytest.raises(DomainError) as raised:
            sign_in.complete(back, actor=ada, session_key="the key of a login session", redirect_uri=wrong)
        assert raised.value.code in ("sign_in_address", "sign_in_unknown")
    assert server.forms == []
    assert nothing_was_kept(credential)


def test_attack_7_error_description_with_markup(server, credential, ada):
    back = server.visit(begin(credential, ada))
    words = "<script>alert(1)</script>\u202e\x1b[31m" + "x" * 1000
    answer = {
        "state": back["state"],
        "iss": back["iss"],
        "error": ["access_denied"],
        "error_description": [words],
    }

    message = refused(answer, ada, "sign_in_refused")
    assert "<script>alert(1)</script>\\u202e\\x1b[31mxxx" in message
    assert len(message) < 400
    assert message.isprintable()


ODD = {
    "mac": {"token_type": "mac"},
    "an error beside a token": {"error": "access_denied"},
    "[]": b"[]",
    "no token": {"access_token": None},
    "a web page": b"<html>Welcome</html>",
    "10 MB": b" " * 10_000_000,
}


@pytest.mark.parametrize("name", ODD)
def test_attack_8_odd_token_reply(server, credential, ada, name):
    back = server.visit(begin(credential, ada))
    fine = {"access_token": "a-fine-token", "token_type": "Bearer", "expires_in": 60}
    server.scripts = [scripted(fine | ODD[name] if isinstance(ODD[name], dict) else ODD[name])]

    refused(back, ada, "sign_in_failed")
    assert nothing_was_kept(credential)


def test_attack_8_wider_scope_is_flagged(credential, server, ada):
    server.grants_scope = "read write admin"
    sign(server, credential, ada)

    assert status_of(credential).extra == ["admin"]


def test_code_that_comes_back_in_an_error_is_struck_out(server, credential, ada):
    back = server.visit(begin(credential, ada))
    error_body = {"error": "invalid_grant", "error_description": f"no such code: {back['code'][0]}"}
    server.scripts = [scripted(error_body, 400)]

    assert "no such code: •••" in refused(back, ada, "sign_in_failed")


def test_sign_in_counts_for_ten_minutes(server, credential, ada):
    back = server.visit(begin(credential, ada))
    SignIn.objects.update(created_at=Now() - timedelta(minutes=10, seconds=1))

    refused(back, ada, "sign_in_unknown")
    begin(credential, ada)
    assert SignIn.objects.count() == 1


def test_one_person_has_few_sign_ins_open(credential, ada):
    for _ in range(sign_in.MAX_OPEN + 3):
        begin(credential, ada)

    assert SignIn.objects.count() == sign_in.MAX_OPEN


def test_change_of_the_client_ends_sign_ins_under_way(server, credential, ada):
    back = server.visit(begin(credential, ada))
    credential_operations.update_credential(credential, actor=ada, scope="read")

    refused(back, ada, "sign_in_unknown")


def test_failed_sign_in_leaves_the_old_tokens(server, ada):
    credential = signed_in(server)
    back = server.visit(begin(credential, ada))
    refused({**back, "code": ["forged"]}, ada, "sign_in_failed")

    assert status_of(credential).state == grant_status.SignInState.OK


def test_client_that_asks_for_itself_takes_no_sign_in(server, ada):
    with pytest.raises(DomainError, match="does not support a sign-in"):
        begin(make_client(server), ada)


@pytest.mark.django_db(transaction=True)
def test_answer_that_comes_twice_at_once_counts_once(server, credential, ada):
    from django.db import connection

    back, ended = server.visit(begin(credential, ada)), []

    def work():
        try:
            ended.append(complete(back, ada) and "")
        except DomainError as error:
            ended.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(ended) == ["", *["sign_in_unknown"] * 3]
    assert len(server.forms) == 1
    assert Grant.objects.get().generation == 1


def test_sign_in_begun_over_rest_in_a_browser_ends_in_that_browser(server, credential, ada):
    here, other_browser = Client(), Client()
    for browser in (here, other_browser):
        browser.force_login(ada)
    sign_in = here.post(f"/api/v1/credentials/{credential.pk}/sign-in/").json()
    query = server.visit(sign_in["address"])

    other_browser.get("/credentials/callback/", query)
    assert nothing_was_kept(credential)
    here.get("/credentials/callback/", query)
    assert not nothing_was_kept(credential)
