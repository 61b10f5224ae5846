"""A release as an OXP tool server, in both wire forms."""

import json
import uuid

import jsonschema
import pytest
from django.db import OperationalError, connection
from django.test import Client

from designer.agents import agents
from designer.pins import tunings
from designer.releases import publishing
from protocols.signature import Annotations, Requirements
from tests.factories import make_parameter
from tests.hostile_vendor import json_reply
from tests.serving.test_calls import desk_with, owner, runtime, vendor

__all__ = ["owner", "vendor"]

pytestmark = pytest.mark.django_db
ROOT = "/serve/desk/live/oxp"
DONE = json_reply({"call_id": "v", "success": True, "duration": 2, "value": {"sky": "fair"}})
OUTPUTS = (make_parameter("sky"),)
RESPONSE = {
    "type": "object",
    "required": ["call_id", "success"],
    "properties": {
        "call_id": {"type": "string"},
        "duration": {"type": "number"},
        "success": {"type": "boolean"},
        "value": True,
        "error": {
            "type": "object",
            "required": ["message"],
            "properties": {"can_retry": {"type": "boolean"}, "retry_after_ms": {"type": "integer"}},
        },
    },
    "additionalProperties": False,
}


@pytest.fixture
def desk(owner, vendor):
    vendor.script = DONE
    inputs = (make_parameter("zip", max_length=5), make_parameter("days", type="int", required=False, max=14))
    return desk_with(
        owner, vendor, protocol="oxp", inputs=inputs, outputs=OUTPUTS, outputs_rest={"type": "object"}
    )


@pytest.fixture
def http(owner, desk):
    return runtime(owner, desk[0])


def list_tools(http, root=ROOT):
    answer = http.get(f"{root}/tools")
    assert (answer.status_code, answer["OXP-Version"]) == (200, "1.0")
    return answer.json()["items"]


def call(http, tool_id, root=ROOT, headers=None, **more):
    body = {"tool_id": tool_id, "input": {"zip": "0150"}} | more
    return http.post(f"{root}/tools/call", body, format="json", headers=headers or {"OXP-Version": "1.0"})


def test_tools_are_listed_with_three_numbers(http, desk, owner):
    (tool,) = list_tools(http)
    assert (tool["name"], tool["version"]) == ("sky", "1.0.0")
    toolkit, _, version = tool["id"].partition("@")
    assert (toolkit.count("."), version) == (1, "1.0.0")
    assert tool["input_schema"]["required"] == ["zip"]


def test_a_call_is_answered_in_the_form_that_it_came_in(http, vendor):
    (tool,) = list_tools(http)
    bare = call(http, tool["id"], call_id="order-7")
    assert (bare.status_code, bare["OXP-Version"]) == (200, "1.0")
    jsonschema.validate(bare.json(), RESPONSE)
    assert bare.json() | {"duration": 0} == {
        "call_id": "order-7",
        "success": True,
        "duration": 0,
        "value": {"sky": "fair"},
    }
    inner = {"tool_id": tool["id"], "input": {"zip": "0151"}}
    body = {"$schema": "urn:oxp:1.0", "request": inner}
    wrapped = http.post(f"{ROOT}/tools/call", body, format="json")
    assert wrapped.json().keys() == {"$schema", "result"}
    jsonschema.validate(wrapped.json()["result"], RESPONSE)
    assert uuid.UUID(wrapped.json()["result"]["call_id"])
    assert len(vendor.requests) == 2


def test_versions_are_resolved_as_the_document_has_it(http, desk, owner, vendor):
    _, pin = desk
    (first,) = list_tools(http)
    name = first["id"].partition("@")[0]
    tunings.tune(pin, actor=owner, description="Looks up.", parameters={"days": {"preset": 3}})
    publishing.publish(pin.agent, actor=owner, channel="live")
    tunings.tune(pin, actor=owner, description="Looks up.", parameters={"zip": {"name": "postcode"}})
    publishing.publish(pin.agent, actor=owner, channel="live")
    (last,) = list_tools(http)
    assert last["id"] == f"{name}@2.0.0"
    for version in ("@1.0.0", "@1"):
        assert call(http, f"{name}{version}").status_code == 200
    for version in ("@2", "@2.0.0", ""):
        assert call(http, f"{name}{version}", input={"postcode": "1"}).json()["success"], version
    inputs = [request.json()["input"] for request in vendor.requests]
    assert inputs == [{"zip": "0150"}] * 2 + [{"zip": "1"}] * 3
    for unknown in ("@3.0.0", "@1.9.9", "@0"):
        refused = call(http, f"{name}{unknown}")
        assert (refused.status_code, refused.json()["developer_message"]) == (400, "version_not_found")
    assert call(http, name, root="/serve/desk/1/oxp").status_code == 200
    assert call(http, f"{name}@2", root="/serve/desk/1/oxp").status_code == 400


def test_inputs_go_by_the_other_name_of_the_specification_too(http, vendor):
    body = {"tool_id": list_tools(http)[0]["id"], "inputs": {"zip": "0150"}}
    answer = http.post(f"{ROOT}/tools/call", body, format="json", headers={"OXP-Version": "1.0"})
    assert answer.json()["success"] is True
    assert len(vendor.requests) == 1


def test_inputs_that_do_not_fit_are_422_by_name(http, vendor):
    (tool,) = list_tools(http)
    for values, names in (({"zip": 3}, {"zip"}), ({}, {"zip"}), ({"zip": "1", "days": 99}, {"days"})):
        refused = call(http, tool["id"], input=values)
        assert (refused.status_code, refused.json()["parameter_errors"].keys()) == (422, names)
    assert call(http, tool["id"], input=[]).status_code == 422
    assert vendor.requests == []


def test_bad_input_is_400_and_nothing_is_sent(http, vendor):
    (tool,) = list_tools(http)
    name = tool["id"].partition("@")[0]
    ids = ("", "x", "Nobody.Knows", f"{name}@1.0", f"{name}@x", None, 3, f"{name}@1.0.0.0")
    for tool_id in ids:
        refused = call(http, tool_id)
        assert refused.status_code == 400, tool_id
        assert refused.json()["message"]
    for body in (b"{", b"[]", b"", b'{"request": 3}', b'{"tool_id": "A.B", "call_id": 3}'):
        refused = http.generic("POST", f"{ROOT}/tools/call", body, content_type="application/json")
        assert (refused.status_code, refused["OXP-Version"]) == (400, "1.0"), body
    odd = http.get(f"{ROOT}/tools", headers={"OXP-Version": "2.0"})
    assert (odd.status_code, odd.json()["developer_message"]) == (400, "version_not_supported")
    for method, path, status in (
        ("get", "/tools/call", 405),
        ("post", "/tools", 405),
        ("get", "/other", 404),
        ("get", "", 404),
    ):
        assert getattr(http, method)(f"{ROOT}{path}").status_code == status
    assert call(http, tool["id"], root="/serve/desk/canary/oxp").status_code == 400
    assert vendor.requests == []


def test_health_needs_no_key_and_says_nothing_of_releases(desk):
    for slug in ("desk", "nowhere"):
        answer = Client().get(f"/serve/{slug}/live/oxp/health")
        assert (answer.status_code, answer.json(), answer["OXP-Version"]) == (200, {"status": "ok"}, "1.0")
    assert Client().get(f"{ROOT}/tools").status_code == 401


def test_health_asks_the_database_and_not_whether_a_connection_is_there(desk):
    def away(*_):
        raise OperationalError("gone")

    with connection.execute_wrapper(away):
        answer = Client().get(f"{ROOT}/health")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})


def test_a_key_comes_in_the_protocols_own_header_too(http, owner, desk):
    plain = http._credentials["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    for sent_key, status in ((plain, 200), ("pgb_wrong", 401)):
        assert Client(headers={"OXP-API-Key": sent_key}).get(f"{ROOT}/tools").status_code == status
    body = json.dumps({"tool_id": "A.B"})
    refused = Client().post(f"{ROOT}/tools/call", body, content_type="application/json")
    assert (refused.status_code, refused.json()["developer_message"]) == (400, "not_authenticated")
    body = json.dumps({"request": {"tool_id": "A.B"}})
    assert Client().post(f"{ROOT}/tools/call", body, content_type="application/json").status_code == 401


def test_what_a_vendor_says_of_retrying_is_passed_on(http, vendor):
    (tool,) = list_tools(http)
    error = {"message": "No such bell.", "can_retry": True, "retry_after_ms": 500}
    error |= {"additional_prompt_content": "ids: 42, 84", "developer_message": "secret trace"}
    vendor.script = json_reply({"call_id": "v", "success": False, "error": error})
    answer = call(http, tool["id"])
    jsonschema.validate(answer.json(), RESPONSE)
    error_body = answer.json()["error"]
    assert (answer.status_code, error_body["message"]) == (200, "No such bell.")
    assert (error_body["can_retry"], error_body["additional_prompt_content"]) == (True, "ids: 42, 84")
    assert error_body["retry_after_ms"] == 500
    assert "secret trace" not in answer.content.decode()


def test_challenges_are_passed_on(http, vendor):
    (tool,) = list_tools(http)
    challenge = {"id": "post", "url": "https://id.example/go", "check_url": "https://id.example/check"}
    refusal = {"message": "Sign in first.", "missing_requirements": {"authorization": [challenge]}}
    vendor.script = json_reply(refusal, status=400)
    answer = call(http, tool["id"])
    assert answer.status_code == 400
    assert answer.json()["missing_requirements"] == {"authorization": [challenge]}


def test_who_the_user_is_goes_on_to_a_vendor_that_asks(owner, vendor):
    vendor.script = DONE
    agent, _ = desk_with(
        owner,
        vendor,
        protocol="oxp",
        inputs=(make_parameter("zip"),),
        outputs=OUTPUTS,
        outputs_rest={"type": "object"},
        requirements=Requirements(user=True),
    )
    http = runtime(owner, agent)
    (tool,) = list_tools(http)
    assert tool["requirements"] == {"user_id": True}
    assert call(http, tool["id"], context={"user_id": "u7"}).json()["success"] is True
    assert [request.json().get("context") for request in vendor.requests] == [{"user_id": "u7"}]
    missing = call(http, tool["id"])
    assert (missing.status_code, missing.json()["missing_requirements"]) == (400, {"user_id": True})
    # The same call sent again, because the reply was lost, is the one that the first one made.
    members = {"call_id": "order 8", "context": {"user_id": "u7"}}
    first, again = (call(http, tool["id"], **members).json() for _ in range(2))
    assert first == again
    assert first["success"] is True
    assert len(vendor.requests) == 2


def test_the_same_call_id_runs_once(http, vendor):
    (tool,) = list_tools(http)
    first, again = (call(http, tool["id"], call_id="order 7") for _ in range(2))
    assert first.json() == again.json()
    other = call(http, tool["id"], call_id="order 7", input={"zip": "9"})
    assert (other.status_code, other.json()["developer_message"]) == (400, "key_taken")
    assert len(vendor.requests) == 1


def test_transfers_and_what_may_destroy(owner, vendor):
    vendor.script = DONE
    agent, _ = desk_with(
        owner,
        vendor,
        protocol="oxp",
        inputs=(make_parameter("zip"),),
        annotations=Annotations(destructive=True),
    )
    agents.create_agent(actor=owner, name="Refills", slug="refills", parent=agent)
    publishing.publish(agent, actor=owner, channel="live")
    http = runtime(owner, agent)
    tool, transfer = list_tools(http)
    unconfirmed = call(http, tool["id"])
    assert (unconfirmed.status_code, unconfirmed.json()["developer_message"]) == (400, "confirm_needed")
    assert call(http, tool["id"], headers={"Pegboard-Confirm": "true"}).json()["success"] is True
    assert call(http, transfer["id"], input={}).json()["value"] == {
        "agent": "refills",
        "address": "http://testserver/serve/desk/2/agents/refills/oxp",
    }
