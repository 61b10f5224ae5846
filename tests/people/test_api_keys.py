import io
import re
from datetime import timedelta
from itertools import permutations

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from core.errors import DomainError
from people import api_keys, users
from people.models import ApiKey, AuditEntry, KeyScope, Role
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def test_token_has_the_published_shape_and_its_own_checksum():
    token = api_keys.generate()
    assert re.fullmatch(r"pgb_[0-9A-Za-z]{22}_[0-9A-Za-z]{38}", token)
    assert ApiKey.is_well_formed(token)
    assert not ApiKey.is_well_formed(token[:-1] + ("a" if token[-1] != "a" else "b"))


def test_only_the_digest_of_a_token_is_kept():
    key, plain = api_keys.issue(make_user(), actor=None, name="ci", scopes=["read"])
    row = ApiKey.objects.filter(pk=key.pk).values().get()
    assert row["digest"] == ApiKey.digest_of(plain)
    assert not [value for value in row.values() if plain[20:] in str(value)]


def test_token_signs_in_with_one_query(program, django_assert_num_queries):
    client = program(make_user(Role.VIEWER), "read")
    client.get("/api/v1/keys/")
    with django_assert_num_queries(3):  # the keys, and the agents that are named for them
        assert client.get("/api/v1/keys/").status_code == 200


def test_use_is_noted_at_most_once_an_hour(program):
    client = program(make_user(), "read")
    start = timezone.now()
    use_times = []
    for minutes in (0, 30, 61):
        with time_machine.travel(start + timedelta(minutes=minutes), tick=False):
            client.get("/api/v1/keys/")
        use_times.append(ApiKey.objects.get().last_used_at - start)
    assert use_times == [timedelta(0), timedelta(0), timedelta(minutes=61)]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("Bearer pgb_short", "malformed_key"),
        ("Bearer " + "x" * 5000, "malformed_key"),
        ("Bearer", "malformed_key"),
        pytest.param(f"Bearer {api_keys.generate()}", "unknown_key", id="never issued"),
        ("Basic YWRtaW46YWRtaW4=", "not_authenticated"),
        ("", "not_authenticated"),
    ],
)
def test_odd_header_is_refused_with_a_code(header, code):
    answer = APIClient().get("/api/v1/keys/", headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_revoked_key_is_refused_at_once(program):
    user = make_user()
    client = program(user)
    api_keys.revoke(ApiKey.objects.get(), actor=user)
    assert client.get("/api/v1/keys/").json()["code"] == "revoked_key"


def test_expired_key_is_refused(program):
    client = program(make_user(), expires_at=timezone.now() + timedelta(days=1))
    with time_machine.travel(timezone.now() + timedelta(days=2)):
        assert client.get("/api/v1/keys/").json()["code"] == "expired_key"


def test_key_of_a_deactivated_user_is_refused(program):
    user = make_user()
    client = program(user)
    user.is_active = False
    user.save()
    assert client.get("/api/v1/keys/").json()["code"] == "inactive_owner"


# A call, and the roles that may send it; a sufficient role gets this status for its empty body.
CALLS = {
    "/api/v1/keys/": set(Role),
    "/api/v1/agents/": {Role.DESIGNER, Role.ADMIN},
    "/api/v1/users/": {Role.ADMIN},
}


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize(("before", "after"), list(permutations(Role, 2)))
def test_key_may_at_its_next_call_what_its_owners_new_role_may(program, before, after, path):
    admin, user = make_user(Role.ADMIN), make_user(before)
    client = program(user, "admin")
    answers = [client.post(path, {}).json()["code"]]
    users.update_user(user, actor=admin, role=after)
    answers.append(client.post(path, {}).json()["code"])
    assert answers == ["invalid" if role in CALLS[path] else "role_required" for role in (before, after)]


@pytest.mark.parametrize(
    ("scope", "reads", "makes_agents", "makes_keys"),
    [
        (KeyScope.READ, 200, 403, 403),
        (KeyScope.DESIGN, 200, 400, 403),
        (KeyScope.ADMIN, 200, 400, 400),
        (KeyScope.RUNTIME, 403, 403, 403),
    ],
)
def test_scope_narrows_what_an_administrators_token_may(program, scope, reads, makes_agents, makes_keys):
    client = program(make_user(Role.ADMIN), scope)
    assert client.get("/api/v1/users/").status_code == reads
    assert client.post("/api/v1/agents/", {}).status_code == makes_agents
    assert client.post("/api/v1/keys/", {}).status_code == makes_keys


def test_runtime_token_reaches_releases_and_nothing_else(program):
    client = program(make_user(Role.VIEWER), "runtime")
    assert client.get("/api/v1/agents/nobody/releases/").status_code == 404
    assert client.get("/api/v1/agents/").json()["code"] == "scope_required"


def test_several_scopes_add_up(program):
    client = program(make_user(Role.DESIGNER), "runtime", "design")
    assert client.get("/api/v1/users/").status_code == 200
    assert client.post("/api/v1/agents/", {}).status_code == 400


def test_new_key_over_rest_shows_its_token_once(program):
    client = program(make_user(Role.VIEWER))
    response = client.post("/api/v1/keys/", {"name": "ci", "scopes": ["read"]})
    assert response.status_code == 201
    assert ApiKey.is_well_formed(response.json()["key"])
    assert response.headers["Cache-Control"] == "no-store"
    assert "key" not in client.get(f"/api/v1/keys/{response.json()['id']}/").json()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "  "}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes.0"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2199-01-01T00:00:00Z"}, "expires_at"),
    ],
)
def test_impossible_key_is_refused_beside_its_field(program, change, field):
    body = {"name": "ci", "scopes": ["read"], **change}
    answer = program(make_user()).post("/api/v1/keys/", body)
    assert answer.status_code == 400
    assert field.partition(".")[0] in {name.partition(".")[0] for name in answer.json()["fields"]}


def test_other_peoples_keys_are_not_there_unless_for_an_administrator(program):
    owner, other, admin = make_user(Role.VIEWER), make_user(Role.DESIGNER), make_user(Role.ADMIN)
    key, _ = api_keys.issue(owner, actor=owner, name="mine", scopes=["read"])
    assert program(other).get(f"/api/v1/keys/{key.pk}/").status_code == 404
    assert program(other).delete(f"/api/v1/keys/{key.pk}/").status_code == 404
    assert program(admin).delete(f"/api/v1/keys/{key.pk}/").status_code == 204
    key.refresh_from_db()
    assert key.revoked_at


def test_revoking_twice_is_written_down_once(program):
    user = make_user()
    key, _ = api_keys.issue(user, actor=user, name="ci", scopes=["read"])
    api_keys.revoke(key, actor=user)
    api_keys.revoke(ApiKey.objects.get(pk=key.pk), actor=user)
    entry = AuditEntry.objects.get(action="revoke key")
    assert (entry.before, entry.after) == ({"state": "active"}, {"state": "revoked"})


def test_command_prints_the_token_alone():
    user = make_user(username="ada")
    out = io.StringIO()
    call_command("token", "ci", "--user", "ada", "--scope", "read", "--scope", "runtime", stdout=out)
    token = ApiKey.objects.get(digest=ApiKey.digest_of(out.getvalue().strip()))
    assert (token.user, token.scopes) == (user, ["read", "runtime"])


@pytest.mark.parametrize("arguments", [["ci", "--user", "nobody"], ["", "--user", "ada"]])
def test_command_says_what_is_wrong(arguments):
    make_user(username="ada")
    with pytest.raises(CommandError):
        call_command("token", *arguments)


def test_nothing_is_issued_when_the_audit_row_cannot_be_written(monkeypatch):
    monkeypatch.setattr("people.audit.record", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        api_keys.issue(make_user(), actor=None, name="ci", scopes=["read"])
    assert not ApiKey.objects.exists()


def test_issue_checks_what_every_edge_hands_it():
    with pytest.raises(DomainError) as refused:
        api_keys.issue(make_user(), actor=None, name="", scopes=["none"])
    assert set(refused.value.fields) == {"name", "scopes"}
