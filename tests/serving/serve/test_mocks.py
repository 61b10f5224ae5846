"""A key's environment binds a tool to its mock: every door answers, while the vendor is gone."""

import pytest
from django.utils import timezone

from catalog.models import Call, Endpoint
from designer.environments import environments, mocks
from people.models import ApiKey
from tests.serving.test_calls import GIVEN, runtime, url

pytestmark = pytest.mark.django_db
SERVE = "/serve/desk/live"
RAIN = {"Sky now": "rain"}


def by_mcp(client):
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "sky"} | GIVEN}
    reply = client.post(f"{SERVE}/mcp", message, format="json").json()["result"]
    return reply.get("structuredContent") or reply["content"][0]["text"]


def by_a2t(client):
    (tool,) = client.get(f"{SERVE}/a2t/tools").json()["items"]
    body = {"name": tool["name"], "input_parameters": [{"name": "Zip code", "value": "0150"}]}
    reply = client.post(f"{SERVE}/a2t/tools/{tool['toolId']}:invoke", body, format="json").json()
    return (
        {
            output_parameter["name"]: output_parameter["value"]
            for output_parameter in reply["output_parameters"]
        }
        if "output_parameters" in reply
        else reply
    )


def by_oxp(client):
    (tool,) = client.get(f"{SERVE}/oxp/tools", headers={"OXP-Version": "1.0"}).json()["items"]
    body = {"tool_id": tool["id"], "input": {"Zip_code": "0150"}}
    reply = client.post(f"{SERVE}/oxp/tools/call", body, format="json", headers={"OXP-Version": "1.0"}).json()
    return reply.get("value") or reply


def by_acp(client):
    (agent,) = client.post(f"{SERVE}/acp/agents/search", {}, format="json").json()
    body = {"agent_id": agent["agent_id"], "input": {"Zip_code": "0150"}}
    return client.post(f"{SERVE}/acp/runs/wait", body, format="json").json()["output"]


def by_rest(client):
    reply = client.post(url(), GIVEN).json()
    return reply["outputs"] or reply


DOORS = [by_rest, by_mcp, by_a2t, by_oxp, by_acp]


@pytest.fixture
def client(desk, owner):
    agent, pin = desk
    mocked = mocks.save(pin, actor=owner, config={"examples": [{"outputs": RAIN}]})
    place = environments.create(agent, actor=owner, name="test")
    environments.bind(place, pin.tool, actor=owner, activity=mocked.activity)
    api_client = runtime(owner, agent)
    ApiKey.objects.update(environment="test")
    Endpoint.objects.filter(pk=pin.tool.endpoint_id).update(removed_at=timezone.now())
    return api_client


@pytest.mark.parametrize("door", DOORS)
def test_a_mock_answers_through_every_door_and_its_vendor_hears_nothing(door, client, desk, owner, vendor):
    agent, pin = desk
    assert "rain" in str(door(client))

    mocks.switch(pin, actor=owner, switches={"not_found": True})

    assert "there is nothing of this kind" in str(door(client))
    assert vendor.requests == []
    assert [
        (call.outcome, call.environment) for call in mocks.calls(agent, mocks.CallFilter(environment="test"))
    ] == [
        ("tool_error", "test"),
        ("ok", "test"),
    ]


def test_a_question_of_a_mock_is_answered_where_calls_are_gone_on_with(client, desk, owner, vendor):
    mocks.switch(desk[1], actor=owner, switches={"interrupt": True})
    body = client.post(url(), GIVEN).json()
    assert (body["outcome"], body["asks"][0]["id"]) == ("needs_input", "answer")

    answered = client.post(body["resume"], {"answers": {"answer": {"approved": True}}}, format="json").json()

    assert (answered["outcome"], answered["outputs"]) == ("ok", {"Sky_now": "rain"})
    assert vendor.requests == []
    assert Call.objects.filter(environment="test").count() == 2
