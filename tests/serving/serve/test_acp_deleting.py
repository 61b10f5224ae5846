"""Runs of a served ACP agent that their client deletes: gone for the client, kept for everybody else."""

import uuid

import pytest

from catalog.models import Call
from execution.tasks import perform_call
from people.models import ApiKey, AuditEntry
from tests.clients import client_of
from tests.serving.serve.test_acp import ROOT, post, search_agents
from tests.serving.serve.test_acp_runs import begin_run, client
from tests.serving.serve.test_mcp import lending
from tests.serving.serve.test_own_agents import inner, runs
from tests.serving.test_calls import desk_with, runtime
from tests.serving.test_questions_on_streams import Asking, question

__all__ = ["client", "inner", "lending", "runs"]
pytestmark = pytest.mark.django_db


def deleted(client, path):
    return client.delete(f"{ROOT}{path}")


def is_gone(client, run):
    responses = [client.get(f"{ROOT}/runs/{run}{below}") for below in ("", "/wait", "/stream")]
    responses += [post(client, f"/runs/{run}{below}") for below in ("", "/cancel")]
    return {answer.status_code for answer in responses} == {404}


def test_a_run_that_was_deleted_is_found_by_its_client_no_more(owner, client, vendor):
    mark = {"metadata": {"call_id": "one"}}
    run = begin_run(client, "/runs/wait", **mark).json()["run"]["run_id"]
    answer = deleted(client, f"/runs/{run}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert is_gone(client, run)
    assert post(client, "/runs/search", mark).json() == []
    assert deleted(client, f"/runs/{run}").status_code == 404
    assert len(vendor.requests) == 1


def test_pages_rest_and_the_audit_trail_keep_it(owner, client, vendor):
    run = begin_run(client, "/runs/wait").json()["run"]["run_id"]
    assert deleted(client, f"/runs/{run}").status_code == 204
    call = Call.objects.get()
    assert (str(call.key), call.outcome) == (run, "ok")
    assert client.get(f"/api/v1/agents/desk/calls/{call.pk}/").json()["outcome"] == "ok"
    assert client_of(owner).get(f"/api/v1/calls/{call.pk}/").json()["outcome"] == "ok"
    entry = AuditEntry.objects.get(action="remove run")
    assert (entry.after, entry.agent) == ({"call": call.pk}, call.agent)


def test_a_run_that_is_under_way_is_cancelled(client, vendor):
    run = begin_run(client).json()["run_id"]
    assert deleted(client, f"/runs/{run}").status_code == 204
    call = Call.objects.get()
    assert (call.outcome, is_gone(client, run)) == ("cancelled", True)
    perform_call(call.pk)
    assert vendor.requests == []


def test_a_run_that_was_deleted_is_not_made_again_by_its_mark(client, vendor):
    mark = {"metadata": {"call_id": "one"}}
    run = begin_run(client, "/runs/wait", **mark).json()["run"]["run_id"]
    deleted(client, f"/runs/{run}")
    for path in ("/runs", "/runs/wait", "/runs/stream"):
        again = begin_run(client, path, **mark)
        assert (again.status_code, type(again.json())) == (409, str)
    assert len(vendor.requests) == 1


def test_a_run_goes_with_all_its_steps(lending):
    stopped = post(lending, "/runs/wait", {"agent_id": search_agents(lending)[0]["agent_id"]}).json()["run"]
    post(lending, f"/runs/{stopped['run_id']}", {"interrupt_type": "question", "branch": "Mole End"})
    first, second = Call.objects.order_by("pk")
    assert deleted(lending, f"/runs/{first.key}").status_code == 204
    assert is_gone(lending, first.key)
    assert is_gone(lending, second.key)


@pytest.mark.django_db(transaction=True)
def test_a_vendor_that_waits_for_an_answer_is_told_that_none_comes(owner, vendor):
    vendor.script = Asking(question())
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())
    client = runtime(owner, agent)
    stopped = post(client, "/runs/wait", {"agent_id": search_agents(client)[0]["agent_id"]}).json()
    assert stopped["output"]["type"] == "interrupt"
    assert deleted(client, f"/runs/{stopped['run']['run_id']}").status_code == 204
    assert "notifications/cancelled" in vendor.script.others


def test_a_deleted_run_does_not_go_on_once_its_user_has_authorized_it(client, vendor):
    run = begin_run(client, "/runs/wait").json()["run"]["run_id"]
    Call.objects.update(resumes_when_granted=True)
    deleted(client, f"/runs/{run}")
    assert not Call.objects.get().resumes_when_granted


def test_a_run_is_deleted_from_its_thread(inner, runs):
    thread = post(inner, "/threads", {}).json()["thread_id"]
    path = f"/threads/{thread}/runs"
    (agent,) = search_agents(inner)
    payload = {"agent_id": agent["agent_id"], "input": {"about": "figs"}}
    remaining_run, deleted_run = (
        post(inner, f"{path}/wait", payload).json()["run"]["run_id"] for _ in range(2)
    )
    assert deleted(inner, f"/threads/{uuid.uuid4()}/runs/{deleted_run}").status_code == 404
    assert deleted(inner, f"{path}/{deleted_run}").status_code == 204
    assert [run["run_id"] for run in inner.get(f"{ROOT}{path}").json()] == [remaining_run]
    assert inner.get(f"{ROOT}{path}/{deleted_run}").status_code == 404
    assert is_gone(inner, deleted_run)
    assert deleted(inner, f"{path}/{deleted_run}").status_code == 404
    # Its output stays in the thread, at the vendor.
    assert inner.get(f"{ROOT}/threads/{thread}").json()["values"] == {"told": [{"about": "figs"}] * 2}


def test_a_run_is_deleted_by_the_key_that_made_it_while_it_may_run_tools(owner, desk, client, vendor):
    run = begin_run(client, "/runs/wait").json()["run"]["run_id"]
    assert deleted(runtime(owner, desk[0]), f"/runs/{run}").status_code == 404
    assert deleted(client, f"/runs/{uuid.uuid4()}").status_code == 404
    ApiKey.objects.update(scopes=["runtime"])
    assert deleted(client, f"/runs/{run}").status_code == 403
    assert client.get(f"{ROOT}/runs/{run}").status_code == 200
