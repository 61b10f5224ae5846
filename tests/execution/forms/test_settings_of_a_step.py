"""The configuration of an ACP agent is a form where a step of an activity calls that agent."""

import pytest

from catalog.models import Activity
from people.models import Role
from protocols.acp.client import ACP
from tests.catalog.views.test_definitions import Fields, press
from tests.factories import make_endpoint, make_tool
from tests.pages import signed_in

pytestmark = pytest.mark.django_db
NEW = "/activities/new/?kind=vendor"
CONFIG = {
    "type": "object",
    "properties": {"tone": {"type": "string", "enum": ["warm", "dry"]}, "pages": {"type": "integer"}},
    "required": ["tone"],
    "additionalProperties": False,
}
AGENT = {
    "metadata": {"ref": {"name": "Sky", "version": "1.0.0"}, "description": "Tells."},
    "specs": {
        "capabilities": {},
        "input": {"type": "object", "properties": {}},
        "output": {"type": "object", "properties": {}},
        "config": CONFIG,
    },
}


@pytest.fixture
def editing():
    """The page of a new activity with a step that calls the agent, and the prefix of its configuration."""
    tool = make_tool(ACP().read(AGENT), endpoint=make_endpoint(protocol="acp"))
    client = signed_in(Role.DESIGNER)
    page = press(client, NEW, client.get(NEW), act=f"add-tool:{tool.pk}:1")
    names = {value: name for name, value in Fields(page).sent.items() if name.endswith("-name")}
    return client, page, names["config"].removesuffix("-name")


def filled(prefix, **typed):
    settings = {f"{prefix}-configuration-{name}": value for name, value in typed.items()}
    return {"name": "Sky", f"{prefix}-from": "fixed"} | settings


def test_the_fields_of_a_configuration_are_saved_as_a_fixed_value(editing):
    client, page, row = editing
    typed = filled(row, **{"input-0": "3", "input-1": "warm"})
    answer = press(client, NEW, page, act="save", **typed)
    assert answer.status_code == 302, answer.content.decode()
    activity = Activity.objects.get()
    (step,) = activity.current.config["steps"]
    assert step["inputs"] == {"config": {"value": {"tone": "warm", "pages": 3}}}
    again = client.get(f"/activities/{activity.pk}/change/")
    sent = Fields(again).sent
    assert {name: value for name, value in sent.items() if "configuration-input" in name} == {
        f"{row}-configuration-input-0": "3",
        f"{row}-configuration-input-1": "warm",
    }
    assert press(client, f"/activities/{activity.pk}/change/", again, act="save").status_code == 302
    assert activity.versions.count() == 1


@pytest.mark.parametrize(
    "typed",
    [{"input-0": "3"}, {"input-0": "many", "input-1": "warm"}, {"json": '{"tone": "loud"}'}, {"json": "{"}],
)
def test_a_configuration_that_does_not_fit_is_refused_and_shown_again(editing, typed):
    client, page, row = editing
    answer = press(client, NEW, page, act="save", **filled(row, **typed))
    assert answer.status_code == 200
    assert not Activity.objects.exists()
    sent = Fields(answer).sent
    assert {name: sent[f"{row}-configuration-{name}"] for name in typed} == typed
    assert f'id="{row}-error"' in answer.content.decode()
