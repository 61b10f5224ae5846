"""Runs of a served ACP agent that are not waited for: found again, streamed, cancelled."""

import json
import threading
import uuid

import pytest
from django.db import connection

from catalog.models import Call
from catalog.tasks import perform_call
from tests.executor.serve.test_acp import ROOT, found, post
from tests.executor.test_calls import runtime

pytestmark = pytest.mark.django_db(transaction=True)
GIVEN = {"input": {"Zip_code": "0150"}}


@pytest.fixture
def client(owner, desk):
    return runtime(owner, desk[0])


def begun(client, path="/runs", **more):
    (agent,) = found(client)
    return post(client, path, {"agent_id": agent["agent_id"], **GIVEN, **more})


def test_a_run_is_begun_and_waited_for_later(client, vendor):
    run = begun(client).json()
    assert run["status"] == "pending"
    assert client.get(f"{ROOT}/runs/{run['run_id']}").json()["status"] == "pending"
    perform_call(Call.objects.get().pk)
    ended = client.get(f"{ROOT}/runs/{run['run_id']}/wait").json()
    assert (ended["run"]["status"], ended["output"]["values"]) == ("success", {"Sky_now": "fair"})
    assert len(vendor.requests) == 1


def test_a_run_is_made_once_by_its_mark_and_found_by_it(client, vendor):
    mark = {"metadata": {"call_id": str(uuid.uuid4())}}
    first, again = begun(client, **mark).json(), begun(client, **mark).json()
    assert first["run_id"] == again["run_id"]
    (same,) = post(client, "/runs/search", mark).json()
    assert (same["run_id"], same["creation"]["metadata"]) == (first["run_id"], mark["metadata"])
    assert post(client, "/runs/search", {"metadata": {"call_id": "another"}}).json() == []
    assert post(client, "/runs/search").json() == []
    assert Call.objects.count() == 1


def test_a_run_is_cancelled(client, vendor):
    run = begun(client).json()["run_id"]
    assert post(client, f"/runs/{run}/cancel").status_code == 204
    assert client.get(f"{ROOT}/runs/{run}").json()["status"] == "error"
    assert "cancelled" in client.get(f"{ROOT}/runs/{run}/wait").json()["output"]["description"]
    assert post(client, f"/runs/{uuid.uuid4()}/cancel").status_code == 404
    assert vendor.requests == []


def test_a_run_is_streamed_to_its_end(client, vendor):
    answer = begun(client, "/runs/stream")
    call = Call.objects.get()
    worker = threading.Thread(target=lambda: (perform_call(call.pk), connection.close()))
    worker.start()
    body = b"".join(answer.streaming_content).decode()
    answer.close()
    worker.join(20)
    data = [json.loads(line.removeprefix("data: ")) for line in body.split("\n") if line.startswith("data")]
    assert [(each["type"], each["status"]) for each in data] == [("values", "pending"), ("values", "success")]
    assert data[-1]["values"] == {"Sky_now": "fair"}
    assert {each["run_id"] for each in data} == {str(call.key)}
    again = client.get(f"{ROOT}/runs/{call.key}/stream")
    assert b'"success"' in b"".join(again.streaming_content)
    again.close()
