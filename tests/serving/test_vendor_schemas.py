"""A vendor's schema means the same when it is enumerated, exported and called."""

import pytest
from rest_framework.test import APIClient

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Tool
from catalog.models.runs import RunStatus, Trigger
from designer import exports
from designer.agents import agents
from designer.pins import pins
from designer.releases import publishing
from people.models import Role
from tests.factories import make_endpoint, make_user
from tests.hostile_vendor import HostileVendor, json_reply
from tests.protocols.openapi.documents import document, operation, takes

pytestmark = pytest.mark.django_db
OF_TOOLS = [format_.name for format_ in exports.FORMATS if format_.limits.of == "tools"]


@pytest.fixture
def owner():
    return make_user(Role.DESIGNER, username="ada")


@pytest.fixture
def api(owner):
    client = APIClient()
    client.force_login(owner)
    return client


class Vendor:
    """Lists one tool and answers every call of it."""

    def __init__(self, listed_tools, answer):
        self.listed, self.answered = listed_tools, answer
        self.calls = []

    def __call__(self, line, request):
        if request.method == "GET":
            return json_reply(self.listed)(line, request)
        self.calls.append(request.json())
        return json_reply(self.answered)(line, request)


def published(owner, server, protocol, path=""):
    """The tool of a vendor, enumerated, pinned as `t` and released by the agent `desk`."""
    endpoint = make_endpoint(url=f"{server.url}{path}", protocol=protocol)
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert run.status == RunStatus.SUCCEEDED
    agent = agents.create_agent(actor=owner, name="Desk", slug="desk")
    pins.pin_tool(agent, actor=owner, tool=Tool.objects.get(endpoint=endpoint), alias="t")
    return publishing.publish(agent, actor=owner, channel="live")


def call(api, arguments):
    address = "/api/v1/agents/desk/releases/live/tools/t/invoke/"
    return api.post(address, {"arguments": arguments, "confirm": True}, format="json").json()


def exported(api, format_):
    return api.get(f"/api/v1/agents/desk/releases/1/tools/?format={format_}").content.decode()


BASE = {
    "type": "object",
    "required": ["secret_id", "name"],
    "properties": {
        "secret_id": {"type": "string", "readOnly": True},
        "name": {"type": "string"},
        "part_of": {"$ref": "#/components/schemas/Base"},
    },
}
WRAP = {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"note": {"type": "string"}}}]}
COMPONENTS = {
    "Base": BASE,
    "Wrap": WRAP,
    "Id": {"type": "string", "readOnly": True},
    "Plain": {"type": "object", "properties": {"secret_id": {}, "name": {"type": "string"}}},
}


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def holding(schema):
    return {"type": "object", "properties": {"customer": schema}}


@pytest.mark.parametrize("openapi", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    ("schema", "arguments", "body"),
    [
        (holding(ref("Base")), {"customer": {"name": "Ann"}}, {"customer": {"name": "Ann"}}),
        (holding(ref("Wrap")), {"customer": {"name": "Ann"}}, {"customer": {"name": "Ann"}}),
        (holding({"allOf": [ref("Base")]}), {"customer": {"name": "Ann"}}, {"customer": {"name": "Ann"}}),
        (holding({"oneOf": [ref("Base"), {"type": "string"}]}),
         {"customer": {"name": "Ann"}}, {"customer": {"name": "Ann"}}),
        (holding({"type": "array", "items": ref("Base")}),
         {"customer": [{"name": "Ann"}]}, {"customer": [{"name": "Ann"}]}),
        (holding({"type": "object", "additionalProperties": ref("Wrap")}),
         {"customer": {"a": {"name": "Ann"}}}, {"customer": {"a": {"name": "Ann"}}}),
        (holding({**ref("Base")}), {"customer": {"name": "A", "part_of": {"name": "B"}}},
         {"customer": {"name": "A", "part_of": {"name": "B"}}}),
        (holding({"type": "object", "properties": {"x": BASE}}),
         {"customer": {"x": {"name": "Ann"}}}, {"customer": {"x": {"name": "Ann"}}}),
        (ref("Wrap"), {"body": {"name": "Ann"}}, {"name": "Ann"}),
        ({"type": "array", "items": ref("Wrap")}, {"body": [{"name": "Ann"}]}, [{"name": "Ann"}]),
        # Required beside the schema that marks it as read-only.
        (holding({"allOf": [{"properties": {"secret_id": ref("Id")}}, {"type": "object",
                  "required": ["secret_id", "name"], "properties": {"name": {"type": "string"}}}]}),
         {"customer": {"name": "Ann"}}, {"customer": {"name": "Ann"}}),
        # At the top of a plain body, and read only through a reference.
        ({"type": "object", "required": ["secret_id"], "properties": {"secret_id": ref("Id"), "name": {}}},
         {"name": "Ann"}, {"name": "Ann"}),
        ({"type": "object", "required": ["secret_id"], "properties": {"secret_id": {"allOf": [ref("Id")]},
          "name": {}}}, {"name": "Ann"}, {"name": "Ann"}),
    ],
)  # fmt: skip
def test_a_member_that_only_comes_back_is_neither_asked_for_nor_shown(
    owner, api, openapi, schema, arguments, body
):
    op = operation("t", requestBody=takes(schema))
    listed_document = document({"/t": {"post": op}}, openapi=openapi, components={"schemas": COMPONENTS})
    vendor = Vendor(listed_document, {"done": True})
    with HostileVendor(vendor) as server:
        published(owner, server, "openapi", "/openapi.json")
        for format_ in OF_TOOLS:
            assert "secret_id" not in exported(api, format_)
        answer = call(api, arguments)
    assert answer["outcome"] == "ok", answer
    assert vendor.calls == [body]


A = {"type": "string", "maxLength": 9}


@pytest.mark.parametrize(
    ("reference", "schema"),
    [
        ("#x", {"$defs": {"A": {**A, "$anchor": "x"}}}),
        ("#x", {"$defs": {"B": {"properties": {"deep": {**A, "$anchor": "x"}}}}}),
        (
            "#x",
            {"definitions": {"A": {**A, "$id": "#x"}}, "$schema": "http://json-schema.org/draft-07/schema#"},
        ),
        ("https://e.test/s.json#/$defs/A", {"$id": "https://e.test/s.json", "$defs": {"A": A}}),
        ("s.json#/$defs/A", {"$id": "https://e.test/s.json", "$defs": {"A": A}}),
        ("a.json", {"$id": "https://e.test/s.json", "$defs": {"A": {**A, "$id": "a.json"}}}),
        ("urn:l", {"$defs": {"A": {**A, "$id": "urn:l"}}}),
        ("#/$defs/a%2Fb", {"$defs": {"a": {"b": A}, "a/b": {"type": "integer"}}}),
    ],
)
def test_a_reference_within_the_schema_is_followed_however_it_is_spelled(owner, api, reference, schema):
    inputs = {**schema, "type": "object", "properties": {"p": {"$ref": reference}}}
    tool = {"id": "Kit.t", "name": "t", "description": "Does t.", "version": "1.0.0", "input_schema": inputs}
    vendor = Vendor({"items": [tool]}, {"request_id": "1", "call_id": "1", "success": True, "value": "done"})
    with HostileVendor(vendor) as server:
        published(owner, server, "oxp")
        refused = call(api, {"p": 5})
        result = call(api, {"p": "five"})
    assert refused["outcome"] == "invalid_arguments"
    assert result["outcome"] == "ok", result
    assert len(vendor.calls) == 1


def test_a_reference_to_another_document_costs_the_tool(owner):
    inputs = {"type": "object", "properties": {"p": {"$ref": "https://elsewhere.test/s.json#/A"}}}
    tool = {"id": "Kit.t", "name": "t", "description": "Does t.", "version": "1.0.0", "input_schema": inputs}
    with HostileVendor(Vendor({"items": [tool]}, {})) as server:
        endpoint = make_endpoint(url=server.url, protocol="oxp")
        run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert [rejection.code for rejection in run.rejections.all()] == ["REMOTE_REF"]
