"""The end of a call is posted, signed, to the caller's address."""

import base64
import hashlib
import hmac
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from catalog.models import Call
from catalog.notifications import callbacks, dispatch
from catalog.notifications.models import Callback
from catalog.notifications.tasks import send_callback
from core import redis_client, wakes
from execution.calls import requesting
from execution.tasks import perform_call
from tests.catalog.notifications.receivers import receiver
from tests.hostile_vendor import HostileVendor
from tests.serving.test_calls import ANSWER, GIVEN, desk_with, owner, runtime, url

__all__ = ["owner"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def listener():
    with receiver() as running:
        yield running


@pytest.fixture
def client(owner):
    with HostileVendor(ANSWER) as vendor:
        agent, _ = desk_with(owner, vendor)
        yield runtime(owner, agent)


def begin_call(client, listener, **more) -> dict:
    answer = client.post(url(), GIVEN | {"mode": "async", "callback": listener.url} | more)
    assert answer.status_code == 202
    return answer.json()


def deliver_callback() -> Callback:
    callbacks.send(str(Callback.objects.get().pk))
    return Callback.objects.get()


def test_the_end_of_a_call_is_posted_once_and_signed(client, listener):
    started = begin_call(client, listener)
    assert deliver_callback().state == "waiting"
    perform_call(started["call"])
    assert deliver_callback().state == "sent"
    assert deliver_callback().sealed == ""
    ((headers, body),) = listener.requests
    event = json.loads(body)
    assert (event["type"], event["data"]["call"], event["data"]["outcome"]) == (
        "call.finished",
        started["call"],
        "ok",
    )
    assert event["data"]["url"].endswith(f"/api/v1/calls/{started['call']}/")
    assert "fair" not in body.decode()
    key = base64.b64decode(started["callback_secret"].removeprefix("whsec_"))
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    proof = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{proof}"
    assert "callback_secret" not in client.get(f"/api/v1/calls/{started['call']}/").json()


def test_an_address_that_does_not_take_it_is_asked_again_later(client, listener):
    listener.answer = lambda number: (503, {}) if number == 1 else (204, {})
    perform_call(begin_call(client, listener)["call"])
    first = deliver_callback()
    assert (first.state, first.attempts) == ("waiting", 1)
    assert deliver_callback().attempts == 1
    Callback.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    assert deliver_callback().state == "sent"
    assert listener.ids[0] == listener.ids[1]


def test_a_receiver_that_is_gone_is_left_alone(client, listener):
    listener.answer = lambda number: (410, {})
    perform_call(begin_call(client, listener)["call"])
    assert (deliver_callback().state, len(listener.requests)) == ("failed", 1)


def test_the_scheduler_finds_what_is_to_be_told(client, listener):
    perform_call(begin_call(client, listener)["call"])
    redis_client.client().delete("enumeration")
    dispatch.tick()
    assert wakes.count_wakes(callbacks.TASK, "enumeration") == 1
    send_callback()
    assert Callback.objects.get().state == "sent"


def test_a_cancelled_call_is_told_too(client, listener):
    call = begin_call(client, listener)["call"]
    client.post(f"/api/v1/calls/{call}/cancel/")
    assert deliver_callback().state == "sent"
    assert json.loads(listener.requests[0][1])["data"]["outcome"] == "cancelled"


def test_the_rules_of_the_way_out_hold_for_callbacks(client, listener, settings):
    perform_call(begin_call(client, listener)["call"])
    # Networks that are open to vendors are closed to what a key of a runtime names.
    settings.CALLBACK_ALLOW = ""
    callback = deliver_callback()
    assert (callback.state, callback.attempts, listener.requests) == ("waiting", 1, [])
    assert callback.error
    refused = client.post(url(), GIVEN | {"mode": "async", "callback": "http://127.0.0.1:8000/"})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["callback"])


def test_what_is_no_address_is_refused_before_anything_is_written(client):
    for bad in ("nowhere", "ftp://vendor.example/", "http://", "https://u:p@vendor.example/"):
        refused = client.post(url(), GIVEN | {"mode": "async", "callback": bad})
        assert (refused.status_code, list(refused.json()["fields"])) == (400, ["callback"]), bad
    waited = client.post(url(), GIVEN | {"callback": "https://vendor.example/"})
    assert (waited.status_code, list(waited.json()["fields"])) == (400, ["callback"])
    assert not Call.objects.exists()


def test_a_call_is_kept_until_its_end_was_told(client, listener, monkeypatch):
    monkeypatch.setattr(requesting, "MAX_CALLS_PER_TOOL", 0)
    monkeypatch.setattr(requesting, "FORGET_EVERY", 1)
    perform_call(begin_call(client, listener)["call"])
    client.post(url(), GIVEN)
    assert Callback.objects.count() == 1
    deliver_callback()
    client.post(url(), GIVEN)
    assert not Callback.objects.exists()
