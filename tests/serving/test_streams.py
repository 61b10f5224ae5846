"""A call as server-sent events: the vendor's events are passed on as they come, and the end follows."""

import json
import threading

import pytest
from django.db import connection
from django.test import Client

from catalog.models import Call, Tool
from designer.pins import tunings
from designer.releases import publishing
from execution.calls import events, places, remote_runs
from execution.calls.places import CallPlaces, Holder
from execution.tasks import perform_call
from people import teams
from people.models import Role
from serving import streams
from tests.acp_runs import Runs
from tests.factories import make_parameter, make_user
from tests.hostile_vendor import HostileVendor
from tests.serving.test_calls import ANSWER, GIVEN, OUTPUTS, desk_with, owner, runtime, url

__all__ = ["owner"]
pytestmark = pytest.mark.django_db(transaction=True)
STREAM = GIVEN | {"mode": "stream"}
STREAMING = {"specs": {"capabilities": {"streaming": {"values": True, "custom": True}}}}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(remote_runs, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(remote_runs, "POLL_SECONDS", 0.05)


@pytest.fixture
def runs():
    runs = Runs()
    runs.updates = [
        {"type": "values", "status": "pending", "values": {"Sky now": "cloudy"}},
        {"type": "custom", "update": {"looking": "out of the window"}},
    ]
    return runs


@pytest.fixture
def client(owner, runs):
    with HostileVendor(runs) as vendor:
        agent, _ = desk_with(owner, vendor, protocol="acp", outputs_rest={}, rest=STREAMING)
        yield runtime(owner, agent)


def split_events(body: str) -> list[tuple[str, str, dict]]:
    """Id, event and data of each."""
    blocks = [block.split("\n") for block in body.split("\n\n") if block and not block.startswith(":")]
    return [tuple(line.partition(": ")[2] for line in lines) for lines in blocks]


def read_events(answer) -> list[tuple[str, dict]]:
    assert answer["Content-Type"] == "text/event-stream"
    body = b"".join(answer.streaming_content).decode()
    answer.close()
    return [(event, json.loads(data)) for _, event, data in split_events(body)]


def url_of(call: int, path: str = "") -> str:
    return f"/api/v1/agents/desk/calls/{call}/{path}"


def performed(call: Call) -> threading.Thread:
    worker = threading.Thread(target=lambda: (perform_call(call.pk), connection.close()))
    worker.start()
    return worker


def test_what_a_vendor_streams_is_passed_on_and_ends_with_the_call(client, runs):
    runs.end({"Sky now": "fair"})
    answer = client.post(url(), STREAM, headers={"accept": "text/event-stream"})
    worker = performed(Call.objects.get())
    events = read_events(answer)
    worker.join(20)
    assert [event for event, _ in events] == ["started", "partial", "partial", "final"]
    assert events[0][1]["status"] == "queued"
    assert events[1][1] == {"outputs": {"Sky_now": "cloudy"}}
    assert events[2][1] == {"custom": {"looking": "out of the window"}}
    assert (events[3][1]["outcome"], events[3][1]["outputs"]) == ("ok", {"Sky_now": "fair"})
    assert runs.forgotten == list(runs.started)


def test_a_follower_comes_back_where_it_left(client, runs):
    runs.end({"Sky now": "fair"})
    client.post(url(), STREAM).close()
    call = Call.objects.get()
    perform_call(call.pk)
    whole_stream = client.get(url_of(call.pk, "events/"))
    events = split_events(b"".join(whole_stream.streaming_content).decode())
    assert [event for _, event, _ in events] == ["started", "partial", "partial", "final"]
    remainder = client.get(f"/api/v1/calls/{call.pk}/events/", headers={"Last-Event-ID": events[1][0]})
    assert [event for event, _ in read_events(remainder)] == ["partial", "final"]
    last = client.get(url_of(call.pk, "events/"), headers={"Last-Event-ID": events[3][0]})
    assert [event for event, _ in read_events(last)] == ["final"]


def test_a_stream_that_breaks_off_goes_on_with_the_run(client, runs):
    client.post(url(), STREAM).close()
    call = Call.objects.get()
    perform_call(call.pk)
    call.refresh_from_db()
    assert (call.status, call.remote_run) == ("running", *runs.started)
    runs.end({"Sky now": "fair"})
    Call.objects.update(gives_up_at=call.queued_at)
    perform_call(call.pk)
    assert [event for event, _ in read_events(client.get(url_of(call.pk, "events/")))][-1] == "final"
    assert len(runs.started) == 1


def test_what_a_designer_hid_is_not_streamed_either(owner, runs):
    hidden = make_parameter("Source", required=False)
    with HostileVendor(runs) as vendor:
        agent, pin = desk_with(
            owner, vendor, protocol="acp", outputs_rest={}, rest=STREAMING, outputs=(*OUTPUTS, hidden)
        )
        tunings.tune(pin, actor=owner, outputs={"Source": {"hidden": True}})
        publishing.publish(agent, actor=owner, channel="live")
        runs.updates[0]["values"]["Source"] = "a secret place"
        runs.end({"Sky now": "fair", "Source": "a secret place"})
        client = runtime(owner, agent)
        client.post(url(), STREAM).close()
        call = Call.objects.get()
        perform_call(call.pk)
        events = read_events(client.get(url_of(call.pk, "events/")))
    assert [event for event, _ in events] == ["started", "partial", "final"]
    assert "secret" not in json.dumps(events)


def test_a_vendor_that_does_not_stream_is_told_at_its_end(owner):
    with HostileVendor(ANSWER) as vendor:
        agent, _ = desk_with(owner, vendor)
        client = runtime(owner, agent)
        answer = client.post(url(), STREAM)
        worker = performed(Call.objects.get())
        assert [event for event, _ in read_events(answer)] == ["started", "final"]
        worker.join(20)


def test_a_failure_is_an_error_and_a_question_an_interrupt(client, runs):
    runs.end(output={"type": "error", "errcode": 7, "description": "No sky."})
    client.post(url(), STREAM).close()
    perform_call(Call.objects.get().pk)
    events = read_events(client.get(url_of(Call.objects.get().pk, "events/")))
    assert (events[-1][0], events[-1][1]["outcome"]) == ("error", "tool_error")
    runs.end(output={"type": "interrupt", "interrupt": {"interrupt_type": "town", "message": "Which?"}})
    client.post(url(), STREAM).close()
    asking = Call.objects.latest("pk")
    perform_call(asking.pk)
    events = read_events(client.get(url_of(asking.pk, "events/")))
    assert (events[-1][0], events[-1][1]["asks"][0]["message"]) == ("interrupted", "Which?")


def test_the_end_is_told_when_no_event_came(client, runs, monkeypatch):
    monkeypatch.setattr(streams, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(events, "publish", lambda *event: None)
    runs.end({"Sky now": "fair"})
    answer = client.post(url(), STREAM)
    worker = performed(Call.objects.get())
    assert [event for event, _ in read_events(answer)] == ["started", "final"]
    worker.join(20)


def test_what_is_refused_before_it_is_sent_is_no_stream(client, owner):
    refused = client.post(url(), STREAM | {"arguments": {}}, headers={"accept": "text/event-stream"})
    assert (refused.status_code, refused.json()["outcome"]) == (200, "invalid_arguments")
    missing = client.post(url(name="earth"), STREAM, headers={"accept": "text/event-stream"})
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_a_call_that_is_tried_is_followed_on_its_page(client, owner, runs):
    runs.end({"Sky now": "fair"})
    page = Client()
    page.force_login(owner)
    tool = Tool.objects.get()
    to = page.post(f"/tools/{tool.pk}/try/", {"ordinal": 1, "input-0": "0150"})["Location"]
    call = Call.objects.get()
    assert call.mode == "stream"
    part = f"/tools/{tool.pk}/calls/{call.pk}/"
    content = page.get(to).content.decode()
    assert f'data-follow="{part}events/"' in content
    assert "Cancel the call" in content
    events.publish(call.key, events.PARTIAL, {"outputs": {"Sky now": "cloudy <b>"}})
    assert "cloudy &lt;b&gt;" in page.get(to).content.decode(), "without JavaScript, by loading it again"
    perform_call(call.pk)
    answer = page.get(f"{part}events/")
    body = b"".join(answer.streaming_content).decode()
    answer.close()
    assert body.count("event: partial") == 1
    assert "looking" in body
    assert body.endswith("event: ended\ndata: {}\n\n")
    done = page.get(part, headers={"HX-Request": "true"}).content.decode()
    assert ("fair" in done, "data-follow" in done) == (True, False)
    admin = make_user(Role.ADMIN)
    teams.add_member(teams.create_team(actor=admin, name="Own"), owner, actor=admin)
    other = Client()
    other.force_login(make_user(Role.DESIGNER))
    assert other.get(f"{part}events/").status_code == 404


def test_a_call_that_cannot_be_followed_is_not_made(client, monkeypatch):
    monkeypatch.setattr(places, "ROOM_SECONDS", 0.01)
    monkeypatch.setattr(places, "_places", CallPlaces(1))
    another = Holder(None, "another")
    with places.room(another):
        refused = client.post(url(), STREAM)
        assert (refused.status_code, refused["Retry-After"]) == (503, "1")
        assert Call.objects.count() == 0
    followed = client.post(url(), STREAM)
    busy = client.get(url_of(Call.objects.get().pk, "events/"))
    assert (busy.status_code, busy.json()["code"]) == (503, "busy")
    followed.close()
    # A request that is refused or answered at once releases its place.
    assert client.post(url(), STREAM | {"arguments": {"none": 1}}).json()["outcome"] == "invalid_arguments"
    with places.room(another):
        pass
