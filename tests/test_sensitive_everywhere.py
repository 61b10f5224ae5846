"""The values of marked inputs and outputs are on no page and in no reply of REST, whatever door is opened.

Rows have the ids and slugs of the sample addresses of `test_roles.routes`, so a new door is walked without a
change here.
"""

import json
import uuid

import pytest
from django.apps import apps
from django.db import connection, models
from django.test import Client

from catalog.models import Call, Example, Tool
from catalog.tools import sensitive_values
from designer.agents import agents
from designer.environments import environments, mocks
from designer.pins import pins, tunings
from designer.procedures import editing as procedures
from designer.rehearsals import sentences
from designer.releases import channels, publishing, rehearsed
from execution.activities import operations
from execution.calls import examples, requesting
from people import api_keys
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user, make_vendor
from tests.test_roles import SAMPLES, routes

INPUT, OUTPUT = "Kn4ry1nput7f3a", "Kn4ry0utput9b2c"
# Doors that are known to have the rows below; a walk that finds none of them proves nothing.
FILLED = {
    "activity",
    "activity-change",
    "agent",
    "api-activity",
    "api-activity-version-list",
    "api-agent-draft",
    "api-agent-file",
    "api-audit-list",
    "api-call",
    "api-call-list",
    "api-example",
    "api-example-list",
    "api-mock",
    "api-mock-list",
    "api-mock-call-list",
    "api-pin",
    "api-pin-list",
    "api-pin-tuning",
    "api-rehearsal",
    "api-rehearsal-list",
    "api-rehearsal-run",
    "api-release-diff",
    "api-tool",
    "api-tool-tuning",
    "audit",
    "audit-entry",
    "mock",
    "mocks",
    "mock-rehearsal",
    "pin",
    "pin-shown",
    "publish",
    "rehearsal-edit",
    "rehearsals",
    "release",
    "tool",
    "tool-call",
    "tool-try",
    "tool-tuning",
    "tool-usage",
}
# Pages that show these values on request.
SHOWN = {
    "activity-show": f"{INPUT} {OUTPUT}",
    "mock-show": f"{INPUT} {OUTPUT}",
    "pin-show": f"{INPUT}3",
    "rehearsal-show": INPUT,
    "tool-tuning-show": INPUT,
}
# Bytes that are signed, which a runtime needs to call the tool: presets are never masked in them.
RELEASED = {"api-release-agent-tool", "api-release-bundle", "api-release-tool"}


@pytest.fixture
def admin(db, monkeypatch):
    """An administrator, before whom nothing is hidden by a team."""
    # A process remembers signatures by the ids of versions, which are given a second time here.
    monkeypatch.setattr(requesting, "_cached_signatures", {})
    first_ids()
    return make_user(Role.ADMIN, username="root")


def first_ids() -> None:
    """Restart the numbers of all empty tables, so that the first row of each has the id 1."""
    with connection.cursor() as cursor:
        for model in apps.get_models():
            if isinstance(model._meta.pk, models.AutoField) and not model._base_manager.exists():
                cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", [model._meta.db_table, "id"])
                (sequence,) = cursor.fetchone()
                cursor.execute(f"ALTER SEQUENCE {sequence} RESTART WITH 1")


@pytest.fixture
def tool(admin) -> Tool:
    vendor = make_vendor(slug=SAMPLES["slug"], name="Vendor")
    signature = make_signature(
        name=SAMPLES["str"], outputs=(make_parameter("receipt"), make_parameter("iban"))
    )
    tool = make_tool(signature, endpoint=make_endpoint(vendor=vendor))
    sensitive_values.mark(tool, actor=admin, inputs=["/city"], outputs=["/iban"])
    return tool


@pytest.fixture
def call(admin, tool) -> Call:
    """A call, and what people have made with its values: an example, a mock, a test, a release."""
    agent = agents.create_agent(actor=admin, name=SAMPLES["slug"])
    pin = pins.pin_tool(agent, actor=admin, tool=tool)
    row = requesting.request_call(tool.current, actor=admin, arguments={"city": INPUT}, is_confirmed=True)
    result = {
        "outputs": {"receipt": f"Paid from {OUTPUT}", "iban": OUTPUT},
        "attempts": [
            {"outcome": "ok", "exchanges": [{"method": "POST", "url": "http://v", "body": INPUT}]},
        ],
    }
    Call.objects.filter(pk=row.pk).update(
        status="finished", outcome="ok", key=SAMPLES["uuid"], result=json.dumps(result), agent=agent.pk
    )
    row = Call.objects.get(pk=row.pk)
    examples.save_example(row, actor=admin, name="One")
    steps = [{"tool": tool.pk, "ordinal": tool.current.ordinal, "inputs": {"city": {"value": INPUT}}}]
    outputs = {"receipt": {"step": 1, "output": "receipt"}, "iban": {"value": OUTPUT}}
    operations.create(
        actor=admin,
        name="Fixed",
        kind="vendor",
        config={"steps": steps, "outputs": outputs},
        interface=tool.current,
    )
    example = {"arguments": {"city": INPUT}, "outputs": {"receipt": "x", "iban": OUTPUT}}
    mocks.save(pin, actor=admin, config={"examples": [example]})
    mocks.edit(pin, actor=admin, change=lambda now: {**now, "seed": 2})
    sentences.add(agent, actor=admin, new_sentences=[sentences.NewSentence("Pay", pin.name, {"city": INPUT})])
    sentences.change(agent.rehearsals.get(), actor=admin, says="Pay it", inputs={"city": INPUT})
    rehearsed.run(agent, actor=admin)
    procedures.create_procedure(agent, actor=admin, title=SAMPLES["slug"], body=f"Call {pin.name}().")
    environments.create(agent, actor=admin, name=SAMPLES["slug"])
    tunings.tune(tool, actor=admin, parameters={"city": {"preset": INPUT}})
    tunings.tune(pin, actor=admin, title="Pay", parameters={"city": {"preset": INPUT, "hidden": True}})
    publishing.publish(agent, actor=admin)
    tunings.tune(pin, actor=admin, title="Pay", parameters={"city": {"preset": f"{INPUT}2", "hidden": True}})
    release = publishing.publish(agent, actor=admin)
    channels.move(agent, actor=admin, name=SAMPLES["slug"], release=release)
    tunings.tune(pin, actor=admin, title="Pay", parameters={"city": {"preset": f"{INPUT}3"}})
    mocks.call_step(pin, actor=admin, key=uuid.uuid4(), arguments={"city": INPUT}, seconds=1)
    return row


def test_no_door_shows_a_sensitive_value(call, admin):
    client = Client(raise_request_exception=False)
    client.force_login(admin)
    answers = {}
    for route in routes():
        answer = client.get(route.path, follow=True)
        answers[route.name, route.path] = (answer.status_code, answer.getvalue())
    reached = {name for (name, _), (status, _) in answers.items() if status == 200}
    assert not (FILLED | RELEASED) - reached, {n: a for n, a in answers.items() if n[0] in FILLED - reached}
    leaks = [
        (name, path)
        for (name, path), (_, content) in answers.items()
        if name not in RELEASED and (INPUT.encode() in content or OUTPUT.encode() in content)
    ]
    assert leaks == []
    assert all(INPUT.encode() in content for (name, _), (_, content) in answers.items() if name in RELEASED)
    shown = client.post(f"/api/v1/tools/{call.tool_id}/calls/{call.pk}/show/").content.decode()
    assert INPUT in shown
    assert OUTPUT in shown
    assert Example.objects.get().arguments == {"city": INPUT}


def test_each_place_shows_its_values_on_request_and_the_audit_trail_records_it(call, admin):
    client = Client()
    client.force_login(admin)
    paths = {route.name: route.path for route in routes() if route.name in SHOWN}
    assert paths.keys() == SHOWN.keys()
    for name, path in paths.items():
        entries = AuditEntry.objects.filter(action="show sensitive", actor=admin)
        count = entries.count()
        page = client.post(path).content.decode()
        assert [value for value in SHOWN[name].split() if value not in page] == [], name
        assert entries.count() == count + 1, name
        assert "Kn4ry" not in json.dumps(entries.latest("id").after), name


def test_pages_offer_to_show_what_they_mask(call, admin):
    client = Client()
    client.force_login(admin)
    paths = {route.name: route.path for route in routes()}
    pages = ("activity", "mock", "pin", "rehearsal-edit", "tool-tuning")
    for page, action in zip(pages, sorted(SHOWN), strict=True):
        assert f'action="{paths[action]}"' in client.get(paths[page]).content.decode(), page


def test_an_export_that_a_session_reads_is_recorded_once_and_one_of_a_key_is_not(call, admin):
    address = f"/api/v1/agents/{SAMPLES['slug']}/releases/1/bundle/"
    entries = AuditEntry.objects.filter(action="show sensitive", kind="release")
    _key, secret = api_keys.issue(admin, actor=admin, name="Reads", scopes=["runtime"])
    by_key = Client().get(address, headers={"authorization": f"Bearer {secret}"})
    assert not entries.exists()
    session = Client()
    session.force_login(admin)
    answers = [session.get(address).content for _ in range(2)]
    assert answers == [by_key.content] * 2
    assert INPUT.encode() in by_key.content
    assert [entry.actor for entry in entries] == [admin]
