"""Tokens of client credentials and of sign-ins: the request, the accepted replies and the renewal."""

import base64
import json
import random
from datetime import timedelta
from urllib.parse import unquote_plus

import pytest
from django.db.models.functions import Now

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.credentials.oauth import grant_status, renewal, token_holder, token_request, tokens
from catalog.credentials.oauth.errors import BusyError, NeedsSignInError
from catalog.credentials.oauth.renewal import CredentialTokens
from catalog.models import Grant
from core.errors import DomainError
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, UnavailableError
from people.models import AuditEntry, Role
from tests.authorization_server import CLIENT_ID, CLIENT_SECRET, AuthorizationServer, scripted
from tests.catalog.credentials.oauth.cases import grant_of, make_client, sign, signed_in, status_of, wear_out
from tests.factories import make_endpoint, make_user
from tests.hostile_vendor import json_reply, reply, then_waits

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("method", ["basic", "post"])
def test_client_proves_who_it_is(method):
    with AuthorizationServer(method=method) as server:
        token = tokens.token_for(make_client(server, resource="https://api.example/x", audience="us"))

    assert server.is_good(token.secret.reveal())
    request, form = server.requests[0], server.forms[0]
    assert form["grant_type"] == "client_credentials"
    assert (form["scope"], form["resource"], form["audience"]) == (
        "read write",
        "https://api.example/x",
        "us",
    )
    if method == "basic":
        client_pair = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        assert [unquote_plus(part) for part in client_pair.split(":")] == [CLIENT_ID, CLIENT_SECRET]
        assert client_pair.startswith("pegboard%3A1:"), (
            "RFC 6749 section 2.3.1: encoded before they are joined"
        )
    else:
        assert (form["client_id"], form["client_secret"]) == (CLIENT_ID, CLIENT_SECRET)


def test_public_client_says_its_name_only():
    with AuthorizationServer(method="none", client_secret=None) as server:
        credential = signed_in(server)
        wear_out(credential)
        tokens.token_for(credential)

    assert [form["client_id"] for form in server.forms] == [CLIENT_ID] * 2
    assert credential.sealed == ""


def test_token_is_kept_and_used_again():
    with AuthorizationServer() as server:
        credential = make_client(server)
        first, second = tokens.token_for(credential), tokens.token_for(credential)

    assert first.secret.reveal() == second.secret.reveal()
    assert len(server.forms) == 1
    grant = grant_of(credential)
    assert "access-token" not in json.dumps(list(Grant.objects.values()), default=str)
    assert timedelta(minutes=46) < grant.renew_at - grant.now < timedelta(minutes=48)
    assert grant.expires_at - grant.now == pytest.approx(timedelta(hours=1), abs=timedelta(seconds=20))


def test_extra_parameters_go_along():
    with AuthorizationServer() as server:
        tokens.token_for(make_client(server, parameters={"tenant": "a b&c"}))

    assert server.forms[0]["tenant"] == "a b&c"


ODD = {
    "[]": (b"[]", "TOKEN_SHAPE"),
    "a text": (b'"token"', "TOKEN_SHAPE"),
    "a web page": (b"<html>Sign in</html>", "TOKEN_NOT_JSON"),
    "nothing": (b"", "TOKEN_EMPTY_REPLY"),
    "no token": ({"token_type": "Bearer"}, "TOKEN_MISSING"),
    "a number for a token": ({"access_token": 7}, "TOKEN_TEXT"),
    "a token with a line break": ({"access_token": "a\r\nX-Evil: 1"}, "TOKEN_TEXT"),
    "an endless token": ({"access_token": "a" * 20_000}, "TOKEN_TEXT"),
    "mac": ({"token_type": "mac"}, "TOKEN_TYPE"),
    "no type": ({"token_type": None}, "TOKEN_TYPE"),
    "two tokens": (b'{"access_token":"a","access_token":"b","token_type":"Bearer"}', "TOKEN_JSON_DUPLICATE"),
    "an empty token": ({"access_token": ""}, "TOKEN_TEXT"),
    "a token with NUL": (b'{"access_token":"a\\u0000b","token_type":"Bearer"}', "TOKEN_TEXT"),
    "10 MB": (b'{"access_token":"' + b"a" * 10_000_000 + b'"}', "TOKEN_BODY_TOO_LARGE"),
    "an error that is a list": ({"error": ["x"]}, "TOKEN_SHAPE"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_reply_is_refused_with_a_code_and_a_sentence(name):
    answer, code = ODD[name]
    if isinstance(answer, dict):
        answer = {"access_token": "a-fine-token", "token_type": "Bearer", "expires_in": 60} | answer
        if name == "no token":
            del answer["access_token"]
    with AuthorizationServer(scripts=[scripted(answer)]) as server:
        credential = make_client(server)
        with pytest.raises(ProtocolViolationError) as raised:
            tokens.token_for(credential)

    assert raised.value.code == code
    grant = grant_of(credential)
    assert (grant.access_token, grant.generation, grant.error_code) == ("", 0, code)
    assert grant.error_message.endswith((".", "?"))
    assert status_of(credential).state == grant_status.SignInState.EXPIRING


@pytest.mark.parametrize("seconds", [3600, "3600", 3600.0, 10**17, 10**400])
def test_life_is_a_number_of_seconds(seconds):
    answer = {"access_token": "a-fine-token", "token_type": "bEARER", "expires_in": seconds}
    with AuthorizationServer(scripts=[scripted(answer)]) as server:
        credential = make_client(server)
        tokens.token_for(credential)

    assert grant_of(credential).expires_at > grant_of(credential).now + timedelta(minutes=59)


FINE = {"access_token": "a-fine-token", "token_type": "Bearer", "expires_in": 3600}
FORM = {"Content-Type": "Application/x-www-form-urlencoded; charset=UTF-8"}
UNKNOWN_LIVES = {
    **{f"{life!r:.20}": FINE | {"expires_in": life} for life in (0, -5, "", "soon", "+60", True, [], "-1")},
    "1e400": b'{"access_token":"a-fine-token","token_type":"Bearer","expires_in":1e400}',
    "-1e400": b'{"access_token":"a-fine-token","token_type":"Bearer","expires_in":-1' + b"0" * 400 + b"}",
    "0.9": FINE | {"expires_in": 0.9},
    "NaN": b'{"access_token":"a-fine-token","token_type":"Bearer","expires_in":NaN}',
    "5,000 digits": b'{"access_token":"a-fine-token","token_type":"Bearer","expires_in":'
    + b"9" * 5000
    + b"}",
    "twice": b'{"access_token":"a-fine-token","token_type":"Bearer","expires_in":1,"expires_in":2}',
}


@pytest.mark.parametrize("name", UNKNOWN_LIVES)
def test_a_life_that_cannot_be_read_is_unknown_and_noted(name):
    with AuthorizationServer(scripts=[scripted(UNKNOWN_LIVES[name])]) as server:
        credential = make_client(server)
        assert tokens.token_for(credential).secret.reveal() == "a-fine-token"

    grant = grant_of(credential)
    assert (grant.expires_at, grant.renew_at, grant.error_code) == (None, None, "")
    assert "expires_in" in grant.token_note
    assert status_of(credential).message.endswith(grant.token_note)


@pytest.mark.parametrize("life", [3599.99, "3600.0", " 3600 ", "3600.", 3600.5, "9" * 3000])
def test_a_life_that_is_written_oddly_is_read_and_noted(life):
    with AuthorizationServer(scripts=[scripted(FINE | {"expires_in": life})]) as server:
        credential = make_client(server)
        tokens.token_for(credential)

    grant = grant_of(credential)
    assert grant.expires_at - grant.now > timedelta(minutes=59)
    assert grant.token_note if len(str(life)) < 100 else not grant.token_note


ODD_FRAMES = {
    "201": json_reply(FINE, status=201),
    "299": json_reply(FINE, status=299),
    "a form": reply(b"access_token=a-fine-token&token_type=bearer&scope=a%2Cb", headers=FORM),
    "a form with 201": reply(b"token_type=BEARER&access_token=a-fine-token\n", status=201, headers=FORM),
    "a form that is JSON": reply(json.dumps(FINE).encode(), headers=FORM),
    "a form that is called a text": reply(
        b"access_token=a-fine-token&token_type=bearer", headers={"Content-Type": "text/plain"}
    ),
    "a member with a raw control character": reply(
        b'{"access_token":"a-fine-token","token_type":"Bearer","of":"a\nb"}'
    ),
    "JSON that is called HTML": reply(json.dumps(FINE).encode(), headers={"Content-Type": "text/html"}),
    "a list of scopes": json_reply(FINE | {"scope": ["read", "write"]}),
    "a scope that is none": json_reply(FINE | {"scope": 7}),
    "a form with a loose end": reply(b"&access_token=a-fine-token&token_type=bearer&now&", headers=FORM),
    "a form that repeats a scope": reply(
        b"access_token=a-fine-token&token_type=bearer&scope=a&scope=b", headers=FORM
    ),
    "a form with a byte of no text": reply(
        b"access_token=a-fine-token&token_type=bearer&expires_in=%ff", headers=FORM
    ),
    "a member that is too deep": reply(
        b'{"access_token":"a-fine-token","token_type":" bearer ","of":' + b"[" * 900 + b"]" * 900 + b"}"
    ),
    "a refresh token that is none": json_reply(FINE | {"refresh_token": {"a": 1}}),
}


@pytest.mark.parametrize("name", ODD_FRAMES)
def test_a_readable_token_is_accepted_whatever_its_frame(name):
    with AuthorizationServer(scripts=[ODD_FRAMES[name]]) as server:
        credential = make_client(server)
        assert tokens.token_for(credential).secret.reveal() == "a-fine-token"

    assert grant_of(credential).token_note
    assert "a-fine-token" not in grant_of(credential).token_note


def test_a_good_reply_ends_the_note():
    with AuthorizationServer(scripts=[json_reply(FINE, status=201)]) as server:
        credential = make_client(server)
        tokens.token_for(credential)
        wear_out(credential)
        tokens.token_for(credential)

    assert grant_of(credential).token_note == ""


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (reply(b"error=invalid_grant&error_description=No+more", headers=FORM), "TOKEN_INVALID_GRANT"),
        (reply(b"error=invalid_scope", status=400, headers=FORM), "TOKEN_INVALID_SCOPE"),
        (reply(b"token_type=bearer", headers=FORM), "TOKEN_MISSING"),
        (reply(b"access_token=&token_type=bearer", headers=FORM), "TOKEN_TEXT"),
        (reply(b"access_token=a&access_token=b&token_type=bearer", headers=FORM), "TOKEN_SHAPE"),
        (reply(b"<html>", headers=FORM), "TOKEN_SHAPE"),
        (json_reply(FINE | {"token_type": "mac"}, status=201), "TOKEN_TYPE"),
        (json_reply(FINE | {"error": "access_denied"}, status=201), "TOKEN_ACCESS_DENIED"),
        (reply(b"", status=204), "TOKEN_EMPTY_REPLY"),
    ],
)
def test_what_holds_no_usable_token_is_refused_in_every_frame(script, code):
    with AuthorizationServer(scripts=[script]) as server:
        credential = make_client(server)
        with pytest.raises(ProtocolError) as raised:
            tokens.token_for(credential)

    assert raised.value.code == code
    assert grant_of(credential).access_token == ""


def test_an_odd_reply_to_a_code_or_a_refresh_token_is_accepted():
    odd = [
        json_reply(FINE | {"refresh_token": f"refresh-{n}", "expires_in": "soon"}, status=201) for n in (1, 2)
    ]
    with AuthorizationServer(scripts=odd) as server:
        credential = signed_in(server)
        assert grant_of(credential).token_note
        wear_out(credential)
        assert tokens.token_for(credential).secret.reveal() == "a-fine-token"

    assert grant_of(credential).generation == 2


def test_errors_of_oauth_are_said_in_our_words_and_theirs():
    answer = {"error": "invalid_client", "error_description": f"<b>who is {CLIENT_SECRET}?</b>\u202e"}
    with AuthorizationServer(scripts=[scripted(answer, 401)]) as server:
        credential = make_client(server)
        with pytest.raises(RefusedError) as raised:
            tokens.token_for(credential)

    assert raised.value.code == "TOKEN_INVALID_CLIENT"
    assert "does not accept this client id and secret" in raised.value.message
    assert "“<b>who is •••?</b>\\u202e”" in raised.value.message
    status = status_of(credential)
    assert (status.state, status.remedy) == (grant_status.SignInState.REFUSED, grant_status.Remedy.EDIT)


@pytest.mark.parametrize("odd", [rb"\u0000", rb"\ud83d"])
@pytest.mark.parametrize("status", [200, 400])
def test_error_with_a_character_that_cannot_be_stored_is_read(odd, status):
    body = b'{"error": "invalid_client", "error_description": "Who%s?"}' % odd
    with (
        AuthorizationServer(scripts=[reply(body, status=status)]) as server,
        pytest.raises(RefusedError) as raised,
    ):
        tokens.token_for(make_client(server))
    assert raised.value.code == "TOKEN_INVALID_CLIENT"
    assert "Who" in raised.value.message


@pytest.mark.parametrize("spelling", [lambda s: s, lambda s: base64.b64encode(s.encode()).decode()])
def test_secret_that_comes_back_in_an_error_is_struck_out(spelling):
    answer = {"error": "odd", "error_description": "x" * 190 + spelling(CLIENT_SECRET)}
    with AuthorizationServer(scripts=[scripted(answer, 400)]) as server:
        credential = make_client(server)
        with pytest.raises(RefusedError) as raised:
            tokens.token_for(credential)

    assert spelling(CLIENT_SECRET)[:6] not in raised.value.message + grant_of(credential).error_message


def test_server_that_is_away_is_left_alone_for_a_while_and_that_is_shown():
    away = reply(b"", status=503, headers={"Retry-After": "90"})
    with AuthorizationServer(scripts=[away]) as server:
        credential = make_client(server)
        for _ in range(3):
            with pytest.raises(UnavailableError) as raised:
                tokens.token_for(credential)

        assert len(server.forms) == 1
        grant = grant_of(credential)
        assert timedelta(seconds=85) < grant.retry_at - grant.now <= timedelta(seconds=90)
        assert raised.value.retry_after == pytest.approx(90, abs=5)
        assert "503" in status_of(credential).message
        Grant.objects.update(retry_at=Now() - timedelta(seconds=1))
        tokens.token_for(credential)

    assert status_of(credential).state == grant_status.SignInState.OK
    assert grant_of(credential).failures == 0


def test_pauses_grow_to_an_hour():
    pauses = [token_holder.back_off(failures, None, chance=lambda: 0.5) for failures in range(1, 12)]

    assert pauses[:3] == [30, 60, 120]
    assert pauses[-1] == 3600
    assert token_holder.back_off(1, 10**9) == 86_400


@pytest.mark.parametrize(("life", "before"), [(3600, 720), (600, 120), (200, 60), (60, 30), (2, 1)])
def test_renewal_is_early(life, before):
    assert token_holder.early(life, chance=lambda: 0) == before
    assert before <= token_holder.early(life, random.random) <= min(before * 1.1, life / 2)


def test_token_that_still_works_is_used_while_the_server_is_away():
    with AuthorizationServer() as server:
        credential = make_client(server)
        first = tokens.token_for(credential)
        wear_out(credential, seconds=60)
        server.scripts = [reply(b"", status=500)]
        second, third = tokens.token_for(credential), tokens.token_for(credential)

    assert first.generation == second.generation == third.generation
    assert len(server.forms) == 2
    status = status_of(credential)
    assert status.state == grant_status.SignInState.EXPIRING
    assert "The token is valid until" in status.message


def test_unknown_life_is_used_until_refused():
    with AuthorizationServer(life=None) as server:
        credential = make_client(server)
        first = tokens.token_for(credential)
        assert first.good_for is None
        assert tokens.token_for(credential).generation == first.generation
        other = tokens.token_for(credential, refused_generation=first.generation)
        assert (
            tokens.token_for(credential, refused_generation=first.generation).generation == other.generation
        )

    assert len(server.forms) == 2


def test_granted_scope_is_held_against_what_was_asked():
    with AuthorizationServer(grants_scope="read,admin") as server:
        credential = make_client(server)
        tokens.token_for(credential)

    status = status_of(credential)
    assert (status.granted, status.missing, status.extra) == (["read", "admin"], ["write"], ["admin"])


def test_refresh_brings_a_new_pair_and_the_old_one_is_gone():
    with AuthorizationServer() as server:
        credential = signed_in(server)
        before = grant_of(credential)
        wear_out(credential)
        tokens.token_for(credential)
        wear_out(credential)
        token = tokens.token_for(credential)

    refresh_tokens = [form.get("refresh_token") for form in server.forms]
    assert len(set(refresh_tokens)) == 3, "each refresh token is sent once"
    assert server.is_good(token.secret.reveal())
    assert server.revoked == 0
    assert grant_of(credential).generation == before.generation + 2
    assert "scope" not in server.forms[1]
    assert server.forms[1]["resource"] == f"{server.url}/"


def test_reply_without_a_new_refresh_token_keeps_the_old_one():
    with AuthorizationServer(rotates=False) as server:
        credential = signed_in(server)
        for _ in range(2):
            wear_out(credential)
            tokens.token_for(credential)

    assert server.forms[1]["refresh_token"] == server.forms[2]["refresh_token"]


def test_only_invalid_grant_ends_a_sign_in_and_it_is_tried_once():
    with AuthorizationServer() as server:
        credential = signed_in(server)
        server.families[0].is_revoked = True
        wear_out(credential)
        for _ in range(3):
            with pytest.raises(NeedsSignInError, match=r"It needs a sign-in since \d\d:\d\d:\d\d UTC"):
                tokens.token_for(credential)
        assert renewal.due() == []
        form_count = len(server.forms)
        sign(server, credential, make_user(Role.ADMIN))
        tokens.token_for(credential)

    assert form_count == 2
    assert status_of(credential).state == grant_status.SignInState.OK


@pytest.mark.parametrize(
    "answer",
    [
        scripted({"error": "invalid_client"}, 401),
        scripted({"error": "temporarily_unavailable"}, 400),
        scripted({"error": "invalid_scope"}, 400),
        scripted(b"<html>", 200),
        reply(b"", status=500),
        reply(b"gone", status=404),
        reply(b"", status=302, headers={"Location": "http://127.0.0.66/token"}),
        lambda line, request: None,
    ],
)
def test_any_other_failure_leaves_the_sign_in_alone(answer, monkeypatch):
    monkeypatch.setattr(token_holder, "AGAIN_AFTER", 0.0)
    with AuthorizationServer() as server:
        credential = signed_in(server)
        wear_out(credential)
        server.scripts = [answer, answer]
        with pytest.raises(ProtocolError):
            tokens.token_for(credential)
        server.scripts = []
        assert status_of(credential).state in (
            grant_status.SignInState.EXPIRING,
            grant_status.SignInState.REFUSED,
        )
        Grant.objects.update(retry_at=None)
        tokens.token_for(credential)

    assert status_of(credential).state == grant_status.SignInState.OK


def test_without_a_refresh_token_a_person_is_asked_in_time():
    with AuthorizationServer() as server:
        credential = signed_in(server)
        Grant.objects.update(refresh_token="", renew_at=None)
        assert status_of(credential).state == grant_status.SignInState.EXPIRING
        Grant.objects.update(expires_at=Now() - timedelta(seconds=1))
        assert status_of(credential).state == grant_status.SignInState.NEEDS_SIGN_IN
        with pytest.raises(NeedsSignInError, match="It needs a sign-in since"):
            tokens.token_for(credential)

    assert len(server.forms) == 1


def test_whoever_waits_too_long_for_another_is_told(monkeypatch):
    monkeypatch.setattr(token_holder, "MAX_WAIT", 0.3)
    with AuthorizationServer() as server:
        credential = make_client(server)
        Grant.objects.update(lease_until=Now() + timedelta(seconds=30))
        with pytest.raises(BusyError, match="just being renewed"):
            tokens.token_for(credential)

    assert server.forms == []


def test_reply_that_does_not_come_ends_before_the_lease(monkeypatch):
    from dataclasses import replace

    from core.oauth import http

    assert timedelta(seconds=http.LIMITS.session) < token_holder.LEASE
    monkeypatch.setattr(http, "LIMITS", replace(http.LIMITS, request=0.2))
    with AuthorizationServer(scripts=[then_waits(b"")]) as server:
        credential = make_client(server)
        with pytest.raises(UnavailableError):
            tokens.token_for(credential)

    grant = grant_of(credential)
    assert grant.lease_until is None
    assert grant.started_at is not None, "it is not known what became of the request"


def test_due_tokens_are_renewed_before_anybody_asks():
    with AuthorizationServer() as server:
        used, idle, fresh = (make_client(server, name=name) for name in ("used", "idle", "fresh"))
        for credential in (used, idle, fresh):
            tokens.token_for(credential)
        for credential in (used, idle):
            wear_out(credential, seconds=60)
        Grant.objects.filter(credential=idle).update(used_at=Now() - timedelta(days=2))
        assert renewal.due() == [used.pk]
        renewal.renew_early(used.pk)
        renewal.renew_early(used.pk)
        assert renewal.due() == []

    assert len(server.forms) == 4


def test_token_server_elsewhere_gets_neither_secret_nor_token():
    with AuthorizationServer() as server, AuthorizationServer() as other:
        credential, admin = signed_in(server), make_user(Role.ADMIN)
        credential_operations.update_credential(credential, actor=admin, token_url=f"{other.url}/token")
        with pytest.raises(NeedsSignInError):
            tokens.token_for(credential)

        assert other.requests == []
        status = status_of(credential)
        assert (status.state, status.remedy) == (
            grant_status.SignInState.REFUSED,
            grant_status.Remedy.ENTER_SECRET,
        )
        grant = grant_of(credential)
        assert (grant.access_token, grant.refresh_token, grant.credential.sealed) == ("", "", "")
        credential_operations.replace_secret(credential, actor=admin, secret="another secret")
        assert status_of(credential).state == grant_status.SignInState.NEEDS_SIGN_IN


def test_another_scope_brings_another_token():
    with AuthorizationServer() as server:
        credential = make_client(server)
        tokens.token_for(credential)
        credential_operations.update_credential(
            credential, actor=make_user(Role.ADMIN), scope="  read   only "
        )
        tokens.token_for(credential)

    assert [form["scope"] for form in server.forms] == ["read write", "read only"]


def test_removed_credential_leaves_no_token():
    with AuthorizationServer() as server:
        credential = signed_in(server)
        credential_operations.remove_credential(credential, actor=make_user(Role.ADMIN))
        with pytest.raises(DomainError, match="removed"):
            tokens.token_for(credential)

    assert not Grant.objects.exists()


def test_trail_names_no_secret():
    with AuthorizationServer() as server:
        credential = signed_in(server)
        credential_operations.update_credential(credential, actor=make_user(Role.ADMIN), scope="read")
        credential_operations.sign_out(credential, actor=make_user(Role.ADMIN))
        credential_operations.remove_credential(credential, actor=make_user(Role.ADMIN))

    entries = AuditEntry.objects.filter(kind="credential").order_by("pk")
    assert [entry.action for entry in entries] == ["enter", "sign in", "edit", "sign out", "remove"]
    trail_text = json.dumps(list(entries.values("before", "after")))
    assert "read write" in trail_text
    assert not any(word in trail_text for word in (CLIENT_SECRET, "access-token", "refresh-token", "code-1"))


def test_draft_is_tried_with_a_token_that_is_kept_nowhere():
    with AuthorizationServer() as server:
        draft = credential_operations.draft_credential(
            name="Draft", kind="oauth_client", url=server.url, secret=CLIENT_SECRET, **server.settings()
        )
        endpoint = make_endpoint(url=server.url)
        endpoint.credential = draft
        with sessions.open_session(endpoint) as session:
            assert session.get("/tools").status == 200

    assert not Grant.objects.exists()


WRONG = {
    "token_url": [
        "",
        "ftp://x.example/",
        "http://user@x.example/",
        "https://x.example/#a",
        "https://x.example/?client_id=1",
    ],
    "authorization_url": ["", "https://x.example/?state=1"],
    "issuer": ["no address"],
    "client_id": ["", "naïve", "a\nb"],
    "client_authentication": ["mtls"],
    "scope": ['a "b"', "x" * 3000],
    "resource": ["no address", "https://x.example/#part"],
    "parameters": [
        {"state": "1"},
        {"Client_Secret": "1"},
        {"a b": "1"},
        {"a": 1},
        {"a": "\n"},
        [],
        {str(n): "" for n in range(21)},
    ],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_wrong_setting_is_marked(field, value):
    with AuthorizationServer() as server, pytest.raises(DomainError) as refused:
        make_client(server, "oauth_code", **{field: value})

    assert list(refused.value.fields) == [field]


def test_client_without_a_secret_cannot_ask_for_itself():
    with AuthorizationServer() as server, pytest.raises(DomainError) as refused:
        make_client(server, client_authentication="none", secret="")

    assert "client_authentication" in refused.value.fields


def test_new_secret_mends_a_refused_client():
    with AuthorizationServer() as server:
        credential = make_client(server, secret="a wrong one")
        for _ in range(2):
            with pytest.raises(ProtocolError):
                tokens.token_for(credential)
        assert len(server.forms) == 1
        credential_operations.replace_secret(credential, actor=make_user(Role.ADMIN), secret=CLIENT_SECRET)
        tokens.token_for(credential)

    assert status_of(credential).state == grant_status.SignInState.OK


def test_client_may_become_a_public_one_and_back():
    with AuthorizationServer() as server:
        credential, admin = signed_in(server), make_user(Role.ADMIN)
        credential_operations.update_credential(credential, actor=admin, client_authentication="none")
        assert grant_of(credential).credential.sealed == ""
        changed = {"client_authentication": "post", "secret": CLIENT_SECRET}
        credential_operations.update_credential(credential, actor=admin, **changed)

    assert grant_of(credential).credential.sealed
    assert status_of(credential).state == grant_status.SignInState.OK


def test_what_happens_by_itself_is_in_the_trail():
    with AuthorizationServer() as server:
        credential, client = signed_in(server), make_client(server, secret="a wrong one")
        server.families[0].is_revoked = True
        wear_out(credential)
        for one in (credential, client):
            with pytest.raises(ProtocolError):
                tokens.token_for(one)
        tokens.note_refusal(client, 0)

    entries = AuditEntry.objects.filter(actor=None).order_by("pk")
    assert [(entry.action, entry.after["code"]) for entry in entries] == [
        ("end sign-in", "TOKEN_INVALID_GRANT"),
        ("refuse", "TOKEN_INVALID_CLIENT"),
    ]


def test_refused_client_is_said_as_such_while_it_is_left_alone():
    with AuthorizationServer() as server:
        credential = make_client(server, secret="a wrong one")
        for _ in range(2):
            with pytest.raises(RefusedError, match="client id and secret"):
                tokens.token_for(credential)


def test_without_a_refresh_token_a_refusal_by_the_vendor_ends_the_sign_in():
    with AuthorizationServer(life=None) as server:
        credential = signed_in(server)
        Grant.objects.update(refresh_token="")
        assert tokens.token_for(credential).good_for is None
        with pytest.raises(NeedsSignInError, match="is not taken by the vendor any more"):
            tokens.token_for(credential, refused_generation=1)

    assert status_of(credential).state == grant_status.SignInState.NEEDS_SIGN_IN


def test_request_for_a_token_does_not_show_itself():
    from catalog.credentials.oauth import grant_requests
    from core.encryption import Secret

    with AuthorizationServer() as server:
        grant = grant_of(make_client(server))
    form = grant_requests.token_form(
        grant, Secret(CLIENT_SECRET), grant_requests.refresh_fields(grant, Secret("r-token"))
    )

    assert repr(form) == "Form()"


def test_token_that_ended_unused_is_no_worry():
    with AuthorizationServer() as server:
        credential = signed_in(server)
        wear_out(credential)
        status = status_of(credential)

    assert (status.state, status.message) == (
        grant_status.SignInState.OK,
        "The last token has expired. Pegboard requests the next one when it is needed.",
    )


@pytest.mark.parametrize(("seconds_left", "expected_forms"), [(50, 1), (20, 2)])
def test_scheduler_has_the_first_chance_to_renew(seconds_left, expected_forms):
    """A token is renewed a minute before its end; the scheduler has half a minute of that for itself."""
    with AuthorizationServer() as server:
        credential = make_client(server)
        tokens.token_for(credential)
        ends = Now() + timedelta(seconds=seconds_left)
        Grant.objects.update(expires_at=ends, renew_at=ends - timedelta(seconds=60))
        assert renewal.due() == [credential.pk]
        tokens.token_for(credential)

    assert len(server.forms) == expected_forms


def test_renewal_leaves_alone_what_was_encrypted_under_a_new_key_meanwhile():
    """Rotation writes during a request to the server; the renewal must not undo that write."""
    from core import encryption
    from core.encryption import Secret

    with AuthorizationServer(rotates=False) as server:
        credential = signed_in(server)
        wear_out(credential)
        grant = tokens.read_grant(credential.pk)
        token = Secret(server.families[0].current)
        anew = encryption.encrypt(token, row=grant.pk, field=token_request.field_of("refresh_token"))
        Grant.objects.update(refresh_token=anew)
        assert CredentialTokens(grant).renew()

    assert grant_of(credential).refresh_token == anew
