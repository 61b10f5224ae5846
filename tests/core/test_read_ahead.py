"""What is asked along with the first question of a request."""

import pytest

from core import read_ahead
from core.read_ahead import ReadAhead
from people.models import User
from tests.factories import make_user

pytestmark = pytest.mark.django_db
FIRST = "SELECT 1"
ROLE = "SELECT role FROM people_user WHERE username = %s"


@pytest.fixture(autouse=True)
def forgotten():
    read_ahead._expected.clear()
    make_user(username="ada")


def begun() -> ReadAhead:
    request = ReadAhead("a place")
    assert request.begin(FIRST, []) == [(1,)]
    return request


def test_what_the_last_request_has_asked_comes_along(django_assert_num_queries):
    first = begun()
    with django_assert_num_queries(1):
        assert first.rows(ROLE, ["ada"]) == [("viewer",)]
    with django_assert_num_queries(2):
        second = begun()
    with django_assert_num_queries(0):
        assert second.rows(ROLE, ["ada"]) == [("viewer",)]


def test_what_has_changed_since_the_last_request_is_seen():
    begun().rows(ROLE, ["ada"])
    User.objects.update(role="designer")
    request = begun()
    assert request.rows(ROLE, ["ada"]) == [("designer",)]
    # An answer counts once: who asks again is told what holds then.
    User.objects.update(role="admin")
    assert request.rows(ROLE, ["ada"]) == [("admin",)]


def test_answer_to_other_values_and_an_old_one_do_not_count(monkeypatch):
    begun().rows(ROLE, ["ada"])
    request = begun()
    assert request.rows(ROLE, ["bea"]) == []
    assert read_ahead._expected["a place"] == [(ROLE, ["bea"])]
    request = begun()
    make_user(username="bea")
    monkeypatch.setattr(read_ahead, "FRESH_SECONDS", 0.0)
    assert request.rows(ROLE, ["bea"]) == [("viewer",)]


def test_few_questions_and_places_are_expected(monkeypatch):
    monkeypatch.setattr(read_ahead, "MAX_PLACES", 2)
    request = begun()
    for name in "abcdef":
        request.rows(ROLE, [name])
    assert len(read_ahead._expected["a place"]) == read_ahead.MAX_QUESTIONS
    for place in "bcd":
        ReadAhead(place).rows(ROLE, ["ada"])
    assert len(read_ahead._expected) <= 2
