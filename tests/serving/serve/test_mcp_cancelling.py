"""A client of MCP's older era cancels one of its requests."""

import threading

import pytest
from django.db import connection

from catalog.models import Call
from designer.models import Agent
from protocols.mcp.server import asking
from protocols.signature import Annotations
from serving.serve.mcp.shared_state import SLOTS
from tests.hostile_vendor import reply
from tests.serving.serve.test_mcp import answers, events_of, library, open_session, post
from tests.serving.serve.test_mcp_following import chatty
from tests.serving.test_calls import GIVEN, desk_with, runtime
from tests.serving.test_questions_on_streams import Asking, question

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def has_arrived(vendor):
    event = threading.Event()

    def slow(line, request):
        if request.json()["method"] == "tools/call":
            event.set()
            line.wait(20)
        return chatty(line, request)

    vendor.script = slow
    return event


@pytest.fixture
def client(owner, vendor):
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())
    yield runtime(owner, agent)
    for thread in threading.enumerate():
        if thread.name == "call":
            thread.join(20)


def call(client, number, headers, meta=None):
    """The answer, once it has come."""
    params = {"name": "sky", "arguments": {}, "_meta": meta or {}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    responses = []

    def make():
        responses.append(post(client, message, **headers))
        connection.close()

    maker = threading.Thread(target=make)
    maker.start()
    return maker, responses


def cancel(client, number, headers, method="notifications/cancelled"):
    cancellation = {
        "jsonrpc": "2.0",
        "method": method,
        "params": {"requestId": number, "reason": "Not any more."},
    }
    answer = post(client, cancellation, **headers)
    assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.parametrize("number", [7, "seven"])
def test_a_call_that_is_cancelled_by_its_number_ends(client, has_arrived, number):
    session = open_session(client)
    maker, responses = call(client, number, session)
    assert has_arrived.wait(20)
    cancel(client, number, session)
    maker.join(20)
    (answer,) = responses
    assert answer.json()["result"]["_meta"]["pegboard/outcome"] == "cancelled"
    # Once more, and after its end.
    cancel(client, number, session)


def test_a_call_that_is_followed_ends_as_well(client, has_arrived):
    session = open_session(client)
    maker, responses = call(client, 7, session, meta={"progressToken": 1})
    assert has_arrived.wait(20)
    cancel(client, 7, session)
    assert Call.objects.get().outcome == "cancelled"
    maker.join(20)
    responses[0].close()


def test_only_the_client_that_made_a_call_cancels_it(client, has_arrived, owner):
    session, other_session = open_session(client), open_session(client)
    other_key = runtime(owner, Agent.objects.get())
    maker, _ = call(client, 7, session)
    assert has_arrived.wait(20)
    cancel(client, 7, other_session)
    cancel(client, 7, {})
    cancel(client, 8, session)
    cancel(client, "7", session)
    cancel(client, None, session)
    cancel(client, 7, session, method="notifications/progress")
    cancel(other_key, 7, session)
    assert Call.objects.get().status == "running"
    cancel(client, 7, session)
    maker.join(20)


@pytest.mark.parametrize("session", [{}, {"Mcp-Session-Id": "pegboard-forms"}])
def test_without_a_session_of_its_own_no_call_is_cancelled(client, has_arrived, session):
    maker, _ = call(client, 7, session)
    assert has_arrived.wait(20)
    cancel(client, 7, session)
    running = Call.objects.get()
    assert (running.status, running.mark) == ("running", "")
    cancelled = client.post(f"/api/v1/agents/desk/calls/{running.pk}/cancel/")
    assert cancelled.json()["outcome"] == "cancelled"
    maker.join(20)


def test_what_goes_on_after_a_question_is_cancelled_by_the_number_of_the_first_request(client, vendor):
    event = threading.Event()

    def slow_when_answered(line, request):
        message = request.json()
        if "id" not in message:
            return reply(b"", status=202)(line, request)
        if "inputResponses" in message["params"]:
            event.set()
            line.wait(20)
        return library(line, request)

    vendor.script = slow_when_answered
    session = open_session(client)
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "sky"}}
    events = events_of(post(client, message, **session))
    answers(client, next(events)["id"], {"action": "accept", "content": {"branch": "Mole End"}})
    last = []

    def read_stream():
        last.extend(events)
        connection.close()

    reader = threading.Thread(target=read_stream)
    reader.start()
    assert event.wait(20)
    cancel(client, 7, session)
    reader.join(20)
    assert last[0]["result"]["_meta"]["pegboard/outcome"] == "cancelled"


def asking_for_it(client, number, headers, arguments=None):
    params = {"name": "sky", "arguments": arguments or {}}
    return post(client, {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, **headers)


def test_a_stream_that_asks_ends_with_its_call(client, vendor, monkeypatch):
    monkeypatch.setattr(asking, "STREAM_SECONDS", 5.0)
    vendor.script = library
    session = open_session(client)
    events = events_of(asking_for_it(client, 7, session))
    assert next(events)["method"] == "elicitation/create"
    for number in (8, "7"):
        cancel(client, number, session)
    cancel(client, 7, open_session(client))
    cancel(client, 7, session)
    # No response is sent for it.
    assert list(events) == []
    assert not SLOTS["questions"]._open
    assert [call.outcome for call in Call.objects.all()] == ["needs_input"]


def test_a_vendor_that_waits_for_the_answer_is_told(client, vendor, monkeypatch):
    monkeypatch.setattr(asking, "STREAM_SECONDS", 5.0)
    vendor.script = Asking(question())
    session = open_session(client)
    events = events_of(asking_for_it(client, 7, session))
    next(events)
    cancel(client, 7, session)
    assert list(events) == []
    assert "notifications/cancelled" in vendor.script.others
    assert vendor.script.answers == {}


def test_what_another_goes_on_with_is_left_to_it(client, vendor, monkeypatch):
    monkeypatch.setattr(asking, "STREAM_SECONDS", 5.0)
    vendor.script = Asking(question(), question())
    session = open_session(client)
    events = events_of(asking_for_it(client, 7, session))
    next(events)
    first = Call.objects.get()
    payload = {"answers": {"question": {"branch": "East"}}}
    went_on = client.post(f"/api/v1/agents/desk/calls/{first.pk}/resume/", payload, format="json")
    assert went_on.json()["outcome"] == "needs_input"
    cancel(client, 7, session)
    assert list(events) == []
    assert "notifications/cancelled" not in vendor.script.others


def test_what_was_not_confirmed_yet_is_not_made(owner, vendor, monkeypatch):
    monkeypatch.setattr(asking, "STREAM_SECONDS", 5.0)
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True))
    client = runtime(owner, agent)
    session = open_session(client)
    events = events_of(asking_for_it(client, 7, session, GIVEN["arguments"]))
    next(events)
    cancel(client, 7, session)
    assert list(events) == []
    assert not Call.objects.exists()
