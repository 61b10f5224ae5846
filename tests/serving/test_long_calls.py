"""Calls without waiting: a worker runs them, and callers are notified of the end."""

import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from catalog.credentials import rate_limit
from catalog.models import Call
from core.outbound.session import HttpSession
from designer.models import Agent
from execution.calls import events, lease, queue, remote_runs
from execution.tasks import perform_call
from people.models import AuditEntry
from tests import forked_python
from tests.acp_runs import Runs
from tests.hostile_vendor import HostileVendor, json_reply, reply
from tests.serving.test_calls import ANSWER, GIVEN, desk_with, owner, runtime, url

__all__ = ["owner"]
pytestmark = pytest.mark.django_db(transaction=True)
ASYNC = GIVEN | {"mode": "async"}
PERFORM = (
    "import django, sys; django.setup(); "
    "from execution.calls import invocation; invocation.perform_due_calls()"
)


@pytest.fixture(autouse=True)
def short_looks(monkeypatch):
    monkeypatch.setattr(remote_runs, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(remote_runs, "POLL_SECONDS", 0.05)


@pytest.fixture
def runs():
    return Runs()


@pytest.fixture
def vendor(runs):
    with HostileVendor(runs) as running:
        yield running


@pytest.fixture
def client(owner, vendor):
    agent, _ = desk_with(owner, vendor, protocol="acp", outputs_rest={})
    return runtime(owner, agent)


def url_of(call: int, path: str = "") -> str:
    return f"/api/v1/agents/desk/calls/{call}/{path}"


def begin_call(client, **more) -> int:
    answer = client.post(url(), ASYNC | more)
    assert (answer.status_code, answer.json()["status"], answer.json()["outcome"]) == (202, "queued", None)
    return answer.json()["call"]


def let_go(call: int) -> None:
    """End the lease of the call, as time does."""
    Call.objects.filter(pk=call).update(gives_up_at=timezone.now() - timedelta(seconds=1), sent_at=None)


def test_a_run_is_started_once_and_looked_after_until_it_ends(client, runs):
    call = begin_call(client)
    perform_call(call)
    (run,) = runs.started
    assert client.get(url_of(call)).json()["status"] == "running"
    assert Call.objects.get().remote_run == run
    # While the lease lasts, no other worker may have it.
    perform_call(call)
    runs.end({"Sky now": "fair"})
    perform_call(call)
    assert client.get(url_of(call)).json()["status"] == "running"
    let_go(call)
    queue.sweep()
    perform_call(call)
    result = client.get(f"/api/v1/calls/{call}/").json()
    assert (result["outcome"], result["outputs"]) == ("ok", {"Sky_now": "fair"})
    assert (len(runs.started), runs.forgotten) == (1, [run])


def test_an_end_is_heard_by_those_who_wait_for_it(client, runs, monkeypatch):
    monkeypatch.setattr(queue, "LOOK_EVERY", 60.0)
    call = begin_call(client)
    replies = {}

    def waits():
        began = time.monotonic()
        replies["answer"] = client.get(url_of(call), {"wait": 30}).json()
        replies["took"] = time.monotonic() - began
        connection.close()

    thread = threading.Thread(target=waits)
    thread.start()
    runs.end({"Sky now": "fair"})
    time.sleep(0.3)
    perform_call(call)
    thread.join(30)
    assert replies["answer"]["outcome"] == "ok"
    assert replies["took"] < 25
    assert client.get(url_of(call), {"wait": 61}).json()["code"] == "invalid"
    assert client.get(url_of(call), {"wait": "long"}).status_code == 400


@pytest.mark.faults
@pytest.mark.parametrize("point", ["run-begun", "run-started"])
def test_a_run_whose_worker_was_killed_goes_on_with_the_next(client, runs, process_environment, point):
    call = begin_call(client)
    crash = {"CRASHPOINT": point, "DEBUG_CRASH": "1"}
    worker = forked_python.run("-c", PERFORM, str(call), env=process_environment | crash)
    assert worker.returncode == -signal.SIGKILL
    assert Call.objects.get().remote_run == ("" if point == "run-begun" else next(iter(runs.started)))
    runs.end({"Sky now": "fair"})
    let_go(call)
    queue.sweep()
    perform_call(call)
    assert client.get(url_of(call)).json()["outcome"] == "ok"
    assert len(runs.started) == 1


@pytest.mark.faults
def test_a_call_whose_worker_was_killed_is_a_doubt_where_no_run_is_kept(owner, process_environment):
    with HostileVendor(ANSWER) as vendor:
        agent, _ = desk_with(owner, vendor)
        client = runtime(owner, agent)
        call = begin_call(client)
        crash = {"CRASHPOINT": "call-answered", "DEBUG_CRASH": "1"}
        forked_python.run("-c", PERFORM, str(call), env=process_environment | crash)
        let_go(call)
        queue.sweep()
        perform_call(call)
        assert client.get(url_of(call)).json()["error"]["code"] == "WORKER_LOST"
    assert len(vendor.requests) == 1


def test_a_worker_that_died_before_anything_was_sent_leaves_a_doubt(client, runs):
    call = begin_call(client)
    Call.objects.update(status="running", started_at=timezone.now())
    let_go(call)
    perform_call(call)
    assert client.get(url_of(call)).json()["error"]["code"] == "WORKER_LOST"
    assert runs.started == {}


def test_a_run_that_takes_too_long_is_told_to_stop(client, runs):
    call = begin_call(client, deadline_seconds=1)
    perform_call(call)
    Call.objects.update(started_at=timezone.now() - timedelta(seconds=2))
    let_go(call)
    perform_call(call)
    result = client.get(url_of(call)).json()
    assert (result["outcome"], result["error"]["code"]) == ("unavailable", "DEADLINE")
    assert runs.stopped == list(runs.started)


def test_what_no_worker_looks_at_any_more_is_ended(client, runs):
    call = begin_call(client, deadline_seconds=5)
    perform_call(call)
    Call.objects.update(started_at=timezone.now() - timedelta(hours=1))
    let_go(call)
    queue.sweep()
    assert client.get(url_of(call)).json()["error"]["code"] == "WORKER_LOST"


def test_a_call_is_cancelled_before_it_is_sent(client, owner, runs):
    call = begin_call(client)
    result = client.post(url_of(call, "cancel/")).json()
    assert (result["outcome"], result["status"]) == ("cancelled", "finished")
    assert result["error"]["message"] == "The call was cancelled before anything was sent."
    perform_call(call)
    assert runs.started == {}
    entry = AuditEntry.objects.get(action="cancel")
    assert (entry.actor, entry.after["call"]) == (owner, call)
    assert client.post(url_of(call, "cancel/")).json() == result


def test_a_run_is_cancelled_at_its_vendor(client, runs):
    call = begin_call(client)
    perform_call(call)
    result = client.post(f"/api/v1/calls/{call}/cancel/").json()
    assert result["outcome"] == "cancelled"
    assert result["error"]["message"].endswith("its work. The vendor was notified.")
    assert runs.stopped == list(runs.started)
    runs.end({"Sky now": "fair"})
    let_go(call)
    perform_call(call)
    assert client.get(url_of(call)).json()["outcome"] == "cancelled"


def cancelled_while_it_begins(owner, script) -> dict:
    """Return the call's result then, once its worker has ended."""
    is_asked, goes_on = threading.Event(), threading.Event()

    def slow(line, request):
        if (request.method, request.path) == ("POST", "/runs"):
            is_asked.set()
            goes_on.wait(20)
        return script(line, request)

    with HostileVendor(slow) as vendor:
        agent, _ = desk_with(owner, vendor, protocol="acp", outputs_rest={})
        client = runtime(owner, agent)
        call = client.post(url(), ASYNC).json()["call"]
        worker = threading.Thread(target=lambda: (perform_call(call), connection.close()))
        worker.start()
        assert is_asked.wait(20)

        assert client.post(url_of(call, "cancel/")).json()["outcome"] == "cancelled"
        goes_on.set()
        worker.join(20)

    assert not worker.is_alive()
    return client.get(url_of(call)).json()


def test_a_run_that_begins_while_its_call_is_cancelled_is_stopped(owner, runs, monkeypatch):
    monkeypatch.setattr(remote_runs, "LATE_STARTS", [0.05] * 100)

    def slow(line, request):
        answered = runs(line, request)
        if runs.stopped:
            # So long that its worker learns of the end, too.
            time.sleep(1)
        return answered

    assert cancelled_while_it_begins(owner, slow)["outcome"] == "cancelled"
    assert runs.stopped == list(runs.started) != []


def test_a_run_is_stopped_once_though_its_worker_learns_of_the_end_meanwhile(owner, runs, monkeypatch):
    tell, untold = events.publish, []
    monkeypatch.setattr(events, "publish", lambda *event: untold.append(event))

    def slow(line, request):
        if request.path.endswith("/cancel"):
            while untold:
                tell(*untold.pop())
            time.sleep(1)
        return runs(line, request)

    assert cancelled_while_it_begins(owner, slow)["outcome"] == "cancelled"
    assert runs.stopped == list(runs.started) != []


def test_what_has_ended_is_not_cancelled(client, runs):
    runs.end({"Sky now": "fair"})
    call = begin_call(client)
    perform_call(call)
    refused = client.post(url_of(call, "cancel/"))
    assert (refused.status_code, refused.json()["code"]) == (409, "call_ended")
    assert client.get(url_of(call)).json()["outcome"] == "ok"


def test_a_worker_hangs_up_on_its_vendor_when_the_call_is_cancelled(owner):
    event = threading.Event()

    def slow(line, request):
        event.set()
        line.wait(60)

    with HostileVendor(slow) as vendor:
        agent, _ = desk_with(owner, vendor)
        client = runtime(owner, agent)
        call = begin_call(client)
        worker = threading.Thread(target=lambda: (perform_call(call), connection.close()))
        worker.start()
        assert event.wait(20)
        began = time.monotonic()
        assert client.post(url_of(call, "cancel/")).json()["outcome"] == "cancelled"
        worker.join(30)
        assert not worker.is_alive()
        assert time.monotonic() - began < 25
    assert len(vendor.requests) == 1


@pytest.mark.parametrize("mode", ["wait", "async"])
def test_nothing_is_sent_for_a_call_that_was_cancelled(owner, monkeypatch, mode):
    waits, goes_on = threading.Event(), threading.Event()
    turns = rate_limit.turn
    monkeypatch.setattr(lease, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(
        lease.LeasedCall, "sleep", lambda lease, seconds: (waits.set(), lease.session.sleep(60))
    )

    @contextmanager
    def late_turn(*limits):
        waits.set()
        assert goes_on.wait(20)
        with turns(*limits):
            yield

    with HostileVendor(reply(status=503)) as vendor:
        agent, _ = desk_with(owner, vendor)
        client = runtime(owner, agent)

        def make():
            answer = client.post(url(), GIVEN | {"mode": mode}).json()
            if mode == "async":
                perform_call(answer["call"])
            connection.close()

        for sent_count in (1, 0):
            vendor.requests.clear()
            waits.clear()
            goes_on.clear()
            if not sent_count:
                monkeypatch.setattr(rate_limit, "turn", late_turn)
                # Of one that is waited for, what was seen half a second ago holds.
                monkeypatch.setattr(lease, "FRESH_SECONDS", 0.0 if mode == "wait" else 60.0)
            maker = threading.Thread(target=make)
            maker.start()
            assert waits.wait(20)
            newest = Call.objects.latest("pk").pk
            assert client.post(url_of(newest, "cancel/")).json()["outcome"] == "cancelled"
            goes_on.set()
            maker.join(20)
            assert not maker.is_alive()
            assert (len(vendor.requests), client.get(url_of(newest)).json()["outcome"]) == (
                sent_count,
                "cancelled",
            )


CALLED_TOOL = {"name": "Sky", "inputSchema": {"type": "object"}}


ASK = HttpSession._send_and_read


def in_haste(session, request, target):
    # Not what comes before the tool, which a busy machine may take longer for.
    if b'"tools/call"' in (request.content or b""):
        session._limits = replace(session._limits, request=0.3)
    return ASK(session, request, target)


def to_posts(script):
    """A vendor that has no stream beside those of its calls."""

    def answers(line, request):
        return script(line, request) if request.method != "GET" else reply(b"", status=405)(line, request)

    return answers


@pytest.mark.parametrize("ended_by", ["cancel", "deadline"])
@pytest.mark.parametrize(("era", "mode"), [("modern", "wait"), ("handshake", "async"), ("handshake", "wait")])
def test_a_vendor_of_mcp_is_told_that_a_call_is_not_wanted(owner, monkeypatch, era, mode, ended_by):
    event = threading.Event()
    monkeypatch.setattr(lease, "CHECK_SECONDS", 0.1)

    def answers(line, request):
        message, headers = request.json(), {}
        if era == "handshake" and "mcp-method" in request.headers:
            error = {"code": -32000, "message": "Server not initialized"}
            refused = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
            return json_reply(refused, status=400)(line, request)
        if message["method"] == "tools/call":
            event.set()
            return line.wait(20)
        if "id" not in message:
            return reply(b"", status=202)(line, request)
        result = {"tools": [CALLED_TOOL]}
        if message["method"] == "initialize":
            headers = {"Mcp-Session-Id": "s-1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)(
            line, request
        )

    with HostileVendor(to_posts(answers)) as vendor:
        agent, _ = desk_with(owner, vendor, protocol="mcp")
        client, last_answer = runtime(owner, agent), {}
        if ended_by == "deadline":
            monkeypatch.setattr(HttpSession, "_send_and_read", in_haste)

        def make():
            answer = client.post(url(), GIVEN | {"mode": mode}).json()
            if mode == "async":
                perform_call(answer["call"])
            last_answer.update(client.get(url_of(answer["call"])).json())
            connection.close()

        maker = threading.Thread(target=make)
        maker.start()
        assert event.wait(20)
        if ended_by == "cancel":
            cancelled = client.post(url_of(Call.objects.get().pk, "cancel/")).json()
            assert cancelled["error"]["message"].endswith("The vendor is being notified.")
        maker.join(20)
    assert last_answer["outcome"] == ("cancelled" if ended_by == "cancel" else "unavailable")
    (tool_call,) = (
        request for request in vendor.requests if b'"tools/call"' in request.body and request.json().get("id")
    )
    last = vendor.requests[-1]
    assert last.json()["method"] == "notifications/cancelled"
    assert last.json()["params"]["requestId"] == tool_call.json()["id"]
    same = "mcp-protocol-version", "mcp-session-id"
    assert [last.headers.get(name) for name in same] == [tool_call.headers.get(name) for name in same]
    assert last.headers.get("mcp-method") == ("notifications/cancelled" if era == "modern" else None)
    assert "mcp-name" not in last.headers
    # Without sessions the request id alone identifies the call.
    assert (tool_call.json()["id"] > 2**12) == (era == "modern")


def test_a_call_of_another_key_is_not_there(client, owner, runs):
    call = begin_call(client)
    other = runtime(owner, Agent.objects.get())
    for address in (url_of(call), url_of(call, "cancel/"), f"/api/v1/calls/{call}/"):
        ask = other.post if address.endswith("cancel/") else other.get
        assert ask(address).status_code == 404
    assert Call.objects.get().status == "queued"


def test_how_long_a_call_may_take_depends_on_how_it_is_made(client):
    refused = client.post(url(), GIVEN | {"deadline_seconds": 121})
    assert refused.json()["fields"].keys() == {"deadline_seconds"}
    assert client.post(url(), ASYNC | {"deadline_seconds": 86_401}).status_code == 400
    begin_call(client, deadline_seconds=86_400)


def test_events_are_no_more_than_a_hint(client, runs, monkeypatch):
    monkeypatch.setattr(events, "publish", lambda *event: None)
    monkeypatch.setattr(queue, "LOOK_EVERY", 0.1)
    runs.end({"Sky now": "fair"})
    call = begin_call(client)
    perform_call(call)
    assert client.get(url_of(call), {"wait": 5}).json()["outcome"] == "ok"
