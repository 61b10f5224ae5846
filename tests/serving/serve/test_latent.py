"""A latent tool through every served door: that protocol's own error with the form of the answer, which is
given over REST afterwards."""

import json
import re

import pytest

from catalog.models import Call
from designer.environments import environments
from people.models import ApiKey
from tests.serving.serve import test_mocks
from tests.serving.test_calls import runtime, url

pytestmark = pytest.mark.django_db
SERVE = "/serve/desk/live"


def by_mcp(client, inputs):
    params = {"name": "sky", "arguments": inputs}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    reply = client.post(f"{SERVE}/mcp", message, format="json")
    assert reply.status_code == 200
    result = reply.json()["result"]
    assert result["isError"] is True
    text = " ".join(block["text"] for block in result["content"])
    about = result["_meta"]
    return about["pegboard/code"], text, about.get("pegboard/output_schema"), schema_in(text)


def by_a2t(client, inputs):
    (tool,) = client.get(f"{SERVE}/a2t/tools").json()["items"]
    name_of = {"Zip_code": "Zip code"}
    input_parameters = [{"name": name_of.get(name, name), "value": value} for name, value in inputs.items()]
    reply = client.post(
        f"{SERVE}/a2t/tools/{tool['toolId']}:invoke", {"input_parameters": input_parameters}, format="json"
    )
    body = reply.json()
    assert reply.status_code == (409 if body["code"] == "LATENT" else 400)
    return body["code"], body["message"], body.get("output_schema"), body.get("output_schema")


def by_oxp(client, inputs):
    headers = {"OXP-Version": "1.0"}
    (tool,) = client.get(f"{SERVE}/oxp/tools", headers=headers).json()["items"]
    body = {"tool_id": tool["id"], "input": inputs}
    reply = client.post(f"{SERVE}/oxp/tools/call", body, format="json", headers=headers)
    reply_error = reply.json()
    if reply.status_code != 200:
        assert reply.status_code == 422
        return "ARGUMENTS", reply_error["message"], None, None
    assert reply_error["success"] is False
    error = reply_error["error"]
    assert error["can_retry"] is False
    form = schema_in(error["additional_prompt_content"])
    return error["developer_message"], error["message"], form, form


def by_acp(client, inputs):
    (agent,) = client.post(f"{SERVE}/acp/agents/search", {}, format="json").json()
    body = {"agent_id": agent["agent_id"], "input": inputs}
    reply = client.post(f"{SERVE}/acp/runs/wait", body, format="json")
    if reply.status_code != 200:
        assert reply.status_code == 422
        return "ARGUMENTS", reply.json(), None, None
    output = reply.json()["output"]
    assert output["type"] == "error"
    if output["errcode"] != 8:
        return "ARGUMENTS", output["description"], None, None
    form = schema_in(output["description"])
    return "LATENT", output["description"], form, form


def schema_in(text):
    match = re.search(r"(?:schema|form): (\{.*)", text)
    return json.JSONDecoder().raw_decode(match[1])[0] if match else None


DOORS = [by_mcp, by_a2t, by_oxp, by_acp]


@pytest.fixture
def client(desk, owner):
    """A client whose key runs where the tool is left to the model; elsewhere it runs at its vendor."""
    agent, pin = desk
    environments.create(agent, actor=owner, name="production", is_default=True)
    place = environments.create(agent, actor=owner, name="prototype")
    environments.bind(place, pin.tool, actor=owner, activity=None)
    api_client = runtime(owner, agent)
    ApiKey.objects.update(environment="prototype")
    return api_client


@pytest.mark.parametrize("door", DOORS)
def test_a_latent_tool_answers_with_the_form_and_keeps_what_is_given(door, client, vendor):
    code, message, schema, shown_schema = door(client, {"Zip_code": "0150"})
    assert code == "LATENT"
    assert schema == shown_schema
    ((name, form),) = schema["properties"].items()
    assert form["type"] == "string"
    call = Call.objects.get()
    assert (call.outcome, call.environment, call.activity) == ("latent", "prototype", None)
    assert call.arguments == {"Zip code": "0150"}

    # The output is validated by the shown names, and stored like any answer.
    path = "/api/v1/" + re.search(r"sent to (\S+) of the API", message)[1]
    assert path.startswith(f"/api/v1/calls/{call.pk}/output/")
    unfit = client.post(path, {"output": {name: 7}}, format="json")
    assert (unfit.status_code, unfit.json()["code"]) == (400, "invalid_output")
    result = client.post(path, {"output": {name: "clear"}}, format="json").json()
    assert (result["outcome"], [*result["outputs"].values()]) == ("ok", ["clear"])
    call.refresh_from_db()
    assert (call.outcome, call.decoded().outputs) == ("ok", {"Sky now": "clear"})
    assert vendor.requests == []


@pytest.mark.parametrize("door", DOORS)
def test_inputs_are_judged_before_the_model_is_asked(door, client, vendor):
    code, message, schema, _ = door(client, {"Zip_code": "much too long"})
    assert (code, schema) == ("ARGUMENTS", None)
    assert "Some inputs do not fit." in str(message)
    assert not Call.objects.filter(outcome="latent").exists()
    assert vendor.requests == []


@pytest.mark.parametrize("door", test_mocks.DOORS)
def test_a_key_of_another_environment_finds_the_vendor(door, client, vendor):
    ApiKey.objects.update(environment="production")
    assert "fair" in str(door(client))
    assert len(vendor.requests) == 1
    ApiKey.objects.update(environment="prototype")
    assert "fair" not in str(door(client))
    assert len(vendor.requests) == 1


def test_a_latent_tool_is_latent_in_rest_too(client, vendor):
    answer = client.post(url(), {"arguments": {"Zip_code": "0150"}}, format="json").json()
    assert (answer["outcome"], answer["environment"]) == ("latent", "prototype")
    assert vendor.requests == []
