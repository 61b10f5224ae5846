import threading

import pytest
from django.db import connection

from designer.models import Agent
from tests.factories import make_agent
from tests.module_data import SHARED, module_data

pytestmark = pytest.mark.django_db


@module_data
def desk():
    return make_agent(slug="desk", name="Desk")


@module_data
def refills(desk):
    return make_agent(slug="refills", name="Refills", parent=desk)


@pytest.fixture
def unmarked():
    return "Bills"


@module_data
def bills(unmarked):
    return make_agent(name=unmarked)


@pytest.mark.parametrize("time", ["first", "second"])
def test_each_test_finds_objects_and_rows_as_they_were_made(desk, refills, time):
    assert refills.parent is desk
    assert (desk.name, Agent.objects.get(slug="desk").name, Agent.objects.count()) == ("Desk", "Desk", 2)
    desk.name = "Changed"
    desk.save()
    make_agent()


def test_they_are_made_once_and_copied_for_each_test(request, desk, refills):
    shared = request.config.stash[SHARED]
    made_before, copies = dict(shared.made), shared.copies

    shared.prepare(request)

    assert [id(made_object) for made_object in shared.made.values()] == [
        id(row) for row in made_before.values()
    ]
    assert [copy.pk for copy in shared.copies.values()] == [desk.pk, refills.pk]
    assert not {id(copy) for copy in shared.copies.values()} & {id(copy) for copy in copies.values()}


def test_who_asks_for_some_finds_no_others(desk):
    assert list(Agent.objects.all()) == [desk]


def test_who_asks_for_none_finds_none():
    assert not Agent.objects.exists()


def test_they_are_made_anew_after_a_test_that_lost_its_connection(request, desk):
    shared = request.config.stash[SHARED]
    connection.close()
    assert shared.is_broken()


@pytest.mark.django_db(transaction=True)
def test_a_test_that_commits_makes_its_own(desk):
    agents = []

    def look():
        agents.extend(Agent.objects.all())
        connection.close()

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert agents == [desk]


@pytest.mark.usefixtures("transactional_db")
def test_what_it_takes_has_to_be_marked_too(request, bills):
    assert bills.name == "Bills"
    with pytest.raises(TypeError, match="takes the fixture unmarked, which is not marked so"):
        request.config.stash[SHARED]._make("bills", request)
