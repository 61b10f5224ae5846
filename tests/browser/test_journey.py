"""The main job, end to end, as a newcomer does it."""

import pytest
from playwright.sync_api import expect

from catalog import search
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Run
from catalog.review import inspector
from designer.models import Release
from people.models import Role
from tests.factories import PASSWORD, make_user
from tests.vendor import Vendor, serving, tools

pytestmark = pytest.mark.browser


def test_from_an_address_to_a_published_agent(open_browser, complaints):
    make_user(Role.ADMIN, username="ada")
    page = open_browser().new_page()
    messages = complaints(page)

    with serving(Vendor(tools(25))) as vendor:
        sign_in(page)
        connect(page, vendor.url)
        watch_the_first_reading(page)
    find_and_pin(page)
    tune(page)
    publish(page)

    assert Release.objects.get().tool_count == 1
    assert messages == []


def sign_in(page):
    page.goto("/")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Five steps from a vendor")).to_be_visible()


def connect(page, url):
    page.get_by_role("link", name="Connect a vendor").click()
    page.get_by_label("Name of the new vendor").fill("Fair Weather")
    page.get_by_role("textbox", name="Address", exact=True).fill(url)
    page.get_by_role("button", name="Save and sync tools").click()


def watch_the_first_reading(page):
    run_status = page.locator("#run .strong").first
    expect(run_status).to_contain_text("Waiting for a worker")
    run = enumeration_runs.perform(Run.objects.get().pk)
    inspector.inspect_pending(run.endpoint_id)
    search.index_pending()
    expect(run_status).to_contain_text("Read 25 tools: 25 new")
    page.get_by_role("link", name="See the tools").click()


def find_and_pin(page):
    page.locator("[data-row]").first.click()
    page.get_by_label("Name of the new agent").fill("Travel desk")
    page.get_by_role("button", name="Pin").click()
    expect(page.get_by_role("heading", name="Travel desk")).to_be_visible()


def tune(page):
    page.locator("[data-row]").first.click()
    page.get_by_label("Description", exact=True).fill("Ask for the city first.")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Publish the agent when you want")).to_be_visible()


def publish(page):
    page.get_by_role("link", name="Review and publish").click()
    page.get_by_label("Note").fill("The first")
    page.get_by_role("button", name="Publish and promote to live").click()
    expect(page.get_by_role("heading", name="Release 1")).to_be_visible()
    page.get_by_role("link", name="View", exact=True).first.click()
    expect(page.locator("#body")).to_contain_text("Ask for the city first.")
