"""One judgement of whether a tool runs: the pure rule, and what publishing and preflight show of it."""

from datetime import UTC, datetime, timedelta

import pytest

from catalog.models import Call
from catalog.tools import definitions
from catalog.tools.definitions import Parts
from designer import environments
from designer.readiness.judgement import EVIDENCE_AGE, LastCall, Obstacle, ToolFacts, judge
from designer.resolution import VENDOR, Resolution
from people.models import Role
from tests.factories import make_agent, make_pin, make_signature, make_tool, make_user
from tests.pages import signed_in

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
ACTIVITY = Resolution("activity", "bound", 7)


def worst(**facts):
    state = judge(ToolFacts(**{"resolution": VENDOR, "runner": "Bramble"} | facts), NOW)[0]
    return state.code, state.severity


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ("not_tested", "neutral")),
        ({"last_call": LastCall(NOW - timedelta(minutes=3), True)}, ("answered", "proven")),
        ({"last_call": LastCall(NOW - timedelta(minutes=3), False)}, ("last_call_failed", "warning")),
        ({"last_call": LastCall(NOW - 2 * EVIDENCE_AGE, True)}, ("not_tested", "neutral")),
        ({"resolution": ACTIVITY, "invents": True}, ("mock", "neutral")),
        (
            {
                "resolution": ACTIVITY,
                "invents": True,
                "last_call": LastCall(NOW - timedelta(minutes=3), True),
            },
            ("mock", "neutral"),
        ),
        ({"resolution": Resolution("latent", "no_activity")}, ("not_connected", "error")),
        ({"resolution": Resolution("latent", "bound")}, ("simulated", "warning")),
        (
            {
                "obstacles": (Obstacle("credential_ended", "stops", "It is refused.", "Renew it."),),
                "last_call": LastCall(NOW, True),
            },
            ("credential_ended", "error"),
        ),
        ({"obstacles": (Obstacle("user_needed", "asks", "A.", "B."),)}, ("not_tested", "neutral")),
    ],
)
def test_a_tool_is_proven_only_by_evidence(facts, expected):
    assert worst(**facts) == expected


@pytest.fixture
def page(db):
    return signed_in(Role.DESIGNER)


def draft(page):
    return page.get("/api/v1/agents/desk/draft/").json()


def answered(pin, *, outcome="ok", agent=None):
    Call.objects.create(
        tool=pin.tool,
        version=pin.version,
        requested_name="runtime",
        agent=agent,
        status="finished",
        outcome=outcome,
        gives_up_at=datetime.now(UTC),
        finished_at=datetime.now(UTC),
    )


def test_publishing_with_nothing_connected_has_to_be_accepted_with_a_reason(page):
    agent = make_agent(slug="desk")
    inputs = {"type": "object", "properties": {"to": {"type": "string"}}}
    output = {"type": "object", "properties": {"sent": {"type": "boolean"}}}
    parts = Parts(name="sendEmail", title="", description="Sends a mail.", inputs=inputs, output=output)
    make_pin(agent, definitions.define(actor=make_user(Role.ADMIN), parts=parts))
    send = {"content_type": "application/json"}
    refused = page.post("/api/v1/agents/desk/releases/", {}, **send)
    failed = [check["code"] for check in refused.json()["checks"] if check["severity"] == "error"]
    assert (refused.status_code, failed) == (409, ["not_connected"])
    accepted = {"accept": ["not_connected"], "reason": "The model answers in this demonstration."}
    assert page.post("/api/v1/agents/desk/releases/", accepted, **send).status_code == 201
    # Bound by a person to be simulated in the default environment, it is a decision and no gap.
    place = environments.create(agent, actor=make_user(Role.DESIGNER), name="test", is_default=True)
    environments.bind(place, agent.pins.get().tool, actor=make_user(Role.DESIGNER), activity=None)
    assert draft(page)["readiness"][0]["state"]["code"] == "simulated"


def test_a_draft_states_what_is_known_of_each_tool(page):
    agent = make_agent(slug="desk")
    pin = make_pin(agent, make_tool(make_signature("sky")))
    (tool,) = draft(page)["readiness"]
    assert (tool["agent"], tool["tool"], tool["state"]["severity"]) == ("desk", "sky", "neutral")

    # Calls of agents of other teams are no evidence here.
    answered(pin, agent=agent.pk + 1)
    assert draft(page)["readiness"][0]["state"]["code"] == "not_tested"
    answered(pin, agent=agent.pk)
    assert draft(page)["readiness"][0]["state"]["severity"] == "proven"
    answered(pin, agent=agent.pk, outcome="tool_error")
    assert draft(page)["readiness"][0]["state"]["code"] == "last_call_failed"


def test_a_page_is_green_only_when_every_tool_is_proven(page):
    agent = make_agent(slug="desk")
    pin = make_pin(agent, make_tool(make_signature("sky")))
    assert not page.get("/agents/desk/publish/").context["review"].is_proven
    answered(pin, agent=agent.pk)
    review = page.get("/agents/desk/publish/").context["review"]
    assert review.is_proven == all(check.severity == "ok" for check in review.checks)
    assert review.unproven_count == 0
