"""A write that is repeated with its Idempotency-Key changes data once, and receives the first answer."""

from datetime import timedelta

import pytest
from django.utils import timezone

from designer.models import Agent
from people import idempotent_writes
from people.api import generics
from people.models import ApiKey, IdempotentWrite, Role
from tests.clients import client_of
from tests.factories import make_agent, make_user

pytestmark = pytest.mark.django_db
AGENTS = "/api/v1/agents/"


@pytest.fixture
def api():
    return client_of(make_user(Role.DESIGNER, username="alice"))


def post(api, key, body=None, path=AGENTS):
    body = {"name": "Front desk"} if body is None else body
    return api.post(path, body, headers={"Idempotency-Key": key})


def test_a_repeated_write_changes_data_once(api):
    first, second = post(api, "k1"), post(api, "k1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert "Idempotency-Replayed" not in first.headers
    assert second.headers["Idempotency-Replayed"] == "true"
    assert Agent.objects.count() == 1


def test_the_first_write_of_a_process_may_have_a_key(api, monkeypatch):
    make_agent(slug="desk")
    monkeypatch.setattr(generics, "_declared", {})
    body, path = {"body": "Say hello."}, f"{AGENTS}desk/procedures/lint/"
    assert post(api, "k1", body, path).status_code == 200
    assert api.post(path, body).status_code == 200


def test_another_key_is_another_write(api):
    assert post(api, "k1").json()["slug"] != post(api, "k2").json()["slug"]


def test_a_key_of_another_request_is_refused(api):
    post(api, "k1")
    for again in (post(api, "k1", {"name": "Other"}), post(api, "k1", {}, "/api/v1/definitions/")):
        assert (again.status_code, again.json()["code"]) == (422, "idempotency_key_reused")


def test_keys_of_two_callers_are_different_keys(api):
    other = client_of(make_user(Role.DESIGNER, username="bob"))
    assert post(api, "k1").json()["slug"] != post(other, "k1").json()["slug"]


def test_a_refused_write_may_be_sent_again_with_its_key(api):
    make_agent(slug="taken")
    assert post(api, "k1", {"name": "Desk", "slug": "taken"}).status_code == 409
    Agent.objects.filter(slug="taken").update(slug="free")
    assert post(api, "k1", {"name": "Desk", "slug": "taken"}).status_code == 201


def test_answers_without_a_body_and_other_methods_are_repeated(api):
    slug = post(api, "k1").json()["slug"]
    for method, body, key in (("patch", {"description": "x"}, "k2"), ("delete", None, "k3")):
        answers = [
            getattr(api, method)(f"{AGENTS}{slug}/", body, headers={"Idempotency-Key": key}) for _ in range(2)
        ]
        assert answers[0].status_code == answers[1].status_code < 300
        assert answers[0].content == answers[1].content
        assert answers[1].headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256])
def test_a_key_that_is_none_is_refused(api, key):
    answer = post(api, key)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")


def test_what_is_no_single_write_takes_no_key(api):
    address = {"url": "http://127.0.0.1:1/", "protocol": "a2t"}
    answer = post(api, "k1", address, "/api/v1/vendor-requests/preview/")
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_unsupported")


def test_a_key_does_not_answer_for_a_revoked_api_key(program):
    api = program(make_user(Role.DESIGNER))
    assert api.post(AGENTS, {"name": "Desk"}, headers={"Idempotency-Key": "k1"}).status_code == 201
    ApiKey.objects.update(revoked_at=timezone.now())
    assert api.post(AGENTS, {"name": "Desk"}, headers={"Idempotency-Key": "k1"}).status_code == 401


def test_stored_answers_are_encrypted_and_forgotten(api):
    post(api, "k1", {"name": "Zebra desk"})
    row = IdempotentWrite.objects.get()
    assert "Zebra" not in row.sealed
    idempotent_writes.forget_old_writes()
    assert IdempotentWrite.objects.exists()
    IdempotentWrite.objects.update(created_at=timezone.now() - timedelta(hours=25))
    idempotent_writes.forget_old_writes()
    assert not IdempotentWrite.objects.exists()
