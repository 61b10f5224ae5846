"""The document's own example, over REST alone: `sendEmail` as a prototype, in tests and in production.

https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9, “Practical Applications”
"""

import pytest

from catalog.models import Tool
from designer.environments import environments
from designer.models import Agent
from execution.activities import operations as activities
from people.models import Role
from tests.clients import signed_in
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool
from tests.hostile_vendor import HostileVendor, json_reply
from tests.serving.test_calls import runtime

pytestmark = pytest.mark.django_db
DEFINITION = {
    "name": "sendEmail",
    "description": "Sends a mail to one person.",
    "inputs": {
        "type": "object",
        "properties": {"recipient": {"type": "string"}, "subject": {"type": "string"}},
        "required": ["recipient"],
    },
    "output": {"type": "object", "properties": {"sent": {"type": "boolean"}}, "required": ["sent"]},
}
MAIL = {"recipient": "ada@example.com", "subject": "Hello"}
TOOLS = "/api/v1/agents/desk/releases/live/tools/"
INVOKE = f"{TOOLS}sendEmail/invoke/"


@pytest.fixture
def api():
    return signed_in(Role.DESIGNER)


@pytest.fixture
def desk(api):
    """An agent that has published a definition."""
    definition = api.post("/api/v1/definitions/", DEFINITION, format="json").json()["id"]
    assert api.post("/api/v1/agents/", {"name": "Desk"}, format="json").status_code == 201
    pinned = api.post("/api/v1/agents/desk/pins/", {"definition": definition}, format="json")
    assert pinned.status_code == 201, pinned.json()
    # Nothing is connected to it yet.
    accepted = {"channel": "live", "accept": ["not_connected"], "reason": "The model answers at first."}
    published = api.post("/api/v1/agents/desk/releases/", accepted, format="json")
    assert published.status_code == 201, published.json()
    return Agent.objects.get(slug="desk")


def composed(client, **query):
    reply = client.get(TOOLS, {"format": "tool-system", **query})
    (branch,) = reply.json()["calls"]["items"]["anyOf"]
    return reply["ETag"], branch["properties"]["_activity"]["const"], branch


def test_one_digest_from_the_prototype_to_production(api, desk):
    definition = Tool.objects.get(name="sendEmail")
    places = "/api/v1/agents/desk/environments/"
    for name in ("prototype", "test", "production"):
        api.post(places, {"name": name, "is_default": name == "prototype"}, format="json")
    owner = definition.pins.get().created_by
    client = runtime(owner, desk)
    before = [client.get(TOOLS, {"format": name}).content for name in ("mcp", "json-schema", "anthropic")]

    # Prototype: there is no activity, so the model answers.
    _, activity, branch = composed(client)
    assert (activity, branch["required"]) == ("", ["_tool", "recipient", "_output"])
    latent = client.post(INVOKE, {"arguments": MAIL, "reasoning": "Ada asked for it."}).json()
    assert (latent["outcome"], latent["output_schema"]["required"]) == ("latent", ["sent"])
    completed = client.post(f"/api/v1/calls/{latent['call']}/output/", {"output": {"sent": True}}).json()
    assert (completed["outcome"], completed["outputs"], completed["reasoning"]) == (
        "ok",
        {"sent": True},
        "Ada asked for it.",
    )

    # Test: a mock of this agent's.
    saved = api.put(
        "/api/v1/agents/desk/mocks/sendEmail/", {"examples": [{"outputs": {"sent": False}}]}, format="json"
    )
    assert saved.status_code == 200, saved.json()
    mock = saved.json()["activity"]
    bound = api.put(f"{places}test/bindings/sendEmail/", {"activity": mock}, format="json").json()
    assert (bound["runs"], bound["kind"]) == ("activity", "mock")
    mocked = client.post(INVOKE, {"arguments": MAIL, "environment": "test"}).json()
    assert (mocked["outcome"], mocked["outputs"]) == ("ok", {"sent": False})

    # Production: a vendor's tool under the names of the definition.
    with HostileVendor(json_reply({"output_parameters": [{"name": "ok", "value": True}]})) as vendor:
        names, done = ("to", "about"), make_parameter("ok", type="boolean")
        inputs = tuple(make_parameter(name, required=name == "to") for name in names)
        mailer = make_tool(
            make_signature(name="Mail", inputs=inputs, outputs=(done,)),
            endpoint=make_endpoint(url=vendor.url),
        )
        mail_inputs = {"to": {"input": "recipient"}, "about": {"input": "subject"}}
        real = activities.create(
            actor=owner,
            name="Mailer",
            kind="vendor",
            config={
                "steps": [{"tool": mailer.pk, "ordinal": 1, "inputs": mail_inputs}],
                "outputs": {"sent": {"step": 1, "output": "ok"}},
            },
            interface=definition.current,
        )
        api.put(f"{places}production/bindings/sendEmail/", {"activity": real.pk}, format="json")
        result = client.post(INVOKE, {"arguments": MAIL, "environment": "production"}).json()
        assert (result["outcome"], result["outputs"], result["activity"]) == ("ok", {"sent": True}, "Mailer")
        assert len(vendor.requests) == 1

    # The interface was one and the same all along.
    rows = [
        api.get(f"{places}{name}/bindings/").json()["results"] for name in ("prototype", "test", "production")
    ]
    assert [[row["runs"] for row in column] for column in rows] == [["latent"], ["activity"], ["activity"]]
    assert {row["digest"] for column in rows for row in column} == {definition.current.digest}
    after = [client.get(TOOLS, {"format": name}).content for name in ("mcp", "json-schema", "anthropic")]
    assert after == before


def test_what_carries_a_tool_out_is_composed_by_the_three_rules(api, desk):
    definition = Tool.objects.get(name="sendEmail")
    pin = definition.pins.get()
    owner = pin.created_by
    client = runtime(owner, desk)
    tag, activity, branch = composed(client)
    assert (activity, "_output" in branch["required"]) == ("", True)
    one = client.get(f"{TOOLS}sendEmail/", {"format": "tool-system"})
    assert one.json() == branch
    assert client.get(TOOLS, {"format": "tool-system"}, headers={"If-None-Match": tag}).status_code == 304

    # An activity of the tool's own name carries it out, with no configuration at all.
    send_activity = activities.create(
        actor=owner, name="sendEmail", kind="mock", config={}, interface=definition.current
    )
    again, activity, branch = composed(client)
    assert (activity, "_output" in branch["required"]) == ("sendEmail", False)
    assert again != tag
    changed = client.get(TOOLS, {"format": "tool-system"}, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    ran = client.post(INVOKE, {"arguments": MAIL}).json()
    assert (ran["outcome"], ran["activity"]) == ("ok", "sendEmail")

    # One that is named goes before it, and is an error until it is there.
    api.patch(f"/api/v1/definitions/{definition.pk}/", {"activity": "smtp"}, format="json")
    api.patch(f"/api/v1/agents/desk/pins/{pin.pk}/", {"version": 2}, format="json")
    accepted = {"channel": "live", "accept": ["unknown_activity"], "reason": "It is registered later."}
    api.post("/api/v1/agents/desk/releases/", accepted, format="json")
    refused = client.get(TOOLS, {"format": "tool-system"})
    assert (refused.status_code, refused.json()["code"]) == (409, "unknown_activity")
    assert [*refused.json()["fields"]] == ["sendEmail"]
    assert client.post(INVOKE, {"arguments": MAIL}).json()["code"] == "unknown_activity"
    activities.change(send_activity, actor=owner, name="smtp")
    assert composed(client)[1] == "smtp"
    assert client.post(INVOKE, {"arguments": MAIL}).json()["activity"] == "smtp"

    # In an environment that leaves it to the model, it is latent all the same.
    place = environments.create(desk, actor=owner, name="prototype")
    environments.bind(place, definition, actor=owner, activity=None)
    assert composed(client, environment="prototype")[1] == ""
    unknown = client.get(TOOLS, {"format": "tool-system", "environment": "moon"})
    assert (unknown.status_code, unknown.json()["code"]) == (400, "unknown_environment")
