"""A release as a server of ACP: agents are found, described and run."""

import json
import uuid

import pytest

from catalog.models import Call
from designer.agents import agents
from designer.pins import tunings
from designer.releases import publishing
from protocols.signature import Annotations
from tests.hostile_vendor import json_reply
from tests.serving.serve.test_mcp import lending
from tests.serving.test_calls import desk_with, runtime

__all__ = ["lending"]
pytestmark = pytest.mark.django_db
ROOT = "/serve/desk/live/acp"


@pytest.fixture
def client(owner, desk):
    return runtime(owner, desk[0])


def post(client, path, body=None):
    return client.post(f"{ROOT}{path}", body or {}, format="json")


def search_agents(client, **criteria):
    return post(client, "/agents/search", criteria).json()


def ran(client, **members):
    (agent,) = search_agents(client)
    return post(client, "/runs/wait", {"agent_id": agent["agent_id"], **members})


def test_an_agent_is_found_by_name_and_described(client):
    (agent,) = search_agents(client, limit=5)
    assert agent["metadata"]["ref"] == {
        "name": "sky",
        "version": "1.0.0",
        "url": "http://testserver/serve/desk/1/acp",
    }
    assert search_agents(client, name="sky") == [agent]
    assert search_agents(client, name="earth") == search_agents(client, offset=1) == []
    uuid.UUID(agent["agent_id"])
    assert client.get(f"{ROOT}/agents/{agent['agent_id']}").json() == agent
    described = client.get(f"{ROOT}/agents/{agent['agent_id']}/descriptor").json()
    assert described["metadata"] == agent["metadata"]
    assert set(described["specs"]["input"]["properties"]) == {"Zip_code", "days", "units", "trace"}
    streaming = {"values": True, "custom": False}
    can = {"threads": False, "interrupts": False, "callbacks": True, "streaming": streaming}
    assert described["specs"]["capabilities"] == can
    manifest = client.get(f"{ROOT}/agents/{agent['agent_id']}/manifest").json()
    (option,) = manifest["deployment"]["deployment_options"]
    assert option["protocol"]["authentication"] == {"type": "http", "scheme": "bearer"}


def test_the_version_follows_what_is_shown_and_not_the_release(owner, desk, client):
    agent, pin = desk
    agents.update_agent(agent, actor=owner, description="Only the agent's words.")
    publishing.publish(agent, actor=owner, channel="live")
    (same,) = search_agents(client)
    tunings.tune(pin, actor=owner, description="Another word for it.")
    publishing.publish(agent, actor=owner, channel="live")
    (other,) = search_agents(client)
    assert same["metadata"]["ref"]["version"] == "1.0.0"
    assert other["metadata"]["ref"]["version"] != "1.0.0"
    assert other["agent_id"] == same["agent_id"]


def test_a_run_is_waited_for_and_found_again(client, vendor):
    answer = ran(client, input={"Zip_code": "0150"}).json()
    assert answer["output"] == {"type": "result", "values": {"Sky_now": "fair"}}
    run = answer["run"]
    assert (run["status"], run["run_id"]) == ("success", str(Call.objects.get().key))
    again = client.get(f"{ROOT}/runs/{run['run_id']}/wait").json()
    assert again["output"] == answer["output"]
    assert client.get(f"{ROOT}/runs/{run['run_id']}").json()["agent_id"] == run["agent_id"]
    assert len(vendor.requests) == 1


def test_what_does_not_fit_is_422_with_a_sentence_and_sends_nothing(client, vendor):
    for members in ({"input": {"days": "many"}}, {"input": [1]}, {"input": {"Zip_code": 7}}):
        refused = ran(client, **members)
        assert refused.status_code == 422
        assert isinstance(refused.json(), str)
    assert post(client, "/agents/search", {"limit": 0}).status_code == 422
    assert post(client, "/runs/wait", {"agent_id": str(uuid.uuid4())}).status_code == 404
    assert client.get(f"{ROOT}/runs/{uuid.uuid4()}").status_code == 404
    assert client.get(f"{ROOT}/runs/1").status_code == 404
    below = client.post("/serve/desk/live/agents/nobody/acp/agents/search", {}, format="json")
    assert below.status_code == 404
    assert client.get(f"{ROOT}/threads").json() == "There is nothing at this address."
    broken = client.generic("POST", f"{ROOT}/runs", b"[", content_type="application/json")
    assert (broken.status_code, type(broken.json())) == (422, str)
    assert vendor.requests == []


def test_a_vendor_that_fails_is_an_output(client, vendor):
    vendor.script = json_reply({"message": "No."}, status=503)
    answer = ran(client, input={"Zip_code": "0150"}).json()
    assert (answer["run"]["status"], answer["output"]["type"], answer["output"]["errcode"]) == (
        "error",
        "error",
        2,
    )


def test_a_tool_that_destroys_is_confirmed_by_a_header(owner, vendor):
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True))
    client = runtime(owner, agent)
    unconfirmed = {"input": {"Zip_code": "0150"}}
    assert ran(client, **unconfirmed).status_code == 409
    client.credentials(**client._credentials, HTTP_PEGBOARD_CONFIRM="true")
    assert ran(client, **unconfirmed).status_code == 200
    assert len(vendor.requests) == 1


def test_an_interrupted_run_goes_on_with_the_answer(lending):
    # Clients use one name for each step of a run.
    lending.credentials(**lending._credentials, HTTP_IDEMPOTENCY_KEY="loan 1")
    stopped = ran(lending).json()
    assert stopped["run"]["status"] == "interrupted"
    assert stopped["output"]["interrupt"]["message"] == "Which branch?"
    answer = {"interrupt_type": "branch", "branch": "Mole End"}
    run = post(lending, f"/runs/{stopped['run']['run_id']}", answer).json()
    assert run["status"] == "success"
    assert post(lending, f"/runs/{stopped['run']['run_id']}", answer).json() == run
    ended = lending.get(f"{ROOT}/runs/{run['run_id']}/wait").json()
    assert "Mole End" in json.dumps(ended["output"]["values"])
