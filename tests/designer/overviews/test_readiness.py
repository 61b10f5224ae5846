"""One judgement of whether a tool runs: the pure rule, and what publishing and preflight show of it."""

from datetime import UTC, datetime, timedelta

import pytest

from catalog.models import Call
from catalog.tools import definitions
from catalog.tools.definitions import Parts
from designer.environments import environments
from designer.environments.resolution import VENDOR, Resolution
from designer.procedures import editing
from designer.readiness.judgement import (
    EVIDENCE_AGE,
    BreakingUpdate,
    LastCall,
    Obstacle,
    ProcedureFacts,
    RehearsalFacts,
    State,
    ToolFacts,
    judge_procedure,
    judge_tests,
    judge_tool,
)
from people.models import Role
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.pages import signed_in, text_of

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
ACTIVITY = Resolution("activity", "bound", 7)


def worst(**facts):
    state = judge_tool(ToolFacts(**{"resolution": VENDOR, "runner": "Bramble"} | facts), NOW)[0]
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
        (
            {"update": BreakingUpdate("3", ("“Refund”, line 31",)), "last_call": LastCall(NOW, True)},
            ("update_breaks", "warning"),
        ),
        ({"obstacles": (Obstacle("user_needed", "asks", "A.", "B."),)}, ("not_tested", "neutral")),
    ],
)
def test_a_tool_is_proven_only_by_evidence(facts, expected):
    assert worst(**facts) == expected


@pytest.mark.parametrize(
    ("facts", "code", "severity"),
    [
        ({"right": 0, "total": 0}, "tests_missing", "neutral"),
        ({"right": 2, "total": 7}, "tests_unexpected", "warning"),
        ({"right": 6, "total": 7}, "tests_unexpected", "warning"),
        ({"right": 6, "total": 7, "at_least": 6}, "tests_unexpected", "warning"),
        ({"right": 5, "total": 7, "at_least": 6}, "tests_below_threshold", "warning"),
        ({"right": 0, "total": 7, "judge": "Orrery"}, "tests_unexpected", "warning"),
        ({"right": 7, "total": 7, "at_least": 100}, "tests_passed", "proven"),
        ({"right": 7, "total": 7, "is_current": False}, "tests_outdated", "neutral"),
        ({"right": 3, "total": 7, "is_current": False}, "tests_unexpected", "warning"),
    ],
)
def test_tests_are_proven_only_when_all_of_the_newest_are_as_expected(facts, code, severity):
    state = judge_tests(RehearsalFacts(**facts))
    assert (state.code, state.severity) == (code, severity)
    assert (facts.get("judge") or "comparing words") in state.message or not facts["total"]


PASSED, ANSWERED = RehearsalFacts(right=2, total=2), State("answered", "proven", "Answered.")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ["tests_passed"]),
        ({"error_count": 1}, ["text_errors", "tests_passed"]),
        ({"warning_count": 2}, ["text_warnings", "tests_passed"]),
        ({"updates": (BreakingUpdate("3", ("line 31",), "refund"),)}, ["update_breaks", "tests_passed"]),
        ({"tools": ()}, ["tools_missing", "tests_passed"]),
        ({"tools": (ANSWERED, State("mock", "neutral", "A mock."))}, ["tools_unproven", "tests_passed"]),
        ({"tools": (State("x", "error", "X."), ANSWERED)}, ["tools_stopped", "tests_passed"]),
        ({"tests": RehearsalFacts(right=0, total=0)}, ["tests_missing"]),
    ],
)
def test_a_procedure_is_proven_only_with_its_text_tools_and_tests(facts, expected):
    defaults = {"error_count": 0, "warning_count": 0, "tools": (ANSWERED,), "tests": PASSED}
    states = judge_procedure(ProcedureFacts(**defaults | facts))
    assert [state.code for state in states] == expected
    assert (states[0].severity == "proven") == (facts == {})


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


@pytest.fixture
def behind(page):
    """An agent with a procedure, of which a newer version of the tool breaks line 1."""
    inputs = (make_parameter("city"), make_parameter("unit", required=False))
    pin = make_pin(make_agent(slug="desk"), make_tool(make_signature("sky", inputs=inputs)))
    make_version(pin.tool, make_signature("sky", inputs=(make_parameter("city"),)))
    body = "Ask for {city} and {unit}, then call sky(city, unit)."
    editing.create_procedure(pin.agent, actor=make_user(Role.DESIGNER), title="Refund", body=body)
    return pin


def test_a_breaking_update_is_a_state_of_the_tool_and_of_the_procedure(page, behind):
    answered(behind, agent=behind.agent_id)
    assessed = page.get("/api/v1/agents/desk/readiness/").json()
    assert [state["code"] for state in assessed["tools"][0]["states"]] == ["update_breaks", "answered"]
    (procedure,) = assessed["procedures"]
    assert procedure["procedure"] == "refund"
    assert [state["code"] for state in procedure["states"]] == ["update_breaks", "tests_missing"]
    assert "line 1" in procedure["states"][0]["message"]
    assert assessed["tests"]["code"] == "tests_missing"


def test_each_page_of_an_agent_shows_the_sentence_of_the_judgement(page, behind):
    environments.create(behind.agent, actor=make_user(Role.DESIGNER), name="test", is_default=True)
    send = {"content_type": "application/json"}
    assert page.post("/api/v1/agents/desk/releases/", {}, **send).status_code == 201
    tools = page.get("/api/v1/agents/desk/readiness/").json()["tools"]
    messages = [state["message"] for state in tools[0]["states"]]
    for address in ("upgrades/", f"pins/{behind.pk}/", "environments/"):
        text = text_of(page.get(f"/agents/desk/{address}"))
        assert all(message in text for message in messages), address
    # A release runs the version that it holds.
    release_text = text_of(page.get("/agents/desk/releases/1/"))
    assert messages[1] in release_text
    assert messages[0] not in release_text


def test_the_bar_counts_the_worst_state_of_each_tool(page):
    pin = make_pin(make_agent(slug="desk"), make_tool(make_signature("sky")))
    assert page.get("/agents/desk/changes/").context["readiness"] == {"neutral": 1}
    answered(pin, agent=pin.agent_id)
    assert page.get("/agents/desk/changes/").context["readiness"] == {"proven": 1}
    answered(pin, agent=pin.agent_id, outcome="tool_error")
    assert page.get("/agents/desk/changes/").context["readiness"] == {"warning": 1}


def test_a_sub_agents_tool_is_judged_where_it_is_published(page):
    desk = make_agent(slug="desk")
    child = make_agent(slug="billing", parent=desk)
    pin = make_pin(child, make_tool(make_signature("sky")))
    place = environments.create(desk, actor=make_user(Role.DESIGNER), name="test", is_default=True)
    environments.bind(place, pin.tool, actor=make_user(Role.DESIGNER), activity=None)
    assert page.get(f"/agents/billing/pins/{pin.pk}/").context["readiness"].state.code == "simulated"
    bar = page.get("/agents/billing/changes/")
    assert (
        bar.context["readiness"] == page.get("/agents/desk/changes/").context["readiness"] == {"warning": 1}
    )
    assert 'href="/agents/desk/publish/"' in bar.content.decode()
    assert 'hx-get="/agents/billing/changes/?main=1"' in page.get("/agents/billing/").content.decode()
    (tool,) = page.get("/api/v1/agents/billing/readiness/").json()["tools"]
    assert tool["state"]["code"] == "simulated"


def test_the_list_of_procedures_is_green_for_none_that_was_not_tested(page):
    agent = make_agent(slug="desk")
    pin = make_pin(agent, make_tool(make_signature("sky", inputs=())))
    editing.create_procedure(agent, actor=make_user(Role.DESIGNER), title="Refund", body="Call sky().")

    def codes():
        (row,) = page.get("/agents/desk/procedures/").context["rows"]
        return [state.code for state in row["states"]]

    assert codes() == ["tests_missing", "tools_unproven"]
    answered(pin, agent=agent.pk)
    assert codes() == ["tests_missing"]
    send = {"content_type": "application/json"}
    expects = {"says": "How is the sky", "expects": {"tool": "sky"}}
    assert page.post("/api/v1/agents/desk/rehearsals/", expects, **send).status_code == 201
    assert page.post("/api/v1/agents/desk/rehearsals/run/", {}, **send).status_code == 201
    assert codes() == ["tests_passed"]
    assert page.get("/agents/desk/rehearsals/").context["state"].code == "tests_passed"


def test_readiness_costs_the_same_however_many_tools_there_are(page, django_assert_max_num_queries):
    agent = make_agent(slug="desk")
    for number in range(12):
        make_pin(agent, make_tool(make_signature(f"sky_{number}", inputs=())))
    editing.create_procedure(agent, actor=make_user(Role.DESIGNER), title="Refund", body="Call sky_1().")
    with django_assert_max_num_queries(45):
        page.get("/agents/desk/procedures/")
    with django_assert_max_num_queries(45):
        page.get("/agents/desk/upgrades/")
    with django_assert_max_num_queries(40):
        page.get("/agents/desk/changes/")
