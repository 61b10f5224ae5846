"""Servers are notified of tokens that are no longer needed: after the commit, once, with a plain message."""

import pytest
from django.db import transaction

from catalog.credentials import operations as credential_operations
from catalog.models import Credential, Grant
from people.models import AuditEntry, Role
from tests.authorization_server import CLIENT_SECRET, AuthorizationServer
from tests.catalog.credentials.oauth.cases import grant_of, make_client, signed_in
from tests.factories import make_user
from tests.hostile_vendor import json_reply, reply
from tests.pages import signed_in as browser
from tests.pages import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def server():
    with AuthorizationServer() as server:
        yield server


@pytest.fixture
def committed(django_capture_on_commit_callbacks):
    return lambda: django_capture_on_commit_callbacks(execute=True)


def with_door(server, **more) -> Credential:
    return signed_in(server, revocation_url=f"{server.url}/revoke", **more)


def revocation_entry() -> tuple[bool, str]:
    row = AuditEntry.objects.get(action="revoke")
    return row.after["told"], row.why


ENDINGS = {
    "signed out": lambda credential, ada: credential_operations.sign_out(credential, actor=ada),
    "removed": lambda credential, ada: credential_operations.remove_credential(credential, actor=ada),
    "another client": lambda credential, ada: credential_operations.update_credential(
        credential, actor=ada, client_id="another"
    ),
}


@pytest.mark.parametrize("way", ENDINGS)
def test_both_tokens_are_ended_there_after_they_are_gone_here(server, committed, way):
    credential, ada = with_door(server), make_user(Role.ADMIN)
    tokens = [server.families[0].current, next(iter(server.access))]
    with committed():
        ENDINGS[way](credential, ada)
        assert server.revocations == [], "nothing is sent before the commit"
    assert [(form["token"], form["token_type_hint"]) for form in server.revocations] == [
        (tokens[0], "refresh_token"),
        (tokens[1], "access_token"),
    ]
    assert server.families[0].is_revoked
    host = server.url.removeprefix("http://")
    assert revocation_entry() == (True, f"{host} was notified, and revokes the tokens.")
    assert AuditEntry.objects.get(action="revoke").actor == ada


def test_nothing_is_said_when_nothing_was_changed(server, committed):
    credential = with_door(server)
    with committed(), transaction.atomic():
        credential_operations.remove_credential(credential, actor=make_user(Role.ADMIN))
        transaction.set_rollback(True)  # the rest of it went wrong
    with committed():
        credential_operations.update_credential(
            credential, actor=make_user(Role.ADMIN), name="Another name", scope="read"
        )
    assert server.revocations == []
    assert grant_of(credential).access_token


FAILURES = {
    "404": json_reply({}, status=404),
    "a refusal": json_reply({"error": "unsupported_token_type"}, status=400),
    "an error": json_reply({}, status=503),
    "a redirect": reply(b"", status=302, headers={"Location": "http://169.254.169.254/"}),
    "an echo": json_reply({"error": CLIENT_SECRET}, status=401),
}


@pytest.mark.parametrize("name", FAILURES)
def test_server_that_does_not_listen_is_in_nobodys_way(server, committed, name):
    credential = with_door(server)
    server.revoke_script = FAILURES[name]
    with committed():
        revoked = credential_operations.remove_credential(credential, actor=make_user(Role.ADMIN))
    assert not Grant.objects.exists()
    assert len(server.revocations) == 1, "the second token would fare no better"
    was_told, reason = revocation_entry()
    assert (was_told, reason) == (False, revoked.message)
    assert "was not notified: " in reason
    assert reason.endswith("The tokens may work there until they expire.")
    assert CLIENT_SECRET not in reason


def test_server_that_is_away_or_names_no_door_is_said_so(server, committed):
    nowhere = signed_in(server, name="without a door")
    with committed():
        assert credential_operations.sign_out(nowhere, actor=make_user(Role.ADMIN))
    assert "it states no address for that" in revocation_entry()[1]
    credential = with_door(server, name="with one")
    Grant.objects.filter(credential=credential).update(access_token="v1:x:damaged")
    with committed():
        revoked = credential_operations.remove_credential(credential, actor=make_user(Role.ADMIN))
    assert "was not notified: The secret of “with one”" in revoked.message
    assert not Grant.objects.filter(credential=credential).exists()


def test_credential_without_tokens_has_nothing_to_end(server, committed):
    credential = make_client(server, revocation_url=f"{server.url}/revoke")
    with committed():
        assert credential_operations.remove_credential(credential, actor=make_user(Role.ADMIN)).message == ""
    assert server.revocations == []
    assert not AuditEntry.objects.filter(action="revoke").exists()


@pytest.mark.parametrize("elsewhere", ["https://evil.example/revoke", "http://127.0.0.1:1/revoke", "nowhere"])
def test_secret_goes_to_no_other_origin_than_the_token_address(server, elsewhere):
    with pytest.raises(credential_operations.DomainError) as raised:
        make_client(server, revocation_url=elsewhere)
    assert "revocation_url" in raised.value.fields
    credential = with_door(server)
    credential_operations.update_credential(
        credential, actor=make_user(Role.ADMIN), token_url="https://other.example/token"
    )
    assert grant_of(credential).revocation_url == ""


@pytest.mark.django_db(transaction=True)
def test_page_says_whether_the_vendor_was_told(server):
    admin, credential = browser(Role.ADMIN), with_door(server)
    page = text_of(admin.get(f"/credentials/{credential.pk}/"))
    assert f"asks {server.url.removeprefix('http://')} to revoke them" in page
    answer = admin.post(f"/credentials/{credential.pk}/remove/", follow=True)
    assert "was removed, and its secret was deleted." in text_of(answer)
    assert "was notified, and revokes the tokens." in text_of(answer)
