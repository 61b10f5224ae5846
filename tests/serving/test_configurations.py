"""Configurations of a tool: stored under a name, chosen for an agent, released, or sent with a call."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.models import Call, Configuration
from catalog.rules.sensitive_values import MASK
from catalog.tools import sensitive_values
from designer.exports import document as release_document
from designer.models import Pin, Release
from people.models import AuditEntry, Role
from protocols.acp.client import ACP
from tests.acp_runs import Runs
from tests.factories import make_endpoint, make_tool, make_user
from tests.hostile_vendor import HostileVendor
from tests.pages import text_of
from tests.serving.test_calls import GIVEN, desk_with, owner, runtime, url

__all__ = ["owner"]
pytestmark = pytest.mark.django_db
SCHEMA = {
    "type": "object",
    "properties": {"tone": {"type": "string", "enum": ["warm", "dry"]}, "pages": {"type": "integer"}},
    "required": ["tone"],
    "additionalProperties": False,
}
READ = ACP().read(
    {
        "metadata": {"ref": {"name": "Sky", "version": "1.0.0"}, "description": "Tells."},
        "specs": {
            "capabilities": {},
            "input": {"type": "object", "properties": {"Zip code": {"type": "string"}}},
            "output": {"type": "object", "properties": {}},
            "config": SCHEMA,
        },
    }
)
AGENT = "/api/v1/agents/desk/"


@pytest.fixture
def runs():
    runs = Runs()
    runs.end({"sky": "fair"})
    return runs


@pytest.fixture
def desk(owner, runs):
    members = ("inputs", "outputs", "schema_rest", "outputs_rest", "rest")
    fields = {name: getattr(READ, name) for name in members}
    with HostileVendor(runs) as vendor:
        yield desk_with(owner, vendor, protocol="acp", **fields)


@pytest.fixture
def api(owner):
    client = APIClient()
    client.force_authenticate(owner)
    return client


def url_of(pin, path=""):
    return f"/api/v1/tools/{pin.tool_id}/configurations/{path}"


def sent_configurations(runs):
    return [body["config"]["configurable"] for body in runs.started.values()]


def test_a_chosen_configuration_is_sealed_and_sent_and_hidden_from_models(api, owner, desk, runs):
    agent, pin = desk
    before = Release.objects.get().document
    assert "configuration" not in before
    saved = api.post(url_of(pin), {"name": "Letters", "values": {"tone": "warm"}}, format="json").json()
    assert (saved["name"], saved["number"]) == ("Letters", 1)
    values = {"tone": "dry", "pages": 2}
    other = api.post(url_of(pin), {"name": "letters", "values": values}, format="json").json()
    assert (other["name"], other["number"]) == ("Letters", 2)
    again = api.post(url_of(pin), {"name": "Letters", "values": values}, format="json").json()
    assert again["number"] == 2
    assert [row["number"] for row in api.get(url_of(pin)).json()["results"]] == [2]
    assert [state["number"] for state in api.get(url_of(pin, "letters/")).json()["states"]] == [2, 1]

    body = api.patch(f"{AGENT}pins/{pin.pk}/", {"configuration": "Letters@1"}).json()
    assert body["configuration"] == "Letters@1"
    assert [parameter["name"] for parameter in body["effective"]["inputs"]] == ["Zip code"]
    assert api.get(f"{AGENT}draft/").json()["changes"]
    published = api.post(f"{AGENT}releases/", {"channel": "live"})
    assert published.status_code == 201, published.json()
    tool = release_document.decode(Release.objects.latest("number").document).tools[0]
    assert str(tool.configuration) == "Letters@1"
    (shown_tool,) = api.get(f"{AGENT}releases/live/tools/?format=json-schema").json()["tools"]
    assert list(shown_tool["inputs"]["properties"]) == ["Zip_code"]
    assert shown_tool["wire"]["configuration"] == "Letters@1"
    diff = api.get(f"{AGENT}releases/2/diff/?against=1").json()
    assert "It runs as configured by “Letters@1” now." in str(diff)

    client = runtime(owner, agent)
    assert client.post(url(), GIVEN).json()["outcome"] == "ok"
    refused = client.post(url(), {"arguments": {"Zip_code": "0150", "config": {"tone": "dry"}}}).json()
    assert refused["outcome"] == "invalid_arguments"
    third = {"tone": "dry", "pages": 9}
    for diff in ("letters", "Letters@2", third):
        assert client.post(url(), GIVEN | {"configuration": diff}).json()["outcome"] == "ok"
    assert sent_configurations(runs) == [{"tone": "warm"}, values, values, third]
    wrong = client.post(url(), GIVEN | {"configuration": {"tone": "loud"}}).json()
    assert (wrong["outcome"], len(runs.started)) == ("invalid_arguments", 4)
    for diff in ("none", "Letters@7", 7, ""):
        assert "configuration" in client.post(url(), GIVEN | {"configuration": diff}).json()["fields"]
    assert client.post(url(number="1"), GIVEN).json()["outcome"] == "ok"
    assert (sent_configurations(runs)[-1], Release.objects.get(number=1).document) == ({}, before)

    assert api.delete(url_of(pin, "Letters/")).status_code == 204
    assert api.get(url_of(pin)).json()["results"] == []
    assert client.post(url(), GIVEN).json()["outcome"] == "ok"
    assert api.patch(f"{AGENT}pins/{pin.pk}/", {"configuration": None}).json()["configuration"] is None
    entries = AuditEntry.objects.filter(kind="tool", action__contains="config")
    assert sorted(entries.values_list("action", flat=True)) == [
        "configure",
        "configure",
        "remove configuration",
    ]


def test_values_are_judged_by_the_vendors_schema(api, desk):
    _, pin = desk
    for values in ({"tone": "loud"}, {}, {"tone": "dry", "more": 1}, "dry", None):
        refused = api.post(url_of(pin), {"name": "Letters", "values": values}, format="json")
        assert (refused.status_code, list(refused.json()["fields"])) == (400, ["values"]), values
    odd = api.post(url_of(pin), {"name": "a@b", "values": {"tone": "dry"}}, format="json")
    assert list(odd.json()["fields"]) == ["name"]
    plain = make_tool(endpoint=make_endpoint())
    nothing = api.post(
        f"/api/v1/tools/{plain.pk}/configurations/", {"name": "x", "values": {}}, format="json"
    )
    assert "nothing to configure" in nothing.json()["fields"]["values"]
    assert not Configuration.objects.exists()
    assert api.get(url_of(pin, "none/")).status_code == 404
    assert api.patch(f"{AGENT}pins/{pin.pk}/", {"configuration": "none"}).status_code == 400


def test_a_version_that_does_not_take_the_configuration_is_told(api, desk):
    _, pin = desk
    api.post(url_of(pin), {"name": "Letters", "values": {"tone": "warm"}}, format="json")
    api.patch(f"{AGENT}pins/{pin.pk}/", {"configuration": "Letters"})
    Configuration.objects.update(values={"tone": "loud"})
    (misfit,) = api.get(f"{AGENT}pins/{pin.pk}/").json()["misfits"]
    assert "config" in misfit
    assert api.post(f"{AGENT}releases/", {}).status_code == 409
    assert Pin.objects.get().configuration is not None
    assert not Call.objects.exists()


def test_a_viewer_reads_and_keeps_nothing(desk):
    _, pin = desk
    client = APIClient()
    client.force_authenticate(make_user(Role.VIEWER))
    assert client.get(url_of(pin)).status_code == 200
    refused = client.post(url_of(pin), {"name": "x", "values": {"tone": "dry"}}, format="json")
    assert refused.status_code == 403


@pytest.mark.parametrize(
    ("typed", "configuration"),
    [
        ({"configuration-input-0": "5", "configuration-input-1": "warm"}, {"tone": "warm", "pages": 5}),
        ({"configuration-json": '{"tone": "dry"}'}, {"tone": "dry"}),
        ({"json": '{"config": {"tone": "dry"}}', "configuration-input-0": "5"}, {"tone": "dry"}),
        ({"configuration-input-0": "", "configuration-input-1": ""}, None),
    ],
)
def test_a_configuration_is_filled_in_as_a_form_where_a_tool_is_tried(desk, owner, typed, configuration):
    _, pin = desk
    page = Client()
    page.force_login(owner)
    here = f"/tools/{pin.tool_id}/try/"
    assert 'name="configuration-input-1"' in page.get(here).content.decode()

    sent_form = page.post(here, {"ordinal": "1", "confirm": "on", **typed})

    assert sent_form.status_code == 302, text_of(sent_form)
    call = Call.objects.get()
    assert call.arguments.get("config") == configuration
    again = page.get(f"{here}?call={call.pk}").content.decode()
    assert ('value="warm" selected' in again) == ((configuration or {}).get("tone") == "warm")


@pytest.mark.parametrize(
    "typed",
    [
        {"configuration-input-0": "5"},
        {"configuration-input-1": "loud"},
        {"configuration-json": "{"},
        {"json": '{"config": {"tone": "loud"}}'},
    ],
)
def test_a_configuration_that_the_schema_refuses_is_not_sent(desk, owner, typed):
    _, pin = desk
    page = Client()
    page.force_login(owner)

    refused = page.post(f"/tools/{pin.tool_id}/try/", {"ordinal": "1", "confirm": "on", **typed})

    assert refused.status_code != 302
    assert "field-error" in refused.content.decode() or "form-error" in refused.content.decode()
    assert not Call.objects.exists()


def test_configurations_are_kept_and_chosen_on_pages(api, desk, owner):
    _, pin = desk
    page = Client()
    page.force_login(owner)
    here = f"/tools/{pin.tool_id}/configurations/"
    assert here in page.get(f"/tools/{pin.tool_id}/").content.decode()
    refused = page.post(here, {"name": "Letters", "values-input-0": "5"}).content.decode()
    assert "field-error" in refused
    saved = page.post(here, {"name": "Letters", "values-input-0": "5", "values-input-1": "warm"}, follow=True)
    assert "Letters@1" in text_of(saved), text_of(saved)
    row = Configuration.objects.get()
    assert row.values == {"tone": "warm", "pages": 5}
    assert 'value="Letters"' in page.get(f"{here}?from={row.pk}").content.decode()
    pinned = f"/agents/desk/pins/{pin.pk}/"
    assert "Letters@1" in page.get(pinned).content.decode()
    page.post(f"{pinned}configuration/", {"configuration": "Letters@1"})
    pin.refresh_from_db()
    assert pin.configuration == row
    assert page.post(f"{pinned}configuration/", {"configuration": "none"}).status_code == 200
    assert "chosen by an agent" in page.get(here).content.decode()
    page.post(f"{here}{row.pk}/remove/")
    assert "None yet" in page.get(here).content.decode()
    assert "Letters@1" in page.get(pinned).content.decode(), "it goes on with it"
    assert page.post(f"{pinned}configuration/", {"configuration": "Letters@1"}).status_code == 302
    assert api.patch(f"{AGENT}pins/{pin.pk}/", {"configuration": "Letters@1"}).status_code == 200
    assert api.patch(f"{AGENT}pins/{pin.pk}/", {"configuration": "Letters"}).status_code == 400
    pin.refresh_from_db()
    assert pin.configuration == row
    assert page.get(f"/tools/{make_tool(endpoint=make_endpoint()).pk}/configurations/").status_code == 404


def test_sensitive_members_are_masked_and_stay_as_stored(api, owner, desk):
    _, pin = desk
    sensitive_values.mark(pin.tool, actor=owner, inputs=["/config/tone"], outputs=[])
    for values in ({"tone": "warm"}, {"tone": MASK, "pages": 2}):
        saved = api.post(url_of(pin), {"name": "Letters", "values": values}, format="json")
        assert saved.status_code == 201, saved.json()
    assert [row.values["tone"] for row in Configuration.objects.all()] == ["warm", "warm"]
    page = Client()
    page.force_login(owner)
    here = f"/tools/{pin.tool_id}/configurations/"
    row = Configuration.objects.get(number=2)
    entries = AuditEntry.objects.filter(action="configure")
    texts = {
        "audit": str(list(entries.values("before", "after"))),
        "reply": saved.content.decode(),
        "list": api.get(url_of(pin)).content.decode(),
        "states": api.get(url_of(pin, "Letters/")).content.decode(),
        "page": page.get(here).content.decode().partition('id="kept"')[2],
        "form": str(page.get(f"{here}?from={row.pk}").context["values_form"].initial),
    }
    assert [name for name, text in texts.items() if "warm" in text or MASK not in text] == []
