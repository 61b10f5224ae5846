"""“sendEmail” of the Tool System, from a prototype to production, walked through by a newcomer."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from demo import VENDORS
from demo.__main__ import SERVERS
from pegboard.local import demo_agents
from pegboard.management.commands import demo
from people.models import Role
from tests.factories import make_user

pytestmark = pytest.mark.browser
# Whose tools the agent `reminders` has, and who sends its mail.
WANTED = ("bramble-pharmacy", "pennypost")
MAIL = {"recipient": "ada@example.com", "subject": "It is ready", "text": "At the counter in Omaha."}


@pytest.fixture
def demonstration(db) -> Iterator[None]:
    """The demo data with two of its vendors, who answer."""
    admin, designer = make_user(Role.ADMIN), make_user(Role.DESIGNER)
    servers = []
    for vendor in (vendor for vendor in VENDORS if vendor.slug in WANTED):
        server = SERVERS[vendor.protocol](0, vendor, None)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        servers.append(server)
        endpoint = demo.connect(vendor, server.server_address[1] - vendor.port_offset, admin)
        demo.read_once(endpoint, designer)
    demo_agents.make_reminders(designer)
    yield
    for server in servers:
        server.shutdown()
        server.server_close()


def test_from_a_prototype_to_production_under_one_signature(
    open_browser, complaints, live_server, demonstration, worker
):
    page = open_browser(Role.DESIGNER).new_page()
    messages = complaints(page)
    page.goto("/agents/")
    page.get_by_role("link", name="Reminders", exact=True).click()
    one_tool_runs_in_three_ways(page)
    the_model_answers_in_the_prototype(page)
    its_mock_answers_in_the_test(page)
    a_vendor_sends_it_in_production(page)
    a_procedure_is_rehearsed_against_mocks(page)
    assert messages == []


def one_tool_runs_in_three_ways(page):
    page.get_by_role("navigation", name="About this agent").get_by_role("link", name="Test").click()
    page.get_by_role("navigation", name="Test").get_by_role("link", name="Environments").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="sendEmail", exact=True))
    for place, runs in (
        ("prototype", "Simulated by the model"),
        ("test", "A mock: Mock of sendEmail"),
        ("production", "A vendor's tool: Send by Pennypost"),
    ):
        choice = row.get_by_label(f"sendEmail in {place}", exact=True)
        assert choice.evaluate("each => each.selectedOptions[0].text") == runs
    expect(row.get_by_title("Digest of its signature")).to_have_count(1)


def the_model_answers_in_the_prototype(page):
    page.get_by_role("link", name="Try it as sendEmail in prototype").click()
    send(page)
    answer = page.get_by_role("region", name="Result")
    expect(answer.get_by_text("Waits for output")).to_be_visible()
    answer.get_by_label("sent").check()
    answer.get_by_role("button", name="Enter the output").click()
    it_was_sent(answer)


def its_mock_answers_in_the_test(page):
    expect(page.get_by_label("in", exact=True).locator(":checked")).to_have_text("Reminders: prototype")
    page.get_by_label("in", exact=True).select_option("Reminders: test")
    send(page)
    answer = page.get_by_role("region", name="Result")
    expect(answer.get_by_text("by the implementation Mock of sendEmail")).to_be_visible()
    it_was_sent(answer)


def a_vendor_sends_it_in_production(page):
    page.get_by_label("in", exact=True).select_option("Reminders: production")
    send(page)
    answer = page.get_by_role("region", name="Result")
    expect(answer.get_by_text("by the implementation Send by Pennypost")).to_be_visible()
    it_was_sent(answer)


def send(page):
    for name, value in MAIL.items():
        page.get_by_label(name, exact=True).fill(value)
    page.get_by_role("button", name="Run", exact=True).click()


def it_was_sent(answer):
    expect(answer.get_by_text("Succeeded")).to_be_visible()
    answer.get_by_text("Raw", exact=True).click()
    expect(answer.get_by_text('"sent": true')).to_be_visible()


def a_procedure_is_rehearsed_against_mocks(page):
    page.goto("/agents/reminders/mocks/")
    page.get_by_role("link", name="Remind a patient").click()
    expect(page.get_by_text("0 of 2 steps succeeded")).to_be_visible()
    page.get_by_label("refill_number").first.fill("RF-20391")
    page.get_by_role("button", name="Run the step").first.click()
    first = page.get_by_role("region", name="1. get_refill_status")
    expect(first.get_by_text("READY")).to_be_visible()
    for name, value in MAIL.items():
        page.locator("#step-2").get_by_label(name, exact=True).fill(value)
    page.locator("#step-2").get_by_role("button", name="Run the step").click()
    expect(page.get_by_text("2 of 2 steps succeeded")).to_be_visible()
    rules = page.get_by_role("region", name="Rules")
    expect(rules.get_by_text("Passed")).to_be_visible()
    expect(rules.get_by_text("get_refill_status before sendEmail")).to_be_visible()
