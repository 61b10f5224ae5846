"""Values of a marked input or output are masked in all calls and in the configuration of an activity."""

import pytest
from rest_framework.test import APIClient

from catalog.models import Call, Tool
from catalog.rules.sensitive_values import MASK
from catalog.tools import sensitive_values
from execution.activities import operations
from people.models import AuditEntry, Role
from tests.catalog.views.test_definitions import Fields, press
from tests.execution.activities.test_steps import call, composite, make_activity, two_steps
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor, in_turn, json_reply
from tests.pages import signed_in_as

pytestmark = pytest.mark.django_db
# One is too short to be looked for in longer texts.
PLACE, CITY, SKY = "Kn4ry1nput7f3a", "Ur", "Kn4ry0utput9b2c"


@pytest.fixture
def admin():
    return make_user(Role.ADMIN)


@pytest.fixture
def client(admin):
    client = APIClient()
    client.force_login(admin)
    return client


@pytest.fixture
def ended(admin):
    """The call of a composite, whose steps have run: each value comes from an earlier one."""
    where = {"city": CITY, "note": f"asked for {PLACE}"}
    replies = [
        json_reply({"output_parameters": [{"name": name, "value": value}]})
        for name, value in (("where", where), ("weather", SKY))
    ]
    with HostileVendor(in_turn(*replies)) as vendor:
        interface, config = two_steps(vendor.url)
        return call(interface, composite(interface, config), actor=admin, place=PLACE)


def texts_of_doors(client, rows) -> dict[str, str]:
    addresses = {
        address
        for row in rows
        for address in (
            f"/api/v1/tools/{row.tool_id}/calls/",
            f"/api/v1/tools/{row.tool_id}/calls/{row.pk}/",
            f"/tools/{row.tool_id}/try/",
            f"/tools/{row.tool_id}/try/?call={row.pk}",
        )
    }
    replies = {address: client.get(address) for address in sorted(addresses)}
    assert {reply.status_code for reply in replies.values()} == {200}
    return {address: reply.content.decode() for address, reply in replies.items()}


def test_steps_do_not_repeat_a_marked_input_of_their_activity(ended, admin, client):
    rows = [ended, *ended.steps.all()]
    assert any(PLACE in text for text in texts_of_doors(client, rows).values())
    sensitive_values.mark(ended.tool, actor=admin, inputs=["/place"], outputs=["/sky"])
    leaks = [
        address for address, text in texts_of_doors(client, rows).items() if PLACE in text or SKY in text
    ]
    assert leaks == []


def test_an_example_of_a_step_leaves_out_what_it_repeats(ended, admin, client):
    finds = ended.steps.order_by("pk").first()
    sensitive_values.mark(ended.tool, actor=admin, inputs=["/place"], outputs=[])
    address = f"/api/v1/tools/{finds.tool_id}/examples/"
    assert client.post(address, {"call": finds.pk, "name": "One"}).json()["arguments"] == {}
    assert finds.tool.examples.get().arguments == {}


def test_an_activity_does_not_repeat_a_marked_output_of_a_step(ended, admin, client):
    finds, tells = ended.steps.order_by("pk")
    sensitive_values.mark(finds.tool, actor=admin, inputs=[], outputs=["/where/city"])
    sensitive_values.mark(tells.tool, actor=admin, inputs=[], outputs=["/weather"])
    assert [a for a, text in texts_of_doors(client, [ended]).items() if SKY in text] == []
    step = client.get(f"/api/v1/tools/{tells.tool_id}/calls/{tells.pk}/").json()
    assert (step["arguments"], step["outputs"]) == ({"city": MASK}, {"weather": MASK})
    shown = client.post(f"/api/v1/tools/{ended.tool_id}/calls/{ended.pk}/show/").json()
    assert shown["outputs"] == {"sky": SKY}


def test_the_other_calls_of_a_tool_stay_as_they_are(ended, admin, client):
    finds = ended.steps.order_by("pk").first()
    alone = Call.objects.get(pk=finds.pk)
    alone.pk, alone.parent, alone.key = None, None, "6e1a8f0e-0000-4000-8000-000000000001"
    alone.save()
    sensitive_values.mark(ended.tool, actor=admin, inputs=["/place"], outputs=[])
    row = client.get(f"/api/v1/tools/{alone.tool_id}/calls/{alone.pk}/").json()
    assert row["arguments"] == {"name": PLACE}


def test_fixed_values_of_an_activity_are_masked_in_the_audit_trail(admin):
    interface, config = two_steps("http://127.0.0.1:9")
    finds, tells = config["steps"]
    sensitive_values.mark(interface.tool, actor=admin, inputs=["/place"], outputs=["/sky"])
    sensitive_values.mark(Tool.objects.get(pk=tells["tool"]), actor=admin, inputs=["/city"], outputs=[])
    steps = [
        {**finds, "inputs": {"name": {"input": "place", "otherwise": PLACE}}},
        {**tells, "inputs": {"city": {"value": PLACE}}},
    ]
    activity = make_activity("composite", steps, {"sky": {"value": SKY}}, interface)
    outer = [{"activity": activity.pk, "inputs": {"place": {"value": PLACE}}}]
    make_activity("composite", outer, {}, interface)
    operations.change(activity, actor=admin, config={"steps": steps[:1], "outputs": {}})
    entries = list(AuditEntry.objects.filter(kind="activity").order_by("pk").values("before", "after"))
    assert len(entries) == 3
    assert [text for text in map(str, entries) if PLACE in text or SKY in text] == []
    assert entries[0]["after"]["config"]["steps"][1]["tool"] == tells["tool"]


@pytest.fixture
def fixed(admin):
    """A shared activity with fixed values of a marked input and output, and its versions."""
    interface, config = two_steps("http://127.0.0.1:9")
    finds, tells = config["steps"]
    sensitive_values.mark(interface.tool, actor=admin, inputs=["/place"], outputs=["/sky"])
    sensitive_values.mark(Tool.objects.get(pk=tells["tool"]), actor=admin, inputs=["/city"], outputs=[])
    steps = [
        {**finds, "inputs": {"name": {"input": "place", "otherwise": f"{PLACE}1"}}},
        {**tells, "inputs": {"city": {"value": f"{PLACE}2"}}},
    ]
    activity = make_activity("composite", steps, {"sky": {"value": SKY}}, interface)
    later = {"steps": steps, "outputs": {"sky": {"value": f"{SKY}2"}}}
    return operations.change(activity, actor=admin, config=later)


def test_fixed_values_are_masked_on_pages_and_over_rest(fixed, client):
    addresses = [
        f"/activities/{fixed.pk}/",
        f"/activities/{fixed.pk}/change/",
        f"/api/v1/activities/{fixed.pk}/",
        f"/api/v1/activities/{fixed.pk}/versions/",
    ]
    replies = {address: client.get(address) for address in addresses}
    assert {reply.status_code for reply in replies.values()} == {200}
    texts = {address: reply.content.decode() for address, reply in replies.items()}
    assert [address for address, text in texts.items() if PLACE in text or SKY in text] == []
    assert [address for address, text in texts.items() if MASK not in text] == []


def test_a_masked_fixed_value_stays_as_it_is_stored(fixed, client):
    before, address = fixed.current.config, f"/api/v1/activities/{fixed.pk}/"
    config = client.get(address).json()["config"]
    config["outputs"]["sky"]["value"] = "fair"
    changed = client.patch(address, {"config": config}, format="json")
    assert changed.status_code == 200
    fixed.refresh_from_db()
    assert fixed.current.config == {**before, "outputs": {"sky": {"value": "fair"}}}
    config["steps"][0]["inputs"]["name"] = {"value": MASK}
    refused = client.patch(address, {"config": config}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "masked_value")


def test_the_form_sends_masks_back(fixed, admin):
    client = signed_in_as(admin)
    before, address = fixed.current.config, f"/activities/{fixed.pk}/change/"
    page = client.get(address)
    assert MASK in Fields(page).sent.values()
    assert press(client, address, page, act="save", name="Renamed").status_code == 302
    fixed.refresh_from_db()
    assert (fixed.name, fixed.current.config) == ("Renamed", before)


def test_a_shared_mock_is_masked(admin, client):
    interface, _ = two_steps("http://127.0.0.1:9")
    sensitive_values.mark(interface.tool, actor=admin, inputs=["/place"], outputs=["/sky"])
    example = {"arguments": {"place": PLACE}, "outputs": {"sky": SKY}}
    mock = operations.create(
        actor=admin, name="Mock", kind="mock", config={"examples": [example]}, interface=interface
    )
    operations.change(mock, actor=admin, config={"seed": 3, "examples": [example]})
    addresses = [
        f"/activities/{mock.pk}/",
        f"/activities/{mock.pk}/change/",
        f"/api/v1/activities/{mock.pk}/",
    ]
    texts = [client.get(address).content.decode() for address in (*addresses, "/api/v1/audit/", "/audit/")]
    assert [text for text in texts if PLACE in text or SKY in text] == []
