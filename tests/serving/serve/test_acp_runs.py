"""Runs of a served ACP agent that are not waited for: found again, streamed, cancelled."""

import json
import threading
import uuid

import msgspec
import pytest
from django.db import connection

from catalog.models import Call
from catalog.models.calls import Result, StoredQuestion
from catalog.notifications import callbacks
from catalog.notifications.models import Callback
from execution.calls import places
from execution.calls.places import CallPlaces, Holder
from execution.tasks import perform_call
from tests.catalog.notifications.receivers import receiver
from tests.serving.serve.test_acp import ROOT, post, search_agents
from tests.serving.test_calls import runtime

pytestmark = pytest.mark.django_db(transaction=True)
GIVEN = {"input": {"Zip_code": "0150"}}


@pytest.fixture
def client(owner, desk):
    return runtime(owner, desk[0])


def begin_run(client, path="/runs", **more):
    (agent,) = search_agents(client)
    return post(client, path, {"agent_id": agent["agent_id"], **GIVEN, **more})


def test_a_run_is_begun_and_waited_for_later(client, vendor):
    run = begin_run(client).json()
    assert run["status"] == "pending"
    assert client.get(f"{ROOT}/runs/{run['run_id']}").json()["status"] == "pending"
    perform_call(Call.objects.get().pk)
    ended = client.get(f"{ROOT}/runs/{run['run_id']}/wait").json()
    assert (ended["run"]["status"], ended["output"]["values"]) == ("success", {"Sky_now": "fair"})
    assert len(vendor.requests) == 1


def test_a_run_is_made_once_by_its_mark_and_found_by_it(client, vendor):
    mark = {"metadata": {"call_id": str(uuid.uuid4())}}
    first, again = begin_run(client, **mark).json(), begin_run(client, **mark).json()
    assert first["run_id"] == again["run_id"]
    (same,) = post(client, "/runs/search", mark).json()
    assert (same["run_id"], same["creation"]["metadata"]) == (first["run_id"], mark["metadata"])
    assert post(client, "/runs/search", {"metadata": {"call_id": "another"}}).json() == []
    assert post(client, "/runs/search").json() == []
    assert Call.objects.count() == 1


@pytest.mark.parametrize(
    ("outcome", "questions", "status"),
    [("needs_input", 1, "interrupted"), ("needs_input", 2, "error"), ("needs_authorization", 0, "error")],
)
def test_a_client_and_its_webhook_are_told_the_same_status(client, vendor, outcome, questions, status):
    run_id = begin_run(client).json()["run_id"]
    result = Result(asks=[StoredQuestion(f"q{i}", "Which?") for i in range(questions)], resume={})
    Call.objects.update(outcome=outcome, status="finished", result=msgspec.json.encode(result).decode())
    callback = Callback(call=Call.objects.get(), run_of=str(uuid.uuid4()))
    assert json.loads(callbacks.body(callback))["status"] == status
    assert client.get(f"{ROOT}/runs/{run_id}").json()["status"] == status


def test_a_run_is_cancelled(client, vendor):
    run = begin_run(client).json()["run_id"]
    assert post(client, f"/runs/{run}/cancel").status_code == 204
    assert client.get(f"{ROOT}/runs/{run}").json()["status"] == "error"
    assert "cancelled" in client.get(f"{ROOT}/runs/{run}/wait").json()["output"]["description"]
    assert post(client, f"/runs/{uuid.uuid4()}/cancel").status_code == 404
    assert vendor.requests == []


def test_a_run_is_streamed_to_its_end(client, vendor):
    answer = begin_run(client, "/runs/stream")
    call = Call.objects.get()
    worker = threading.Thread(target=lambda: (perform_call(call.pk), connection.close()))
    worker.start()
    body = b"".join(answer.streaming_content).decode()
    answer.close()
    worker.join(20)
    data = [json.loads(line.removeprefix("data: ")) for line in body.split("\n") if line.startswith("data")]
    assert [(event["type"], event["status"]) for event in data] == [
        ("values", "pending"),
        ("values", "success"),
    ]
    assert data[-1]["values"] == {"Sky_now": "fair"}
    assert {event["run_id"] for event in data} == {str(call.key)}
    again = client.get(f"{ROOT}/runs/{call.key}/stream")
    assert b'"success"' in b"".join(again.streaming_content)
    again.close()


def test_the_end_of_a_run_is_posted_to_its_webhook(client, vendor, monkeypatch):
    monkeypatch.setattr("protocols.acp.server.runs.WAIT_SECONDS", 0.0)
    with receiver() as listener:
        for path in ("/runs", "/runs/wait"):
            answer = begin_run(client, path, webhook=listener.url)
            call = Call.objects.latest("pk")
            perform_call(call.pk)
            callbacks.send(str(Callback.objects.get(call=call).pk))
            headers, body = listener.requests[-1]
            run = answer.json().get("run", answer.json())
            assert answer["Pegboard-Callback-Secret"].startswith("whsec_")
            posted = json.loads(body)
            assert (posted["run_id"], posted["agent_id"], posted["status"]) == (
                str(call.key),
                run["agent_id"],
                "success",
            )
            assert headers["webhook-signature"]
    for bad in ("nowhere", 7, "ftp://vendor.example/"):
        refused = begin_run(client, webhook=bad)
        assert (refused.status_code, type(refused.json())) == (422, str)
    assert Call.objects.count() == 2


def test_a_run_that_cannot_be_followed_is_not_begun(client, vendor, monkeypatch):
    monkeypatch.setattr(places, "ROOM_SECONDS", 0.01)
    monkeypatch.setattr(places, "_places", CallPlaces(1))
    monkeypatch.setattr("protocols.acp.server.runs.WAIT_SECONDS", 0.01)
    payload = {"webhook": "https://listener.example/", "metadata": {"call_id": "one"}}
    with places.room(Holder(None, "another")):
        for path, more in (("/runs/stream", {}), ("/runs/wait", payload)):
            refused = begin_run(client, path, **more)
            assert (refused.status_code, type(refused.json())) == (503, str)
        assert Call.objects.count() == 0
    waited = begin_run(client, "/runs/wait", **payload)  # in the only place there is
    run = waited.json()["run"]["run_id"]
    assert waited["Pegboard-Callback-Secret"].startswith("whsec_")
    with places.room(Holder(None, "another")):
        for path in ("wait", "stream"):
            busy = client.get(f"{ROOT}/runs/{run}/{path}")
            assert (busy.status_code, type(busy.json())) == (503, str)
    begin_run(client, "/runs/stream").close()
    with places.room(Holder(None, "another")):
        assert Call.objects.count() == 2
