import json

import pytest
from django.db import IntegrityError, OperationalError
from django.http import Http404
from django.test import Client
from rest_framework.exceptions import Throttled, ValidationError

from core.errors import DomainError
from pegboard.api.errors import exception_handler
from people import users
from people.models import Role, User
from tests.factories import make_user

pytestmark = pytest.mark.django_db
FORM = "application/x-www-form-urlencoded"
PERSON = {"username": "eve", "password": "a wholly new sentence"}


def is_error(body: dict) -> bool:
    return {"code", "message"} <= body.keys() <= {"code", "message", "fields"} and bool(body["message"])


@pytest.mark.parametrize(
    ("method", "path", "extra", "status", "code"),
    [
        ("get", "/api/v1/users/999999/", {}, 404, "not_found"),
        ("get", "/api/v1/users/99999999999999999999999/", {}, 404, "not_found"),
        ("get", "/api/v1/nothing/", {}, 404, "not_found"),
        ("get", "/api/nothing", {}, 404, "not_found"),
        ("post", "/api/v1/users", {}, 404, "missing_slash"),
        ("put", "/api/v1/users/", {}, 405, "method_not_allowed"),
        ("options", "/api/v1/users/", {}, 405, "method_not_allowed"),
        ("get", "/api/v1/users/", {"headers": {"Accept": "text/html"}}, 406, "not_acceptable"),
        ("post", "/api/v1/users/", {"data": "a=b", "content_type": FORM}, 415, "unsupported_media_type"),
        ("post", "/api/v1/users/", {}, 400, "invalid"),
        ("get", "/api/v1/users/?q=%00", {}, 400, "bad_request"),
        ("get", "/api/v1/users/?q=%ff", {}, 400, "bad_request"),
        ("get", "/api/v1/agents/a%00b/", {}, 400, "bad_request"),
        ("get", "/api/v1/agents/a%ffb/", {}, 404, "not_found"),
    ],
)
def test_every_refusal_has_the_same_shape(program, method, path, extra, status, code):
    client = program(make_user(Role.ADMIN))
    answer = getattr(client, method)(path, **extra)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert is_error(answer.json())


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "username"),
        (b"{", "char 1"),
        (b"[]", "must be a JSON object"),
        (b'{"a": 1, "a": 2}', "repeats the key"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": "\\u0000"}', "NUL"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": "\xff"}', "not UTF-8 (byte 7)"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested"),
        (b"[" * 100_000, "nested"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
    ],
)
def test_body_that_can_be_read_in_two_ways_is_refused(program, body, part):
    answer = program(make_user(Role.ADMIN)).post("/api/v1/users/", body, content_type="application/json")
    assert answer.status_code == 400
    assert part in json.dumps(answer.json())
    assert is_error(answer.json())


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (r'{"name": "s3cret\u0000", "role": "admin"}', {"name"}),
        (r'{"name": "s3cret\ud800", "username": "s3cret\u0000"}', {"name", "username"}),
        (r'{"scopes": ["read", {"like": "s3cret\u0000"}]}', {"scopes.1.like"}),
        (r'{"name": {"s3cret\u0000": 1}}', {"name"}),
    ],
)
def test_character_that_cannot_be_kept_is_named_by_its_field_and_not_repeated(program, body, fields):
    answer = program(make_user(Role.ADMIN)).post(
        "/api/v1/users/", body.encode(), content_type="application/json"
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert answer.json()["fields"].keys() == fields
    assert "s3cret" not in answer.content.decode()


def test_member_whose_own_name_cannot_be_kept_is_not_repeated(program):
    body = rb'{"s3cret\u0000": 1}'
    answer = program(make_user(Role.ADMIN)).post("/api/v1/users/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")
    assert "s3cret" not in answer.content.decode()


def test_body_over_a_megabyte_is_refused(program):
    body = b'{"name": "' + b"x" * 1_048_576 + b'"}'
    answer = program(make_user(Role.ADMIN)).post("/api/v1/users/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("users/", {**PERSON, "name": 5}, "name"),
        ("users/1/", {"is_active": "yes"}, "is_active"),
        ("keys/", {"name": "ci", "scopes": [5]}, "scopes.0"),
        ("keys/", {"name": ["ci"], "scopes": ["read"]}, "name"),
    ],
)
def test_value_of_another_json_type_is_refused(program, path, body, field):
    admin = make_user(Role.ADMIN, id=1)
    client = program(admin)
    send = client.patch if path == "users/1/" else client.post
    answer = send(f"/api/v1/{path}", body)
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


def test_fields_carry_one_sentence_each(program):
    answer = program(make_user(Role.ADMIN)).post("/api/v1/users/", {"role": "owner"}).json()
    assert set(answer["fields"]) == {"username", "password", "role"}
    assert all(isinstance(sentence, str) for sentence in answer["fields"].values())


def test_nested_faults_are_named_by_their_path():
    detail = {"parameters": [{}, {"hidden": ["Not a boolean."]}], "non_field_errors": ["Say more."]}
    answer = exception_handler(ValidationError(detail), {})
    assert answer.data == {
        "code": "invalid",
        "message": "Say more.",
        "fields": {"parameters.1.hidden": "Not a boolean."},
    }


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (DomainError("taken", "Taken.", status=409), 409, "taken"),
        (Http404(), 404, "not_found"),
        (Throttled(wait=7), 429, "throttled"),
        (OperationalError(), 503, "unavailable"),
    ],
)
def test_errors_of_every_family_become_answers(error, status, code):
    answer = exception_handler(error, {})
    assert (answer.status_code, answer.data["code"]) == (status, code)


def test_waiting_time_is_told():
    assert exception_handler(Throttled(wait=7), {}).headers["Retry-After"] == "7"


@pytest.mark.parametrize("error", [IntegrityError("an unexpected constraint"), KeyError("x")])
def test_an_unexpected_error_is_left_to_the_error_page(error):
    assert exception_handler(error, {}) is None


def test_two_who_save_the_same_at_once_get_a_conflict(program, monkeypatch):
    make_user(username="eve")
    monkeypatch.setattr(User, "full_clean", lambda self, **_: None)
    answer = program(make_user(Role.ADMIN)).post("/api/v1/users/", PERSON)
    assert (answer.status_code, answer.json()["code"]) == (409, "taken")


def test_crash_answers_json_and_leaks_nothing(program, monkeypatch):
    def fail(**_):
        raise RuntimeError("the secret word")

    monkeypatch.setattr(users, "add_user", fail)
    client = program(make_user(Role.ADMIN))
    client.raise_request_exception = False
    answer = client.post("/api/v1/users/", PERSON)
    assert (answer.status_code, answer.json()["code"]) == (500, "server_error")
    assert "secret" not in answer.content.decode()


def test_stranger_gets_401_and_the_way_to_sign_in(client):
    answer = client.get("/api/v1/users/")
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="pegboard"'


def test_browser_session_reads_and_writes_with_the_csrf_token():
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user(Role.ADMIN))
    assert browser.get("/api/v1/users/").status_code == 200
    refused = browser.post("/api/v1/users/", PERSON, content_type="application/json")
    assert (refused.status_code, is_error(refused.json())) == (403, True)
    browser.get("/users/new/")
    token = browser.cookies["csrftoken"].value
    response = browser.post(
        "/api/v1/users/", PERSON, content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert response.status_code == 201


def test_refusal_says_which_role_is_needed(program):
    answer = program(make_user(Role.VIEWER)).post("/api/v1/users/", PERSON)
    assert (answer.status_code, answer.json()["code"]) == (403, "role_required")
    assert "administrator role" in answer.json()["message"]


def test_number_that_no_column_holds_is_nothing_at_all(client):
    client.force_login(make_user(Role.ADMIN))
    assert client.get("/users/99999999999999999999999/").status_code == 404
