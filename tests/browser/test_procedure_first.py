"""A new agent begins with a text: tools are chosen from proposals, and the agent is published."""

import re

import pytest
from playwright.sync_api import expect

from catalog.search import index as search_index
from designer.models import ProcedureReference, Release
from people.models import Role
from tests.browser.axe import shut_out_in_both_themes
from tests.factories import make_signature, make_tool

pytestmark = pytest.mark.browser

# From Home: Agents, Create, one press for each tool, Save, Review and publish, Publish.
MAX_CLICKS = 8
TEXT = "Look up the order of the customer.\nIf it has not been shipped, cancel the order.\nBe polite."
COUNTER = "addEventListener('click', event => event.isTrusted && noteClick(event.target.textContent), true)"


@pytest.fixture
def catalog(db):
    for name in ("list_invoices", "send_email", "weather_forecast", "book_flight", "translate_text"):
        make_tool(make_signature(name, description=f"{name.replace('_', ' ').capitalize()}."))
    make_tool(make_signature("look_up_order", description="Look up an order of a customer."))
    make_tool(make_signature("cancel_order", description="Cancel an order that has not been shipped."))
    search_index.index_pending()


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_from_a_text_to_a_published_agent_in_few_clicks(page, catalog, complaints):
    messages, clicks = complaints(page), []
    page.expose_function("noteClick", lambda text: clicks.append(text))
    page.add_init_script(COUNTER)
    page.goto("/")
    page.get_by_role("link", name="Agents", exact=True).click()
    page.get_by_label("What should it do?").fill(TEXT)
    page.get_by_role("button", name="Create the agent").click()
    expect(page.get_by_role("button", name="Pin and insert cancel_order in line 2")).to_be_visible()
    for line, name in enumerate(("look_up_order", "cancel_order"), 1):
        page.get_by_role("button", name=f"Pin and insert {name} in line {line}").click()
        text = page.get_by_role("textbox", name="Text", exact=True)
        expect(text).to_have_value(re.compile(rf": {name}\(\)\."))
        expect(text).to_be_focused()
    expect(page.get_by_text("No tool does this (1)")).to_be_visible()
    assert shut_out_in_both_themes(page) == []
    page.get_by_role("button", name="Save", exact=True).last.click()
    page.get_by_role("link", name="Review and publish").click()
    page.get_by_role("button", name="Publish and promote to live").click()
    expect(page.get_by_role("heading", name="Release 1")).to_be_visible()

    assert Release.objects.get().tool_count == 2
    assert ProcedureReference.objects.count() == 2
    assert len(clicks) <= MAX_CLICKS, clicks
    assert messages == []
