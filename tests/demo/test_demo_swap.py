"""Pennypost sends an agent's mail; then Larkspur does, and nothing that the agent reads has changed."""

import threading

import pytest
from django.urls import reverse

from catalog.enumeration import runs
from catalog.models import Activity, Tool
from catalog.models.runs import Trigger
from demo import VENDORS
from demo.__main__ import SERVERS
from designer.agents import agents
from designer.environments import environments
from designer.models import ProcedureVersion, Release
from designer.pins import pins
from designer.procedures import editing
from designer.releases import publishing
from people.models import Role
from tests.catalog.views.test_activities import press, row_of, user_of
from tests.factories import make_endpoint, make_vendor
from tests.pages import signed_in, text_of
from tests.serving.test_calls import runtime

pytestmark = pytest.mark.django_db
ASKED = {"To": "ada@example.com", "Heading": "Your refill is ready"}
PROCEDURE = """Send a reminder once a refill is ready.
1. Ask for {To} and {Heading}.
2. Call deliver_message() with what was said.
"""


@pytest.fixture
def tools():
    """The tools of both vendors, enumerated over HTTP as those of every vendor are."""
    servers = []
    for vendor in VENDORS:
        if vendor.slug in ("pennypost", "larkspur"):
            server = SERVERS[vendor.protocol](0, vendor, None)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
            servers.append(server)
            endpoint = make_endpoint(
                vendor=make_vendor(name=vendor.name, slug=vendor.slug),
                url=f"http://127.0.0.1:{server.server_address[1]}",
                protocol=vendor.protocol,
            )
            runs.perform(runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    yield {tool.name: tool for tool in Tool.objects.select_related("current")}
    for server in servers:
        server.shutdown()
        server.server_close()


def lint(client):
    payload = {"body": PROCEDURE, "procedure": "reminders"}
    url = "/api/v1/agents/post-room/procedures/lint/"
    return client.post(url, payload, content_type="application/json").json()["lint"]


def test_a_vendor_is_swapped_and_signature_release_and_procedure_stay(tools):
    client = signed_in(Role.DESIGNER)
    actor = user_of(client)
    agent = agents.create_agent(actor=actor, name="Post room", slug="post-room")
    pin = pins.pin_tool(agent, actor=actor, tool=tools["deliver_message"])
    editing.create_procedure(agent, actor=actor, title="Reminders", body=PROCEDURE)
    publishing.publish(agent, actor=actor, channel="live")
    place = environments.create(agent, actor=actor, name="production", is_default=True)
    program = runtime(actor, agent)
    url = f"/api/v1/agents/post-room/releases/live/tools/{pin.name}/invoke/"
    before = program.post(url, {"arguments": ASKED}, format="json").json()
    assert before["outputs"]["Message_number"].startswith("PP-")
    stated = (Release.objects.get().digest, pin.version.digest, ProcedureVersion.objects.get().pk)
    assert lint(client) == []

    here = reverse("tool-same-job", args=[pin.tool_id]) + f"?pin={pin.pk}"
    assert "Notes_SendNote" in text_of(client.get(here))
    page = client.get(
        f"{here}&by=tool:{tools['Notes_SendNote'].pk}:{tools['Notes_SendNote'].current.ordinal}"
    )
    page_text = text_of(page)
    assert "“message” is required. Choose what to send without it." in page_text
    typed = {f"{row_of(page, 'message')}-otherwise": "(no text)", "environment": str(place.pk)}
    done = press(client, here, page, "bind", **typed)
    assert "do not change" in text_of(client.get(done.headers["Location"]))
    assert Activity.objects.get().current.config["steps"][0]["inputs"] == {
        "email_address": {"input": "To"},
        "title": {"input": "Heading"},
        "message": {"input": "Text", "otherwise": "(no text)"},
    }

    after = program.post(url, {"arguments": ASKED}, format="json").json()
    assert after["outcome"] == "ok"
    assert after["outputs"]["Accepted"] is True
    assert after["outputs"]["Message_number"].startswith("LN-")
    pin.refresh_from_db()
    assert stated == (Release.objects.get().digest, pin.version.digest, ProcedureVersion.objects.get().pk)
    assert lint(client) == []
