"""Many definitions at once, over REST."""

import pytest

from catalog.models import Tool, Vendor
from catalog.tools import definition_import, definitions
from designer.releases import publishing
from people.models import AuditEntry, Role
from tests.clients import signed_in
from tests.factories import make_agent, make_user

pytestmark = pytest.mark.django_db
URL = "/api/v1/definitions/import/"


def tool(name, **changes):
    return {
        "name": name,
        "description": f"Does {name}.",
        "inputs": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
        "output": {"type": "object", "properties": {"done": {"type": "boolean"}}},
    } | changes


def form(name, **members):
    """The same in the form of the Tool System."""
    return {
        "type": "object",
        "description": f"Does {name}.",
        "properties": {
            "_tool": {"type": "string", "const": name},
            **members,
            "to": {"type": "string"},
            "_output": {"type": "object", "properties": {"done": {"type": "boolean"}}},
        },
        "required": ["_tool", "to"],
    }


@pytest.fixture
def api():
    return signed_in(Role.DESIGNER)


def test_both_forms_are_taken_in_one_array(api):
    payload = [tool("send", title="Send it", activity=""), form("fetch"), tool("drop")]
    reply = api.post(URL, payload, format="json")
    assert reply.status_code == 201, reply.json()
    definitions = reply.json()["definitions"]
    assert [
        (definition["name"], definition["title"], definition["activity"]) for definition in definitions
    ] == [
        ("send", "Send it", ""),
        ("fetch", "", None),
        ("drop", "", None),
    ]
    for definition in definitions:
        assert (
            definition.items() >= {"version": "1", "status": "active", "inputs": tool("x")["inputs"]}.items()
        )
        assert definition == {
            name: value
            for name, value in api.get(f"/api/v1/definitions/{definition['id']}/").json().items()
            if name != "changes"
        }
    entries = AuditEntry.objects.filter(kind="tool", action="define")
    assert {int(entry.object_id) for entry in entries} == {definition["id"] for definition in definitions}
    again = api.post(URL, {"tools": [tool("send"), tool("new"), form("drop")]}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")
    assert again.json()["fields"].keys() == {"tools.0.name", "tools.2.name"}
    assert not Tool.objects.filter(name="new").exists()


def test_a_schema_of_calls_is_taken_as_a_release_exports_it(api):
    api.post(URL, [tool("send"), tool("fetch", activity="")], format="json")
    desk, actor = make_agent(slug="desk"), make_user(Role.ADMIN)
    for row in definitions.all_of_them():
        assert api.post("/api/v1/agents/desk/pins/", {"definition": row.pk}, format="json").status_code == 201
        definitions.withdraw(row, actor=actor)
    publishing.publish(
        desk, actor=actor, channel="live", accept=["withdrawn", "not_connected"], reason="They are kept."
    )
    exported = api.get("/api/v1/agents/desk/releases/live/tools/?format=tool-system").json()
    assert len(exported["calls"]["items"]["anyOf"]) == 2
    reply = api.post(URL, exported, format="json")
    assert reply.status_code == 201, reply.json()
    definitions_by_name = {definition["name"]: definition for definition in reply.json()["definitions"]}
    assert definitions_by_name.keys() == {"send", "fetch"}
    for definition in definitions_by_name.values():
        assert definition["activity"] is None
        assert definition["inputs"]["properties"]["to"]["type"] == "string"
        assert definition["inputs"]["required"] == ["to"]
        assert definition["output"]["properties"]["done"]["type"] == "boolean"


def test_one_tool_of_a_schema_of_calls_may_stand_alone(api):
    alone = {"calls": {"type": "array", "items": form("send", _activity={"type": "string", "const": "send"})}}
    reply = api.post(URL, alone, format="json")
    assert reply.status_code == 201, reply.json()
    (definition,) = definitions.all_of_them().select_related("current")
    assert definitions.explicit_activity(definition.current) is None


def test_the_faults_of_all_tools_are_told_at_once_by_their_places(api):
    payload = [
        tool("good"),
        tool("two words", inputs={"type": "object", "properties": {"_to": {"type": "string"}}}),
        {"name": 5, "inputs": [], "surprise": 1},
        7,
        {"type": "object", "properties": {"_tool": {"const": "no_output"}}},
        tool("good", output={}),
        form("faulty", b={"type": "c"}),
    ]
    reply = api.post(URL, payload, format="json")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid")
    fields = reply.json()["fields"]
    assert fields.keys() == {
        "tools.1.name",
        "tools.1.inputs",
        *(f"tools.2.{member}" for member in ("name", "description", "inputs", "output", "surprise")),
        "tools.3",
        "tools.4",
        "tools.5.name",
        "tools.5.output",
        "tools.6.inputs",
    }
    assert "Tool 1 of these is called “good” as well" in fields["tools.5.name"]
    assert "“inputs.properties.b.type” must be one of" in fields["tools.6.inputs"]
    assert "“_output” is missing" in fields["tools.4"]
    assert not Vendor.objects.exists()


def test_a_taken_name_is_told_beside_other_faults(api):
    api.post(URL, [tool("send")], format="json")
    reply = api.post(URL, [tool("send"), tool("new", output={})], format="json")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid")
    assert reply.json()["fields"].keys() == {"tools.0.name", "tools.1.output"}


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ([], "invalid"),
        ({}, "invalid"),
        ({"tools": {}}, "invalid"),
        ({"tools": "send"}, "invalid"),
        ({"calls": []}, "invalid"),
        ({"calls": {"items": {"anyOf": {}}}}, "invalid"),
        ({"calls": {"items": {"anyOf": []}}}, "invalid"),
        ({"tools": [tool("send")], "calls": {"items": form("fetch")}}, "invalid"),
        ([tool(f"t{number}") for number in range(definition_import.MAX_TOOLS + 1)], "too_many_definitions"),
    ],
)
def test_what_is_no_list_of_tools_is_refused(api, payload, code):
    reply = api.post(URL, payload, format="json")
    assert (reply.status_code, reply.json()["code"]) == (400, code)
    assert reply.json()["fields"].keys() == {"tools"}
    assert not Tool.objects.exists()


def test_a_body_that_is_too_large_says_so(api):
    reply = api.post(URL, [tool("send", description="x" * 1_100_000)], format="json")
    assert (reply.status_code, reply.json()["code"]) == (413, "too_large")


def test_as_many_as_may_come_are_defined(api):
    payload = [tool(f"t{number}") for number in range(definition_import.MAX_TOOLS)]
    reply = api.post(URL, payload, format="json")
    assert reply.status_code == 201, reply.json()
    assert [definition["name"] for definition in reply.json()["definitions"]] == [
        definition["name"] for definition in payload
    ]
    assert Tool.objects.count() == definition_import.MAX_TOOLS
