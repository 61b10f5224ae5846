"""The ways in which a call may fail: our codes and the vendor's, kept apart."""

import pytest

from catalog.rules import call_errors
from designer.agents import agents
from designer.pins import pins
from designer.releases import publishing
from tests.acp_runs import Runs
from tests.factories import make_endpoint, make_tool
from tests.hostile_vendor import HostileVendor, json_reply
from tests.protocols.openapi.documents import answers, operation, read_signature
from tests.serving.test_calls import GIVEN, desk_with, owner, runtime, url, vendor

__all__ = ["owner", "vendor"]
pytestmark = pytest.mark.django_db
PROBLEM = {"type": "object", "properties": {"balance": {"type": "integer"}}}
OPERATION = operation(
    "pay",
    responses={
        **answers({"type": "object"}),
        "402": {
            "description": "There is too little in the account.",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        },
        "429": {"description": "Too often."},
        "503": {"description": ""},
        "default": {"description": "Anything else."},
        "302": {"description": "Elsewhere."},
    },
)


def test_the_list_names_our_codes_and_what_the_vendor_declares(owner, vendor):
    signature = read_signature(OPERATION, components={"schemas": {"Problem": PROBLEM}})
    tool = make_tool(signature, endpoint=make_endpoint(url=vendor.url, protocol="openapi"))
    parent = agents.create_agent(actor=owner, name="desk", slug="desk")
    child = agents.create_agent(actor=owner, name="till", slug="till", parent=parent)
    pins.pin_tool(child, actor=owner, tool=tool, alias="pay")
    publishing.publish(parent, actor=owner, channel="live")
    client = runtime(owner, parent)
    path = "/api/v1/agents/desk/releases/live/"
    errors_body = client.get(f"{path}agents/till/tools/pay/errors/").json()
    assert [
        (error["code"], error["is_transient"], error["description"]) for error in errors_body["vendor"]
    ] == [
        ("402", False, "There is too little in the account."),
        ("429", True, "Too often."),
        ("503", True, ""),
        ("default", None, "Anything else."),
    ]
    schema = errors_body["vendor"][0]["details_schema"]
    assert PROBLEM in (schema, *schema.get("$defs", {}).values())
    pegboard_errors = {error["code"]: error for error in errors_body["ours"]}
    assert pegboard_errors.keys() == {error.code for error in call_errors.PEGBOARD_ERRORS}
    assert (
        pegboard_errors["thread_busy"]["is_transient"],
        pegboard_errors["RUN_FAILED"]["is_transient"],
    ) == (True, False)
    assert pegboard_errors["ARGUMENTS"]["details_schema"]["type"] == "object"
    assert client.get(f"{path}tools/pay/errors/").status_code == 404
    assert client.get(f"{path}tools/till/errors/").status_code == 404
    assert vendor.requests == []


@pytest.mark.parametrize(
    ("reply", "pegboard_code", "vendor_code"),
    [
        ({"code": "E17", "message": "No."}, "HTTP_402", {"code": "E17", "description": "No."}),
        ({"error": {"code": 17, "message": "No."}}, "HTTP_402", {"code": "17", "description": "No."}),
        (
            {"type": "https://bank.example/broke", "title": "No."},
            "HTTP_402",
            {"code": "https://bank.example/broke", "description": "No."},
        ),
        ({"type": "about:blank", "title": "No."}, "HTTP_402", None),
        ("No.", "HTTP_402", None),
    ],
)
def test_the_vendors_code_stands_beside_ours(owner, vendor, reply, pegboard_code, vendor_code):
    agent, _ = desk_with(owner, vendor)
    vendor.script = json_reply(reply, status=402)
    error = runtime(owner, agent).post(url(), GIVEN).json()["error"]
    assert (error["code"], error.get("vendor")) == (pegboard_code, vendor_code)


def test_the_number_of_an_agents_error_stands_beside_ours(owner):
    runs = Runs()
    runs.end(output={"type": "error", "run_id": "r", "errcode": 7, "description": "The press jammed."})
    with HostileVendor(runs) as running:
        agent, _ = desk_with(owner, running, protocol="acp", outputs_rest={})
        error = runtime(owner, agent).post(url(), GIVEN).json()["error"]
    assert error["code"] == "RUN_FAILED"
    assert error["vendor"] == {"code": "7", "description": "The press jammed."}
