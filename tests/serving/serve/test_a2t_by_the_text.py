"""A release, walked by a client of A2T that knows nothing but the text of the draft."""

import pytest

from designer.pins import pins, tunings
from designer.releases import publishing
from tests.factories import make_endpoint, make_tool
from tests.hostile_vendor import json_reply
from tests.serving.serve.a2t_client import Client, conforming
from tests.serving.serve.test_mcp_by_sdk import SHAPES
from tests.serving.serve.test_own_clients import desk_of
from tests.serving.test_calls import owner, runtime, vendor

__all__ = ["owner", "vendor"]
pytestmark = pytest.mark.django_db


def sender(api):
    def send(method, path, query, body):
        where = f"/serve/desk/live/a2t{path}"
        answer = api.get(where, query) if method == "GET" else api.post(where, body, format="json")
        return answer.status_code, answer.json()

    return send


def by_vendor(signature, outputs):
    """Reply of the vendor of the called tool."""
    if signature["name"].startswith("tool_"):
        return json_reply({"output_parameters": [{"name": n, "value": v} for n, v in outputs.items()]})
    return json_reply({"output_parameters": []})


def test_a_client_that_goes_by_the_text_finds_every_answer_as_the_text_has_it(owner, vendor):
    desk, tools_by_name = desk_of(owner, "a2t", vendor)
    # Tools of a vendor of another protocol, with any content.
    endpoint = make_endpoint(url=vendor.url)
    awkward = [
        pins.pin_tool(desk, actor=owner, tool=make_tool(signature, endpoint=endpoint)) for signature in SHAPES
    ]
    publishing.publish(desk, actor=owner, channel="live")
    client = Client(sender(runtime(owner, desk)))
    first = {tool["name"]: tool for tool in client.tools()}
    assert tools_by_name.keys() <= first.keys()
    # Members that the protocol cannot express are left out of a release served in it; the rest is there.
    assert len(first) > len(tools_by_name)
    tunings.tune(desk.pins.get(name="tool_0"), actor=owner, description="In other words.")
    tunings.tune(awkward[1], actor=owner, description="Nothing at all.")
    publishing.publish(desk, actor=owner, channel="live")
    second = {tool["name"]: tool for tool in client.tools(limit=2)}
    assert second.keys() == first.keys()
    assert second["tool_0"]["version"] == first["tool_0"]["version"] + 1
    for name, tool in second.items():
        assert client.tool(tool["toolId"]) == tool
        versions = client.versions(tool["toolId"], limit=1)
        assert versions[0] == tool
        for version in versions:
            assert client.version(tool["toolId"], version["version"]) == version
        # Locked, but for the one member.
        current = next(version for version in versions if version["version"] == first[name]["version"])
        assert {**current, "currentVersion": first[name]["currentVersion"]} == first[name]
        for signature in versions:
            values = conforming(signature["output_parameters"], whole=True)
            vendor.script = by_vendor(signature, values)
            arguments = conforming(signature["input_parameters"])
            outputs = client.invoke(signature, arguments, by_version=True)
            if name in tools_by_name:
                assert outputs == values
        client.invoke(tool, arguments, by_version=False)
    needs = next(tool for tool in second.values() if conforming(tool["input_parameters"]))
    arguments = conforming(needs["input_parameters"])
    status, error = client.invoked(needs, {}, by_version=True)
    assert (400 <= status < 500, bool(error["message"])) == (True, True)
    for wrong in ({"version": 99}, {"toolId": "0b0c8b5e-0000-4000-8000-000000000000"}):
        status, _ = client.invoked({**needs, **wrong}, arguments, by_version=True)
        assert status == 404
    # A passing problem is 5xx, after which the same call is sent again.
    vendor.script = json_reply({}, status=503)
    status, _ = client.invoked(needs, arguments, by_version=True)
    assert status == 503
