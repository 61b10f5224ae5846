"""Only the key that started a call reads its sensitive values: a key that continues the call gets masks."""

import json
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.db import connection

from catalog.models import Call
from catalog.models.calls import Mode
from catalog.rules.sensitive_values import MASK
from catalog.tools import sensitive_values
from execution.tasks import perform_call
from people.models import Role
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor, in_turn, json_reply
from tests.serving.test_calls import GIVEN, desk_with, runtime, url
from tests.serving.test_streams import read_events

pytestmark = pytest.mark.django_db(transaction=True)
SECRET, ANSWERS = GIVEN["arguments"]["Zip_code"], {"answers": {"user_id": "ada"}}


@pytest.fixture
def clients():
    """The key that starts the call, and the key of a designer that continues it."""
    owner = make_user(Role.DESIGNER, username="ada")
    asks = json_reply({"message": "Who?", "missing_requirements": {"user_id": True}}, status=400)
    done = json_reply({"success": True, "value": {"Sky now": f"fair in {SECRET}"}})
    with HostileVendor(in_turn(asks, done)) as vendor:
        agent, pin = desk_with(owner, vendor, protocol="oxp")
        sensitive_values.mark(pin.tool, actor=owner, inputs=["/Zip code"], outputs=["/Sky now"])
        yield runtime(owner, agent), runtime(owner, scopes=["design"])


def continuation_of(starter, other, mode=Mode.WAIT):
    resume = starter.post(url(), GIVEN).json()["resume"]
    return other.post(resume, ANSWERS | {"mode": mode})


@pytest.mark.parametrize("mode", [Mode.WAIT, Mode.ASYNC])
def test_a_key_that_continues_a_call_reads_it_masked_then_and_later(clients, mode):
    reply = continuation_of(*clients, mode).json()
    perform_call(reply["call"])
    tool = Call.objects.get(pk=reply["call"]).tool_id
    addresses = [
        f"/api/v1/calls/{reply['call']}/",
        f"/api/v1/agents/desk/calls/{reply['call']}/",
        f"/api/v1/tools/{tool}/calls/{reply['call']}/",
        f"/api/v1/tools/{tool}/calls/",
    ]
    texts = [json.dumps(reply), *(clients[1].get(address).content.decode() for address in addresses)]
    assert [text for text in texts if SECRET in text] == []
    assert MASK in json.dumps(clients[1].get(addresses[0]).json()["outputs"], ensure_ascii=False)


def test_a_stream_of_a_continued_call_is_masked(clients):
    reply = continuation_of(*clients, Mode.STREAM)
    perform_call(Call.objects.latest("pk").pk)
    events = read_events(reply)
    assert [event for event, _ in events] == ["started", "final"]
    assert SECRET not in json.dumps(events)


def test_the_key_that_started_a_call_reads_its_continuation(clients):
    reply = continuation_of(*clients[:1] * 2).json()
    assert reply["outputs"] == clients[0].get(f"/api/v1/calls/{reply['call']}/").json()["outputs"]
    assert SECRET in json.dumps(reply)


def test_a_call_that_was_continued_before_its_first_key_was_stored_gets_it(clients):
    call = continuation_of(*clients).json()["call"]
    first_key = Call.objects.get(pk=call).first_key
    assert first_key
    Call.objects.update(first_key=None)
    migration = import_module("catalog.migrations.0095_first_key_of_earlier_calls")
    migration.fill(None, SimpleNamespace(connection=connection))
    assert Call.objects.get(pk=call).first_key == first_key
    assert Call.objects.earliest("pk").first_key is None
