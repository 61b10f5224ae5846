"""A sensitive preset is masked wherever people read it, and a mask that comes back stands for it."""

import json

import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.rules.sensitive_values import MASK
from catalog.tools import sensitive_values
from designer.agents import agents
from designer.files import agent_files
from designer.models import Tuning
from designer.pins import pins, tunings
from designer.releases import publishing
from people.models import Role
from tests.factories import make_parameter, make_signature, make_tool, make_user
from tests.module_data import module_data

pytestmark = pytest.mark.django_db
SECRET, OF_ALL = "Kn4ry1nput7f3a", "Kn4ryAll9b2c"
CUSTOMER = {"type": "object", "properties": {"name": {"type": "string"}, "ssn": {"type": "integer"}}}
PRESETS = {"city": {"preset": SECRET}, "customer": {"preset": {"name": "Eve", "ssn": 71}}}
ADDRESS = "/api/v1/agents/desk/pins/{}/tuning/"


@module_data
def designer():
    return make_user(Role.DESIGNER, username="ada")


@module_data
def pin(designer):
    inputs = (
        make_parameter("city"),
        make_parameter("customer", type="json", required=False, schema=CUSTOMER),
    )
    tool = make_tool(make_signature(name="pay", inputs=inputs))
    agent = agents.create_agent(actor=designer, name="Desk")
    pin = pins.pin_tool(agent, actor=designer, tool=tool)
    sensitive_values.mark(tool, actor=designer, inputs=["/city", "/customer/ssn"], outputs=[])
    tunings.tune(tool, actor=designer, parameters={"city": {"preset": OF_ALL}})
    tunings.tune(pin, actor=designer, title="Pay", parameters=PRESETS)
    return pin


@pytest.fixture
def api(designer):
    client = APIClient()
    client.force_login(designer)
    return client


def stored(pin) -> dict:
    tuning = Tuning.objects.get(pin=pin)
    return {"title": tuning.title, **{name: row["preset"] for name, row in tuning.parameters.items()}}


def test_a_mask_over_rest_stands_for_the_stored_preset(api, pin):
    address = ADDRESS.format(pin.pk)
    body = api.get(address).json()
    assert body["parameters"]["customer"]["preset"] == {"name": "Eve", "ssn": MASK}
    body["parameters"]["customer"]["preset"]["name"] = "Ida"
    answer = api.put(address, {"title": "Pay now", "parameters": body["parameters"]}, format="json")
    assert SECRET not in answer.content.decode()
    assert stored(pin) == {"title": "Pay now", "city": SECRET, "customer": {"name": "Ida", "ssn": 71}}
    refused = api.put(
        f"/api/v1/tools/{pin.tool_id}/tuning/",
        {"parameters": {"customer": {"preset": {"ssn": MASK}}}},
        format="json",
    )
    assert (refused.status_code, refused.json()["code"]) == (400, "masked_value")


def test_the_form_keeps_what_it_masks(designer, pin):
    client, address = Client(), f"/agents/desk/pins/{pin.pk}/"
    client.force_login(designer)
    form = client.get(address).context["form"]
    sent = {name: value for name, value in form.initial.items() if value not in (False, None)}
    assert MASK in sent.values()
    preview = client.post(f"{address}shown/", sent | {"format": "mcp"}).content.decode()
    assert client.post(address, sent | {"title": "Pay it"}).status_code == 302
    assert stored(pin) == {"title": "Pay it", "city": SECRET, "customer": PRESETS["customer"]["preset"]}
    assert MASK in preview
    assert SECRET not in preview


def test_a_late_editor_sees_masks(api, pin):
    address = ADDRESS.format(pin.pk)
    old = api.get(address)["ETag"]
    api.put(address, {"title": "Pay", "parameters": {"city": {"preset": "Kn4ryOther"}}}, format="json")
    late = api.put(
        address,
        {"title": "Late", "parameters": {"city": {"preset": "Kn4ryLate"}}},
        format="json",
        headers={"If-Match": old},
    )
    assert late.status_code == 409
    assert "Kn4ry" not in late.content.decode()
    assert MASK in json.dumps(late.json(), ensure_ascii=False)


def test_a_changed_preset_is_a_change_without_its_values(api, designer, pin):
    publishing.publish(pin.agent, actor=designer)
    customer = {"preset": {"name": "Eve", "ssn": 72}}
    tunings.tune(
        pin, actor=designer, title="Pay", parameters={"city": {"preset": "Kn4ryOther"}, "customer": customer}
    )
    draft = api.get("/api/v1/agents/desk/draft/").json()
    (tool,) = draft["changes"]
    members = {row["path"]: (row["before"], row["after"]) for row in tool["members"]}
    assert members == {
        "inputs.city.preset": (MASK, MASK),
        "inputs.customer.preset.ssn": (MASK, MASK),
    }


def test_a_lock_file_is_checked_without_the_presets(api, designer, pin):
    publishing.publish(pin.agent, actor=designer, channel="live")
    lock = api.get("/api/v1/agents/desk/releases/live/lock/").json()
    tunings.tune(pin, actor=designer, title="Pay", parameters={"city": {"preset": "Kn4ryOther"}})
    publishing.publish(pin.agent, actor=designer, channel="live")
    checked = api.post("/api/v1/agents/desk/check/", lock, format="json")
    assert checked.status_code == 200, checked.content.decode()
    assert "tool_changed" in {row["code"] for row in checked.json()["changes"]}
    assert "Kn4ry" not in checked.content.decode()


def test_a_file_has_masks_which_an_import_leaves_out(designer, pin):
    document = agent_files.write_file(pin.agent)
    assert "Kn4ry" not in json.dumps(document)
    imported = agent_files.import_file(
        agent_files.parse_file(document), actor=designer, is_dry_run=False, accept_missing=True
    )
    assert [part.code for part in imported.missing] == ["preset_masked"] * 2
    (copied,) = imported.agents["desk"].pins.live()
    assert stored(copied) == {"title": "Pay"}
