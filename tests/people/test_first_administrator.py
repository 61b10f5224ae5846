"""The first administrator, created in the browser with the code of the terminal."""

import threading

import pytest
import time_machine
from django.core.management import call_command
from django.db import connections
from django.test import Client

from core import redis_client
from core.errors import DomainError
from people import first_administrator
from people.models import AuditEntry, Role, User
from tests.factories import make_user

PAGE = "/accounts/first/"
CODE = "AB12-CD34-EF56-7890"
FORM = {"code": CODE.lower(), "username": "ada", "password": "correct horse battery"}


@pytest.fixture
def code(monkeypatch):
    monkeypatch.setenv("PEGBOARD_FIRST_CODE", CODE.replace("-", ""))
    monkeypatch.setattr(first_administrator, "TRIES_PER_MINUTE", 1_000)
    call_command("first_code")
    yield CODE
    redis_client.client().delete(first_administrator._KEY)


@pytest.mark.django_db
def test_the_code_creates_one_administrator_who_is_signed_in(code):
    browser = Client()
    assert PAGE in browser.get("/accounts/login/").content.decode()
    assert browser.post(PAGE, FORM).status_code == 302
    user = User.objects.get()
    assert (user.username, user.role) == ("ada", Role.ADMIN)
    assert browser.get("/users/").status_code == 200
    assert AuditEntry.objects.filter(action="add person").exists()
    assert browser.get(PAGE).status_code == 404
    assert PAGE not in Client().get("/accounts/login/").content.decode()


@pytest.mark.django_db
def test_a_wrong_code_or_a_weak_password_creates_nothing_and_keeps_the_code(code):
    assert Client().post(PAGE, FORM | {"code": "0000-0000-0000-0000"}).status_code == 403
    assert Client().post(PAGE, FORM | {"password": "1"}).status_code == 400
    assert not User.objects.exists()
    assert first_administrator.is_open()


@pytest.mark.django_db
def test_without_a_code_or_with_an_account_the_page_does_not_exist(code):
    make_user(Role.VIEWER)
    assert Client().get(PAGE).status_code == 404
    assert Client().post(PAGE, FORM).status_code == 404
    with pytest.raises(DomainError) as caught:
        first_administrator.create(**FORM)
    assert caught.value.code == "not_first"


@pytest.mark.django_db
def test_the_code_is_stored_hashed_and_expires(code):
    client = redis_client.client()
    assert CODE.replace("-", "") not in str(client.get(first_administrator._KEY))
    assert 0 < client.ttl(first_administrator._KEY) <= first_administrator.CODE_SECONDS


@pytest.mark.django_db
def test_tries_are_limited(code, monkeypatch):
    monkeypatch.setattr("core.rate_limits.spend", lambda allowed, now: False)
    assert Client().post(PAGE, FORM).status_code == 429


@pytest.mark.django_db
def test_wrong_codes_from_one_address_keep_no_other_address_out(code, monkeypatch):
    monkeypatch.setattr(first_administrator, "TRIES_PER_MINUTE", 10)
    stranger = Client(REMOTE_ADDR="198.51.100.7")
    # The tries are of one minute, however long they take.
    with time_machine.travel(1_800_000_030, tick=False):
        tries = [stranger.post(PAGE, FORM | {"code": "0000"}).status_code for _ in range(30)]
        assert tries[:10] == [403] * 10
        assert tries[-1] == 429
        assert Client(REMOTE_ADDR="198.51.100.8").post(PAGE, FORM).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_several_at_once_one_is_created(code):
    codes: list[str] = []

    def create(number: int) -> None:
        try:
            first_administrator.create(**FORM | {"username": f"ada{number}"})
            codes.append("created")
        except DomainError as error:
            codes.append(error.code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=create, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes.count("created") == User.objects.count() == 1
