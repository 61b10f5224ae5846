"""The readiness of every tool of a release, computed without a request to a vendor."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalog.credentials import operations as credential_operations
from catalog.models import Circuit, Finding, Tool, ToolCircuit
from designer.agents import agents
from designer.releases import publishing
from people.models import Role
from protocols.signature import Annotations, Requirements
from tests.factories import make_endpoint, make_parameter, make_pin, make_tool, make_user
from tests.pages import text_of
from tests.serving.test_calls import desk, desk_with, owner, runtime, stopped, vendor

__all__ = ["desk", "owner", "vendor"]
pytestmark = pytest.mark.django_db
URL = "/api/v1/agents/desk/releases/live/preflight/"


@pytest.fixture
def preflight(owner, desk):
    client = runtime(owner, desk[0], scopes=["runtime"])

    def ask():
        answer = client.get(URL)
        assert answer.status_code == 200, answer.content
        return answer.json()

    return ask


def codes(report):
    return {tool["tool"]: [one["code"] for one in tool["obstacles"]] for tool in report["tools"]}


def test_a_release_that_runs_says_so_and_asks_no_vendor(preflight, desk, vendor):
    assert preflight() == {
        "release": 1,
        "served_at": "http://testserver/serve/desk/live/",
        "environment": "",
        "can_run": True,
        "tools": [
            {
                "agent": "desk",
                "tool": "sky",
                "runs": "vendor",
                "activity": "",
                "can_run": True,
                "obstacles": [],
                "state": {
                    "code": "not_tested",
                    "severity": "neutral",
                    "message": f"Runs at {desk[1].tool.endpoint.vendor}, not tested yet.",
                    "to_do": "",
                },
            }
        ],
    }
    assert vendor.requests == []


def hold(pin, owner):
    stopped(pin.version, "open")


def block(pin, owner):
    stopped(pin.version, "blocked")


def withdraw(pin, owner):
    Tool.objects.filter(pk=pin.tool_id).update(status="withdrawn")


def remove_endpoint(pin, owner):
    type(pin.tool.endpoint).objects.filter(pk=pin.tool.endpoint_id).update(removed_at=timezone.now())


def open_circuit(pin, owner):
    soon = timezone.now() + timedelta(minutes=5)
    Circuit.objects.create(endpoint=pin.tool.endpoint, failures=5, open_until=soon)


def open_circuit_of_the_tool(pin, owner):
    soon = timezone.now() + timedelta(minutes=5)
    ToolCircuit.objects.create(tool=pin.tool, failures=5, open_until=soon)


def refuse_credential(pin, owner):
    endpoint = pin.tool.endpoint
    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Weather key", kind="bearer", url=endpoint.url, secret="s" * 20
    )
    type(credential).objects.filter(pk=credential.pk).update(refused_at=timezone.now())
    type(endpoint).objects.filter(pk=endpoint.pk).update(credential=credential)


@pytest.mark.parametrize(
    ("happens", "code", "can_run"),
    [
        (hold, "waits_for_review", False),
        (block, "version_blocked", False),
        (withdraw, "tool_withdrawn", True),
        (remove_endpoint, "endpoint_removed", False),
        (open_circuit, "unavailable", False),
        (open_circuit_of_the_tool, "unavailable", False),
        (refuse_credential, "credential_ended", False),
    ],
)
def test_what_stands_in_the_way_is_told_with_what_to_do(
    preflight, desk, owner, vendor, happens, code, can_run
):
    happens(desk[1], owner)
    report = preflight()
    assert codes(report) == {"sky": [code]}
    assert report["can_run"] is report["tools"][0]["can_run"] is can_run
    (obstacle,) = report["tools"][0]["obstacles"]
    assert obstacle["severity"] == ("warns" if can_run else "stops")
    assert obstacle["message"].endswith(".")
    assert obstacle["to_do"].endswith(".")
    assert vendor.requests == []


def test_what_a_caller_has_to_add_is_told_before_the_call(owner, vendor):
    agent, _ = desk_with(
        owner,
        vendor,
        protocol="oxp",
        annotations=Annotations(destructive=True),
        requirements=Requirements(user=True),
    )
    report = runtime(owner, agent).get(URL).json()
    assert codes(report) == {"sky": ["confirm_needed", "user_needed"]}
    assert report["can_run"] is True


def test_what_is_said_to_stop_a_call_stops_it(preflight, desk, owner, vendor):
    """The obstacles have the codes of Pegboard's refusals."""
    invoke = "/api/v1/agents/desk/releases/live/tools/sky/invoke/"
    client = runtime(owner, desk[0])
    for happens in (block, remove_endpoint):
        happens(desk[1], owner)
        (code,) = codes(preflight())["sky"]
        refused = client.post(invoke, {"arguments": {"Zip_code": "0150"}})
        assert (refused.status_code, refused.json()["code"]) == (409, code)
        Finding.objects.all().delete()


@pytest.mark.parametrize(
    ("fields", "arguments", "code"),
    [
        (
            {"protocol": "mcp", "rest": {"execution": {"taskSupport": "required"}}},
            {"Zip_code": "0150"},
            "NEEDS_TASK",
        ),
        (
            {"inputs": (make_parameter("when", required=False, unsupported_type="epoch"),)},
            {},
            "UNSUPPORTED_TYPE",
        ),
    ],
)
def test_a_tool_that_is_never_sent_cannot_run(owner, vendor, fields, arguments, code):
    agent, _ = desk_with(owner, vendor, **fields)
    client = runtime(owner, agent)
    report = client.get(URL).json()
    (obstacle,) = report["tools"][0]["obstacles"]
    assert (obstacle["code"], obstacle["severity"], report["can_run"]) == (code, "stops", False)
    refused = client.post("/api/v1/agents/desk/releases/live/tools/sky/invoke/", {"arguments": arguments})
    assert refused.json()["error"]["code"] == code
    assert refused.json()["error"]["message"] == obstacle["message"]
    browser = Client()
    browser.force_login(owner)
    assert obstacle["message"] in text_of(browser.get("/agents/desk/releases/1/preflight/"))


def test_sub_agents_are_told_and_queries_do_not_grow(owner, desk, preflight):
    agent, _ = desk
    with CaptureQueriesContext(connection) as few:
        preflight()
    child = agents.create_agent(actor=owner, name="Helper", slug="helper", parent=agent)
    for number in range(8):
        make_pin(child, make_tool(endpoint=make_endpoint()), name=f"tool_{number}")
    publishing.publish(agent, actor=owner, channel="live")
    with CaptureQueriesContext(connection) as many:
        report = preflight()
    assert [tool["agent"] for tool in report["tools"]] == ["desk", *["helper"] * 8]
    assert len(many) <= len(few) + 1


def test_the_page_names_what_stops_a_tool_first(owner, desk):
    _, pin = desk
    browser = Client()
    browser.force_login(owner)
    page = "/agents/desk/releases/1/preflight/"
    assert browser.get(page).context["counts"] == {"neutral": 1}
    hold(pin, owner)
    answer = browser.get(page)
    assert answer.context["counts"] == {"error": 1}
    assert "sky It waits for review in Pegboard." in text_of(answer)
    assert f'href="{page}"' in browser.get("/agents/desk/releases/1/").content.decode()


@pytest.mark.parametrize(
    ("happens", "expected_text"), [(hold, "Decide on it"), (refuse_credential, "Renew the credential")]
)
def test_an_administrator_goes_on_where_another_user_is_told_whom_to_ask(owner, desk, happens, expected_text):
    happens(desk[1], owner)
    page, browser = "/agents/desk/releases/1/preflight/", Client()
    for user, sees_link in ((owner, False), (make_user(Role.ADMIN), True)):
        browser.force_login(user)
        answer = browser.get(page)
        assert (expected_text in text_of(answer)) is sees_link
        assert ("Ask an administrator" in text_of(answer)) is not sees_link
    (link,) = re.findall(rf'href="([^"]+)">{expected_text}', answer.content.decode())
    assert browser.get(link).status_code == 200


def test_a_secret_that_is_missing_is_entered_from_the_page(owner, vendor):
    desk_with(owner, vendor, protocol="oxp", requirements=Requirements(secrets=("weather_key",)))
    browser = Client()
    browser.force_login(make_user(Role.ADMIN))
    answer = browser.get("/agents/desk/releases/1/preflight/")
    (link,) = re.findall(r'href="([^"]+)">Enter the secret', answer.content.decode())
    assert browser.get(link).status_code == 200


def test_the_page_does_not_say_that_all_is_well_beside_what_it_notes(owner, desk):
    _, pin = desk
    withdraw(pin, owner)
    browser = Client()
    browser.force_login(owner)
    answer = browser.get("/agents/desk/releases/1/preflight/")
    assert answer.context["counts"] == {"warning": 1}
