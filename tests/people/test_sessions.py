from datetime import timedelta
from itertools import permutations

import pytest
import time_machine
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from pegboard.celery import app
from people import users
from people.models import Role
from people.tasks import forget_sessions
from tests.factories import PASSWORD, make_user

pytestmark = pytest.mark.django_db


def make_session(key: str, lives: timedelta) -> None:
    Session.objects.create(session_key=key, session_data="", expire_date=timezone.now() + lives)


def test_sessions_that_have_ended_are_deleted_and_others_stay():
    make_session("ended", timedelta(seconds=-1))
    make_session("lives", timedelta(days=1))
    forget_sessions()
    forget_sessions()
    assert list(Session.objects.values_list("session_key", flat=True)) == ["lives"]


def test_ended_sessions_are_looked_for_by_the_scheduler():
    entries = [entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()]
    assert forget_sessions.name in entries
    assert forget_sessions.name in app.tasks


def browser_of(user) -> Client:
    client = Client()
    client.post("/accounts/login/", {"username": user.username, "password": PASSWORD})
    assert is_in(client)
    return client


def is_in(client: Client) -> bool:
    return client.get("/keys/").status_code == 200


def key_of(client: Client) -> str:
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def test_signing_in_changes_the_key_of_the_session():
    make_user(username="ada")
    client = Client()
    session = client.session
    session["planted"] = True
    session.save()
    before = key_of(client)
    client.post("/accounts/login/", {"username": "ada", "password": PASSWORD})
    assert key_of(client) != before
    assert not Session.objects.filter(session_key=before).exists()


def test_changing_the_password_changes_the_key_of_the_session():
    client = browser_of(make_user(Role.VIEWER))
    before = key_of(client)
    client.post("/accounts/password/", {"old": PASSWORD, "password": "a wholly new sentence"})
    assert key_of(client) != before
    assert is_in(client)


CHANGES = [
    *((before, {"role": after}) for before, after in permutations(Role, 2)),
    *((before, {"is_active": False}) for before in Role),
]


@pytest.mark.parametrize(("before", "change"), CHANGES)
def test_sessions_end_with_what_they_began_with(before, change):
    admin, user = make_user(Role.ADMIN), make_user(before)
    clients = [browser_of(user), browser_of(user)]
    users.update_user(user, actor=admin, **change)
    users.update_user(user, actor=admin, role=before, is_active=True)
    assert [is_in(client) for client in clients] == [False, False]
    assert is_in(browser_of(user))


def test_another_name_ends_no_session():
    user = make_user(Role.VIEWER)
    client = browser_of(user)
    users.update_user(user, actor=make_user(Role.ADMIN), name="Ada")
    assert is_in(client)


def test_password_set_by_an_administrator_ends_sessions():
    user = make_user(Role.VIEWER)
    client = browser_of(user)
    users.set_password(user, actor=make_user(Role.ADMIN), password="a wholly new sentence")
    assert not is_in(client)


def test_session_is_over_after_a_day_however_busy_it_was():
    now = timezone.now()
    client = browser_of(make_user(Role.VIEWER))
    for hour in (8, 16, 23):
        with time_machine.travel(now + timedelta(hours=hour)):
            assert is_in(client)
            client.session.save()
    with time_machine.travel(now + timedelta(hours=24, minutes=1)):
        assert not is_in(client)


def test_signing_out_ends_the_session_at_the_server():
    client = browser_of(make_user(Role.VIEWER))
    key = key_of(client)
    client.post("/accounts/logout/")
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    assert not is_in(client)
