"""Token endpoints that are slow, and replies that never come: what is rotated there is not lost here."""

from dataclasses import replace

import pytest

from catalog.credentials.oauth import grant_status, token_holder, tokens
from catalog.credentials.oauth.errors import NeedsSignInError
from catalog.models import Grant
from core.oauth import http
from core.outbound.errors import UnavailableError
from people.models import AuditEntry
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import grant_of, make_client, signed_in, status_of, wear_out
from tests.hostile_vendor import then_waits
from tests.pages import signed_in as browser
from tests.pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)
SLOWER = 20  # a second of the tests is as many seconds of the product


@pytest.fixture
def server():
    with AuthorizationServer() as server:
        yield server


@pytest.fixture
def quick(monkeypatch):
    """The product's own limits, so many times shorter."""
    shorter = {name: getattr(http.LIMITS, name) / SLOWER for name in ("request", "session")}
    monkeypatch.setattr(http, "LIMITS", replace(http.LIMITS, **shorter))


@pytest.mark.parametrize("make", [make_client, signed_in])
def test_server_that_takes_ten_seconds_to_its_first_byte_can_be_used(server, quick, make):
    server.latency = 10 / SLOWER
    credential = make(server)
    wear_out(credential)

    assert tokens.token_for(credential)
    assert status_of(credential).state == grant_status.SignInState.OK


def test_refresh_token_whose_reply_was_lost_is_sent_again_at_once(server, monkeypatch):
    monkeypatch.setattr(token_holder, "AGAIN_AFTER", 0.0)
    server.takes_again = True
    credential = signed_in(server)
    wear_out(credential)
    server.loses = 1
    tokens.token_for(credential)

    first, again = server.forms[1:]
    assert first["refresh_token"] == again["refresh_token"]
    assert status_of(credential).state == grant_status.SignInState.OK
    assert status_of(credential).in_doubt_since is None
    [row] = AuditEntry.objects.filter(action="recover")
    assert "the server took the same refresh token again" in row.why
    wear_out(credential)
    tokens.token_for(credential)
    assert server.revoked == 0


def test_server_that_takes_none_twice_ends_the_sign_in_with_the_reason(server, monkeypatch):
    monkeypatch.setattr(token_holder, "AGAIN_AFTER", 0.0)
    credential = signed_in(server)
    wear_out(credential)
    server.loses = 1
    with pytest.raises(NeedsSignInError, match="a renewal was interrupted then"):
        tokens.token_for(credential)
    assert status_of(credential).remedy == grant_status.Remedy.SIGN_IN


def test_client_that_asks_for_itself_loses_nothing_and_waits(server):
    credential = make_client(server)
    server.loses = 1
    with pytest.raises(UnavailableError):
        tokens.token_for(credential)

    assert len(server.forms) == 1
    assert status_of(credential).in_doubt_since is None


def test_reply_that_is_waited_for_in_vain_is_said_and_asked_for_again_soon(server, monkeypatch, admin_api):
    monkeypatch.setattr(token_holder, "QUICKLY", 0.0)
    credential = signed_in(server)
    wear_out(credential)
    monkeypatch.setattr(http, "LIMITS", replace(http.LIMITS, request=0.3))
    server.scripts = [then_waits(b"")]
    with pytest.raises(UnavailableError):
        tokens.token_for(credential)

    grant, status = grant_of(credential), status_of(credential)
    assert (grant.retry_at - grant.now).total_seconds() < 5, "while the server may still take it"
    assert status.in_doubt_since == grant.started_at
    assert "so the server may have replaced the refresh token" in status.message
    assert "a new sign-in is needed" in status.message
    row = admin_api.get(f"/api/v1/credentials/{credential.pk}/").json()["status"]
    assert row["in_doubt_since"]
    assert row["message"] == status.message
    assert "so the server may have replaced the refresh token" in text_of(
        browser().get(f"/credentials/{credential.pk}/")
    )

    Grant.objects.update(retry_at=None)
    tokens.token_for(credential)
    assert status_of(credential).in_doubt_since is None
    assert "No reply had come to a renewal at" in AuditEntry.objects.get(action="recover").why


def test_waiting_for_another_process_is_longer_than_its_request():
    assert http.LIMITS.session >= 30
    assert http.LIMITS.session < token_holder.MAX_WAIT <= token_holder.LEASE.total_seconds()
