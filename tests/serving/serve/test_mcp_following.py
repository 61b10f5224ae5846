"""A client of MCP that follows a call's progress: the vendor's notifications come before the result."""

import itertools
import json
import threading
import time

import pytest

from catalog.models import Call
from catalog.models.circuit import ToolCircuit
from designer.agents import agents
from designer.models import Agent
from designer.releases import publishing
from execution.calls import invocation, places
from execution.calls.places import CallPlaces
from serving import streams
from serving.serve.mcp.shared_state import SLOTS
from tests.hostile_vendor import json_reply, reply
from tests.serving.serve.test_mcp import BRANCH, FORMS, META, modern, old, post
from tests.serving.test_calls import desk_with, runtime

pytestmark = pytest.mark.django_db(transaction=True)
BOTH = {"Accept": "application/json, text/event-stream"}
TOLD = {"progress": 1, "total": 2, "message": "Half of it"}
LOGGED = {"level": "warning", "logger": "desk", "data": "The pen is empty."}


def chatty(line, request):
    """A vendor that reports progress as often as requested, and logs it."""
    message = request.json()
    if "id" not in message:
        return reply(b"", status=202)(line, request)
    if message["method"] != "tools/call":
        result = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result})(line, request)
    meta = message["params"]["_meta"]
    notifications = [
        {"method": "notifications/progress", "params": {**TOLD, "progressToken": meta.get("progressToken")}},
        {"method": "notifications/message", "params": LOGGED},
    ]
    requested = [notifications[0]] * ("progressToken" in meta) + [notifications[1]] * (
        f"{META}logLevel" in meta
    )
    result = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
    end = {"id": message["id"], "result": result}
    events = "".join(
        f"data: {json.dumps({'jsonrpc': '2.0', **message})}\n\n" for message in [*requested, end]
    )
    return reply(events.encode(), headers={"Content-Type": "text/event-stream"})(line, request)


@pytest.fixture
def client(owner, vendor):
    vendor.script = chatty
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())
    yield runtime(owner, agent)
    for thread in threading.enumerate():
        if thread.name == "call":
            thread.join(20)


def slow(line, request):
    """Waits until a call is cancelled, or for a while."""
    if request.json()["method"] == "tools/call":
        line.wait(3)
    return chatty(line, request)


def call_followed(client, send=modern, *, meta=None, **more):
    return send(client, "tools/call", {"name": "sky", "arguments": {}, "_meta": meta or {}}, **BOTH, **more)


def messages_of(answer) -> list[dict]:
    """Messages of a stream."""
    body = b"".join(answer.streaming_content).decode()
    answer.close()
    lines = body.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


@pytest.mark.parametrize("send", [modern, old])
@pytest.mark.parametrize("token", ["the client's own", 7])
def test_progress_comes_under_the_clients_own_token(client, send, token):
    answer = call_followed(client, send, meta={"progressToken": token})
    assert answer["Content-Type"] == "text/event-stream"
    progress, end = messages_of(answer)
    assert progress == {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {**TOLD, "progressToken": token},
    }
    assert end["result"]["content"] == [{"type": "text", "text": "done"}]
    assert end["result"].get("resultType") == ("complete" if send is modern else None)


def notes(*, progress, seconds=60.0):
    """A vendor that sends notes for so long: `progress` by the number of the note, or else log messages."""

    def script(line, request):
        message = request.json()
        if message.get("method") != "tools/call":
            return chatty(line, request)
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        ends = time.monotonic() + seconds
        for number in itertools.count(1):
            if time.monotonic() > ends:
                break
            note = {"method": "notifications/message", "params": LOGGED}
            if progress:
                token = message["params"]["_meta"]["progressToken"]
                params = {"progress": progress(number), "progressToken": token}
                note = {"method": "notifications/progress", "params": params}
            line.send(f"data: {json.dumps({'jsonrpc': '2.0', **note})}\n\n".encode())
            line.wait(0.1)
        result = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
        end = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        line.send(f"data: {json.dumps(end)}\n\n".encode())
        return False

    return script


@pytest.mark.parametrize(
    "progress", [None, lambda number: 1, lambda number: -number], ids=["log", "repeated", "falling"]
)
def test_a_call_without_progress_ends_at_its_deadline(client, vendor, progress):
    give_up_after(1)
    vendor.script = notes(progress=progress)
    end = messages_of(call_followed(client, meta={"progressToken": 1, f"{META}logLevel": "debug"}))[-1]
    assert end["result"]["isError"]
    call = Call.objects.get()
    assert (call.error_code, call.deadline_seconds) == ("DEADLINE", 1)
    assert ToolCircuit.objects.get().failures == 1


def test_progress_that_no_client_requests_does_not_extend_the_deadline(client, vendor):
    give_up_after(1)
    vendor.script = notes(progress=lambda number: number)
    assert messages_of(call_followed(client, meta={f"{META}logLevel": "debug"}))[-1]["result"]["isError"]
    assert Call.objects.get().error_code == "DEADLINE"


def test_progress_extends_the_deadline_of_a_call(client, vendor, monkeypatch):
    give_up_after(1)
    vendor.script = notes(progress=lambda number: number, seconds=2.5)
    assert (
        messages_of(call_followed(client, meta={"progressToken": 1}))[-1]["result"]["content"][0]["text"]
        == "done"
    )
    monkeypatch.setattr(invocation, "MAX_SECONDS_WITH_PROGRESS", 2.0)
    vendor.script = notes(progress=lambda number: number)
    result = messages_of(call_followed(client, meta={"progressToken": 1}))[-1]["result"]
    assert result["isError"]
    assert " 2 s" in result["content"][0]["text"]
    assert Call.objects.latest("pk").error_code == "DEADLINE"


def give_up_after(seconds):
    agent = Agent.objects.get()
    agents.update_agent(agent, actor=agent.created_by, retry={"give_up_after_seconds": seconds})
    publishing.publish(agent, actor=agent.created_by, channel="live")


@pytest.mark.parametrize(("level", "is_told"), [("info", True), ("warning", True), ("error", False)])
def test_log_messages_come_from_the_level_that_is_asked_for(client, level, is_told):
    *notifications, end = messages_of(call_followed(client, meta={f"{META}logLevel": level}))
    assert (
        notifications == [{"jsonrpc": "2.0", "method": "notifications/message", "params": LOGGED}] * is_told
    )
    assert end["result"]["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.parametrize(
    "meta", [{}, {"progressToken": 1.5}, {"progressToken": True}, {f"{META}logLevel": "loud"}]
)
def test_a_client_that_asks_for_nothing_is_answered_at_once(client, meta):
    assert call_followed(client, meta=meta).json()["result"]["content"] == [{"type": "text", "text": "done"}]


def test_a_client_that_takes_no_events_is_answered_at_once(client):
    params = {"name": "sky", "arguments": {}, "_meta": {"progressToken": 1}}
    assert modern(client, "tools/call", params, Accept="application/json").json()["result"]["content"]


def test_a_vendor_that_has_no_word_for_progress_is_waited_for(owner, desk, vendor):
    answer = call_followed(runtime(owner, desk[0]), meta={"progressToken": 1})
    assert answer["Content-Type"] == "application/json"


def test_a_call_that_is_not_made_is_answered_at_once(client):
    params = {"name": "sea", "arguments": {}, "_meta": {"progressToken": 1}}
    assert modern(client, "tools/call", params, **BOTH).json()["error"]["code"] == -32602
    wrong = {"name": "sky", "arguments": {"more": 1}, "_meta": {"progressToken": 1}}
    assert modern(client, "tools/call", wrong, **BOTH).json()["result"]["isError"]
    assert not Call.objects.exists()


def asks(line, request):
    message = request.json()
    if message["method"] != "tools/call" or "inputResponses" in message["params"]:
        return chatty(line, request)
    params = {"mode": "form", "message": "Which branch?", "requestedSchema": BRANCH}
    input_requests = {"branch": {"method": "elicitation/create", "params": params}}
    result = {
        "resultType": "input_required",
        "inputRequests": input_requests,
        "requestState": "the vendor's own",
    }
    return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result})(line, request)


def test_what_a_tool_asks_comes_on_the_same_stream(client, vendor):
    vendor.script = asks
    (end,) = messages_of(call_followed(client, can=FORMS, meta={"progressToken": 1}))
    assert end["result"]["resultType"] == "input_required"
    responses = {"branch": {"action": "accept", "content": {"branch": "East"}}}
    again = {"requestState": end["result"]["requestState"], "inputResponses": responses}
    params = {"name": "sky", "arguments": {}, **again, "_meta": {"progressToken": 2}}
    progress, end = messages_of(modern(client, "tools/call", params, can=FORMS, **BOTH))
    assert progress["params"]["progressToken"] == 2
    assert end["result"]["content"]


def followed_and_answered(client):
    """Return the stream of a call with a question, and its messages after the answer."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {}}
    session = {"Mcp-Session-Id": old(client, "initialize", hello)["Mcp-Session-Id"]}
    stream = call_followed(client, old, meta={"progressToken": 3}, **session)
    messages = (
        json.loads(part.split(b"data: ")[1]) for part in stream.streaming_content if b"data: " in part
    )
    answer = {"action": "accept", "content": {"branch": "East"}}
    response = {"jsonrpc": "2.0", "id": next(messages)["id"], "result": answer}
    assert post(client, response, **BOTH, **session).status_code == 202
    return stream, messages


def test_what_follows_an_answer_inside_a_call_is_told_as_well(client, vendor):
    vendor.script = asks
    stream, notifications = followed_and_answered(client)
    progress, end = notifications
    assert progress["params"] == {**TOLD, "progressToken": 3}
    assert end["result"]["content"]
    stream.close()
    assert not SLOTS["questions"]._open


def test_a_stream_that_asks_has_no_follower_s_place_meanwhile(client, vendor, monkeypatch):
    monkeypatch.setattr(places, "_places", CallPlaces(1))
    monkeypatch.setattr(places, "ROOM_SECONDS", 0.1)
    vendor.script = asks
    _, messages = followed_and_answered(client)
    *_, end = messages
    assert end["result"]["content"][0]["text"] == "done"


def test_a_client_that_did_not_say_that_it_can_ask_hears_so_on_the_stream(client, vendor):
    vendor.script = asks
    (end,) = messages_of(call_followed(client, meta={"progressToken": 1}))
    assert end["error"]["code"] == -32021


@pytest.mark.parametrize(("send", "is_cancelled"), [(modern, True), (old, False)])
def test_a_client_that_hangs_up_cancels_as_its_revision_has_it(client, vendor, send, is_cancelled):
    vendor.script = slow
    answer = call_followed(client, send, meta={"progressToken": 1})
    answer.close()
    call = Call.objects.get()
    assert (call.status == "finished") is is_cancelled
    assert call.error_code == ("CANCELLED" if is_cancelled else "")


def test_a_stream_that_has_ended_cancels_nothing(client):
    messages_of(call_followed(client, meta={"progressToken": 1}))
    assert Call.objects.get().outcome == "ok"


def test_a_call_that_lasts_longer_than_a_stream_is_told_to_be_running(client, vendor, monkeypatch):
    vendor.script = slow
    monkeypatch.setattr(streams, "MAX_STREAM_SECONDS", -1.0)
    answer = call_followed(client, meta={"progressToken": 1})
    body = b"".join(answer.streaming_content).decode()
    answer.close()
    assert "STILL_RUNNING" in body or "still running" in body
    assert Call.objects.get().status == "running"


def test_a_client_without_a_place_is_refused_before_the_call_is_written(client, monkeypatch):
    def full(*args):
        raise streams.NoRoomError

    monkeypatch.setattr(streams, "reserve_room", full)
    assert call_followed(client, meta={"progressToken": 1}).status_code == 503
    assert not Call.objects.exists()


def test_numbers_of_both_eras_are_answered(client):
    first = next(itertools.count(41))
    message = {
        "jsonrpc": "2.0",
        "id": first,
        "method": "tools/call",
        "params": {"name": "sky", "arguments": {}, "_meta": {"progressToken": 1}},
    }
    answer = post(client, message, **BOTH, **{"MCP-Protocol-Version": "2025-06-18"})
    assert messages_of(answer)[-1]["id"] == first
