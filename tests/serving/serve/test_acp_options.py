"""Options of an ACP run beside its input: done, or refused with a message."""

import json
import socket
import threading

import pytest

from catalog.models import Call
from execution.calls import lease
from people.models import AuditEntry
from protocols.acp.server import runs
from tests.serving.serve.test_acp import ROOT, post, search_agents
from tests.serving.serve.test_acp_runs import begin_run
from tests.serving.serve.test_mcp import lending
from tests.serving.test_calls import ANSWER, desk, owner, runtime, vendor

__all__ = ["lending"]
__all__ = ["desk", "owner", "vendor"]
pytestmark = pytest.mark.django_db(transaction=True)
RUN = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def client(owner, vendor, desk):
    return runtime(owner, desk[0])


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/runs", "/runs/wait", "/runs/stream", f"/threads/{RUN}/runs/wait"])
@pytest.mark.parametrize(
    ("members", "expected_start"),
    [
        ({"on_disconnect": "bad"}, "“on_disconnect” must be one of: cancel, continue."),
        ({"on_disconnect": ["cancel"]}, "“on_disconnect” must be one of: cancel, continue."),
        ({"multitask_strategy": "zz"}, "“multitask_strategy” must be one of: reject, "),
        ({"multitask_strategy": "enqueue"}, "“multitask_strategy” can only be “reject”"),
        ({"on_completion": "zz"}, "“on_completion” must be one of: delete, keep."),
        ({"if_not_exists": "zz"}, "“if_not_exists” must be one of: create, reject."),
        ({"stream_mode": "zz"}, "“stream_mode” must be one of: values, custom."),
        ({"stream_mode": ["values", 7]}, "“stream_mode” must be one of: values, custom."),
        ({"stream_mode": "custom"}, "“stream_mode” can only be “values”"),
        ({"stream_mode": ["values", "custom"]}, "“stream_mode” can only be “values”"),
        ({"stream_subgraphs": 1}, "“stream_subgraphs” must be true or false."),
        ({"stream_subgraphs": True}, "“stream_subgraphs” is not supported"),
        ({"after_seconds": "5"}, "“after_seconds” must be a whole number."),
        ({"after_seconds": True}, "“after_seconds” must be a whole number."),
        ({"after_seconds": 5}, "“after_seconds” is not supported: a run starts immediately."),
        ({"config": {"recursion_limit": 5}}, "“config.recursion_limit” is not supported"),
        ({"config": {"tags": "one"}}, "“config.tags” must be an array of texts."),
        ({"config": 5}, "“config"),
        ({"metadata": 5}, "“metadata” must be an object."),
    ],
)
def test_what_is_not_offered_is_refused_and_nothing_is_sent(client, vendor, path, members, expected_start):
    refused = begin_run(client, path, **members)
    assert refused.status_code == 422
    assert refused.json().startswith(expected_start)
    assert (Call.objects.count(), vendor.requests) == (0, [])


@pytest.mark.parametrize(
    "members",
    [
        {"on_disconnect": "continue", "multitask_strategy": "reject", "on_completion": "delete"},
        {"on_disconnect": "cancel", "on_completion": "keep", "if_not_exists": "reject", "after_seconds": 0},
        {"stream_mode": "values", "stream_subgraphs": False, "config": {"tags": ["one"]}, "metadata": {}},
        {"stream_mode": ["values"], "config": {"configurable": {}}, "webhook": None},
        {"on_disconnect": None, "multitask_strategy": None, "stream_mode": None, "after_seconds": None},
    ],
)
def test_what_is_done_anyway_may_be_said(client, members):
    assert begin_run(client, "/runs/wait", **members).json()["run"]["status"] == "success"


def test_a_run_whose_end_is_told_by_a_webhook_goes_on_and_says_so(client):
    members = {"webhook": "https://listener.example/", "on_disconnect": "cancel"}
    refused = begin_run(client, "/runs/wait", **members)
    assert (refused.status_code, "on_disconnect" in refused.json()) == (422, True)


def test_a_run_is_cancelled_and_not_rolled_back(client):
    run = begin_run(client).json()["run_id"]
    for query, expected_start in (
        ("action=zz", "“action” must be one of: interrupt, rollback."),
        ("action=rollback", "“action” can only be “interrupt”"),
        ("wait=zz", "“wait” must be true or false."),
    ):
        refused = post(client, f"/runs/{run}/cancel?{query}")
        assert (refused.status_code, refused.json().startswith(expected_start)) == (422, True)
    assert post(client, f"/runs/{run}/cancel?action=interrupt&wait=true").status_code == 204


def test_runs_are_searched_by_what_they_are_too(client):
    mark = {"metadata": {"call_id": "one"}}
    run = begin_run(client, **mark).json()
    for criteria, count in (
        ({"status": "pending", "agent_id": run["agent_id"]}, 1),
        ({"status": "success"}, 0),
        ({"agent_id": RUN}, 0),
        ({"offset": 1}, 0),
    ):
        assert len(post(client, "/runs/search", mark | criteria).json()) == count
    for bad in ({"status": "zz"}, {"limit": 0}):
        assert post(client, "/runs/search", mark | bad).status_code == 422


@pytest.fixture
def line(client, vendor, monkeypatch):
    """A connection as the web server passes it to a request: the server's end, and the client's."""
    monkeypatch.setattr(lease, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(runs, "CHECK_SECONDS", 0.05)
    server_socket, client_socket = socket.socketpair()
    client.defaults["gunicorn.socket"] = server_socket
    yield client_socket
    server_socket.close()
    client_socket.close()
    for thread in threading.enumerate():
        if thread.name in ("call", "left", "watch"):
            thread.join(20)


def hung_up(line, seconds):
    def script(row, request):
        line.close()
        row.wait(seconds)
        return ANSWER(row, request)

    return script


@pytest.mark.parametrize("members", [{}, {"on_disconnect": "cancel"}])
def test_a_run_that_is_waited_for_is_cancelled_once_its_client_has_left(client, line, vendor, members):
    vendor.script = hung_up(line, 10)
    begin_run(client, "/runs/wait", **members)
    assert Call.objects.get().error_code == "CANCELLED"
    assert "The client hung up." in AuditEntry.objects.get(action="cancel").why


def test_a_run_goes_on_without_its_client_where_it_shall(client, line, vendor):
    vendor.script = hung_up(line, 0.5)
    begin_run(client, "/runs/wait", on_disconnect="continue")
    assert Call.objects.get().outcome == "ok"


@pytest.mark.parametrize(("members", "code"), [({}, "CANCELLED"), ({"on_disconnect": "continue"}, "")])
def test_a_run_that_is_streamed_is_cancelled_too(client, line, members, code):
    answer = begin_run(client, "/runs/stream", **members)
    parts = iter(answer.streaming_content)
    assert b'"pending"' in next(parts)
    line.close()
    if code:
        assert list(parts) == []
    answer.close()
    assert Call.objects.get().error_code == code
    run = Call.objects.get().key
    followed = client.get(f"{ROOT}/runs/{run}/stream")
    next(iter(followed.streaming_content))
    followed.close()
    assert Call.objects.get().error_code == code, "who follows a run is not who began it"


def test_a_stream_that_the_server_closes_leaves_its_run_alone(client, line):
    answer = begin_run(client, "/runs/stream")
    next(iter(answer.streaming_content))
    answer.close()
    assert Call.objects.get().is_active


def test_a_stream_that_lasts_too_long_ends_and_its_run_does_not(client, monkeypatch):
    monkeypatch.setattr("serving.streams.MAX_STREAM_SECONDS", 0.0)
    answer = begin_run(client, "/runs/stream")
    assert b'"pending"' in b"".join(answer.streaming_content)
    answer.close()
    assert Call.objects.get().is_active


def test_a_tool_whose_vendor_may_ask_says_so(lending):
    (agent,) = search_agents(lending)
    specs = lending.get(f"{ROOT}/agents/{agent['agent_id']}/descriptor").json()["specs"]
    assert specs["capabilities"]["interrupts"] is True
    (kind,) = specs["interrupts"]
    stopped = post(lending, "/runs/wait", {"agent_id": agent["agent_id"]}).json()
    interrupt = stopped["output"]["interrupt"]
    assert interrupt["interrupt_type"] == kind["interrupt_type"] == "question"
    assert set(interrupt) - {"interrupt_type"} <= set(kind["interrupt_payload"]["properties"])
    assert interrupt["schema"]["properties"]["branch"]
    answer = {"interrupt_type": "question", "branch": "Mole End"}
    run = post(lending, f"/runs/{stopped['run']['run_id']}", answer).json()
    ended = lending.get(f"{ROOT}/runs/{run['run_id']}/wait").json()
    assert "Mole End" in json.dumps(ended["output"]["values"])
