"""A vendor that hangs is read again, but never beside another that hangs."""

import pytest
from django.db import connection

from catalog import enumeration
from catalog.models import Endpoint, Run
from catalog.models.runs import Trigger
from tests.factories import make_endpoint
from tests.hostile.bench import SHORT, Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, json_reply, reply, then_waits

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(monkeypatch):
    """The runs that workers were told of."""
    sent = []
    monkeypatch.setattr(enumeration, "send", lambda pk: sent.append(pk) or True)
    return sent


@pytest.fixture
def vendor():
    with HostileVendor(json_reply({"items": []})) as vendor:
        yield vendor


def queued(vendor, code, trigger=Trigger.SCHEDULE):
    endpoint = make_endpoint(url=vendor.url, error_code=code, failures=1)
    return enumeration.request_run(endpoint, trigger=trigger)


def running(vendor, code):
    run = queued(vendor, code)
    Run.objects.filter(pk=run.pk).update(status="running", attempt=1)
    return run


@pytest.mark.parametrize("code", ["IDLE", "DEADLINE", "CONNECT_TIMEOUT", "INCOMPLETE"])
def test_who_kept_us_waiting_waits_for_another_that_did(vendor, told, code):
    running(vendor, "DEADLINE")
    waiting = queued(vendor, code)
    assert enumeration.perform(waiting.pk).status == "queued"
    assert enumeration.perform(waiting.pk).attempt == 0
    assert not vendor.requests


@pytest.mark.parametrize("code", ["", "AUTH", "HTTP_503", "JSON_SYNTAX"])
def test_nobody_else_waits(vendor, told, code):
    running(vendor, "IDLE")
    assert enumeration.perform(queued(vendor, code).pk).status == "succeeded"


def test_a_vendor_that_hung_waits_for_no_good_one(vendor, told):
    for _ in range(5):
        running(vendor, "")
    assert enumeration.perform(queued(vendor, "IDLE").pk).status == "succeeded"


def test_the_command_line_waits_for_nobody(vendor, told):
    running(vendor, "IDLE")
    assert enumeration.perform(queued(vendor, "IDLE", Trigger.COMMAND).pk).status == "succeeded"


def test_the_next_in_the_lane_is_told_when_one_has_ended(vendor, told):
    first, second, third = (queued(vendor, "IDLE") for _ in range(3))
    assert enumeration.perform(first.pk).status == "succeeded"
    assert told[-1] == second.pk
    assert enumeration.perform(second.pk).status == "succeeded"
    assert told[-1] == third.pk


def test_a_good_reading_leaves_the_lane(vendor, told):
    run = queued(vendor, "IDLE")
    enumeration.perform(run.pk)
    assert Endpoint.objects.get(pk=run.endpoint_id).error_code == ""


def test_a_hang_enters_it():
    with HostileVendor(reply()) as vendor:
        bench = Bench(vendor, DIALECTS["a2t"], as_admin())
        bench.shop.hostile = then_waits(b"")
        bench.read(SHORT)
        assert bench.endpoint.error_code == "IDLE"


def test_two_workers_look_one_after_the_other(vendor, told):
    """The lock is held to the end of the claim, so that two cannot both find the lane free."""
    run = queued(vendor, "IDLE")
    enumeration._claim(run.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
        assert cursor.fetchone()[0] >= 1
