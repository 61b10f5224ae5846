"""Questions that a served ACP agent declares, where an activity replaces its vendor."""

import pytest

from designer.agents import agents
from designer.environments import environments, mocks
from designer.pins import pins
from designer.releases import publishing
from execution.activities import operations
from people.models import ApiKey
from protocols.acp.client import ACP
from protocols.mcp.client import MCP
from tests.execution.activities.test_steps import make_activity, make_version, step_of
from tests.factories import make_endpoint, make_signature, make_tool
from tests.serving.serve.test_acp import ROOT, post, search_agents
from tests.serving.serve.test_mcp import library
from tests.serving.serve.test_own_agents import AGENT
from tests.serving.test_calls import desk_with, runtime

pytestmark = pytest.mark.django_db
TELL = make_signature("tell", inputs=(), outputs=())


@pytest.fixture
def place(desk, owner):
    return environments.create(desk[0], actor=owner, name="test")


def within(place, owner):
    """A key whose tools run in this environment."""
    key_client = runtime(owner, place.agent)
    ApiKey.objects.filter(name="Desk key").update(environment=place.name)
    return key_client


def specs(client):
    (agent,) = search_agents(client)
    specs = client.get(f"{ROOT}/agents/{agent['agent_id']}/descriptor").json()["specs"]
    assert specs["capabilities"]["interrupts"] is ("interrupts" in specs)
    manifest = client.get(f"{ROOT}/agents/{agent['agent_id']}/manifest").json()["specs"]
    assert manifest == specs
    return specs


def kinds(client):
    return [interrupt_kind["interrupt_type"] for interrupt_kind in specs(client).get("interrupts", [])]


def bound(pin, place, owner, activity):
    environments.bind(place, pin.tool, actor=owner, activity=activity)
    return within(place, owner)


def bound_mock(pin, place, owner, **switches):
    mocked = mocks.save(pin, actor=owner, config={"examples": [{"outputs": {"Sky now": "rain"}}]})
    if switches:
        mocks.switch(pin, actor=owner, switches=switches)
    return bound(pin, place, owner, mocked.activity)


def test_a_mock_that_asks_declares_its_question_where_it_answers(desk, place, owner):
    client = bound_mock(desk[1], place, owner, interrupt=True)
    (declared,) = specs(client)["interrupts"]
    assert declared["interrupt_type"] == "question"
    (agent,) = search_agents(client)
    body = post(client, "/runs/wait", {"agent_id": agent["agent_id"], "input": {"Zip_code": "0150"}}).json()
    assert body["output"]["interrupt"]["interrupt_type"] == "question"
    answer = {"interrupt_type": "question", "approved": True}
    assert post(client, f"/runs/{body['run']['run_id']}", answer).json()["status"] == "success"

    ApiKey.objects.update(environment="")

    assert kinds(client) == []


def test_a_mock_that_does_not_ask_declares_nothing(desk, place, owner):
    client = bound_mock(desk[1], place, owner, not_found=True)
    assert kinds(client) == []
    mocks.switch(desk[1], actor=owner, switches={"interrupt": False})
    assert kinds(client) == []


def test_a_mock_of_an_agent_declares_what_it_asks_and_not_what_its_vendor_would(owner):
    tool = make_tool(ACP().read(AGENT), endpoint=make_endpoint(url="http://127.0.0.1:9", protocol="acp"))
    agent = agents.create_agent(actor=owner, name="desk", slug="desk")
    pin = pins.pin_tool(agent, actor=owner, tool=tool, alias="letters")
    publishing.publish(agent, actor=owner, channel="live")
    assert kinds(runtime(owner, agent)) == ["approval"]
    place = environments.create(agent, actor=owner, name="test")
    mocked = mocks.save(pin, actor=owner, config={"examples": [{"outputs": {"letter": "Dear all"}}]})
    client = bound(pin, place, owner, mocked.activity)
    assert kinds(client) == []

    mocks.switch(pin, actor=owner, switches={"interrupt": True})

    assert kinds(client) == ["question"]
    (found_agent,) = search_agents(client)
    response = post(client, "/runs/wait", {"agent_id": found_agent["agent_id"], "input": {"about": "figs"}})
    assert response.json()["output"]["interrupt"]["interrupt_type"] == "question"
    answer = {"interrupt_type": "question", "approved": True}
    assert post(client, f"/runs/{response.json()['run']['run_id']}", answer).json()["status"] == "success"


@pytest.mark.parametrize("kind", ["vendor", "composite"])
def test_an_activity_declares_what_the_tools_that_it_calls_may_ask(kind, desk, place, owner, vendor):
    _, pin = desk
    quiet = make_version(vendor.url, "", "weather", name="quiet")
    lends = make_tool(TELL, endpoint=make_endpoint(url=vendor.url, protocol="mcp")).current
    silent = make_activity(kind, [step_of(quiet)], {"Sky now": {"step": 1, "output": "weather"}})
    client = bound(pin, place, owner, silent)
    assert kinds(client) == []
    outputs = {"Sky now": {"value": "fair"}}
    asking = make_activity(kind, [step_of(lends)], outputs)

    environments.bind(place, pin.tool, actor=owner, activity=asking)

    assert kinds(client) == ["question"]
    vendor.script = library
    (agent,) = search_agents(client)
    body = post(client, "/runs/wait", {"agent_id": agent["agent_id"], "input": {"Zip_code": "0150"}}).json()
    assert body["output"]["interrupt"]["message"] == "Which branch?"
    assert body["output"]["interrupt"]["interrupt_type"] == "question"
    answer = {"interrupt_type": "question", "branch": "Mole End"}
    assert post(client, f"/runs/{body['run']['run_id']}", answer).json()["status"] == "success"


def test_an_activity_declares_what_a_step_of_another_activity_may_ask(desk, place, owner, vendor):
    _, pin = desk
    lends = make_tool(TELL, endpoint=make_endpoint(url=vendor.url, protocol="mcp")).current
    inner = make_activity("vendor", [step_of(lends)], {}, interface=lends)
    outer = make_activity("composite", [{"activity": inner.pk, "inputs": {}}], {"Sky now": {"value": "fair"}})
    assert kinds(bound(pin, place, owner, outer)) == ["question"]


def test_a_tool_that_its_model_answers_and_one_that_cannot_run_ask_nothing(owner, vendor):
    document = {"name": "tool", "inputSchema": {"type": "object"}}
    signature = MCP().read(document)
    agent, pin = desk_with(owner, vendor, protocol="mcp", inputs=signature.inputs, outputs=())
    place = environments.create(agent, actor=owner, name="test")
    assert kinds(within(place, owner)) == ["question"]
    client = bound(pin, place, owner, None)
    assert kinds(client) == []
    mocked = mocks.save(pin, actor=owner, config={"examples": [{"outputs": {}}]})
    environments.bind(place, pin.tool, actor=owner, activity=mocked.activity)
    operations.remove(mocked.activity, actor=owner)
    assert kinds(client) == []
    environments.remove(place, actor=owner)
    assert kinds(client) == []
