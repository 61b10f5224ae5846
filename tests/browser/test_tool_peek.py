"""The panel beside the list of tools: by keyboard, by a row's button, on a phone and without scripts."""

import pytest
from playwright.sync_api import expect

from catalog import search
from people.models import Role
from tests.browser.axe import shut_out
from tests.browser.conftest import PHONE
from tests.factories import make_endpoint, make_signature, make_tool

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]


@pytest.fixture(autouse=True)
def _tools():
    endpoint = make_endpoint()
    for name in ("add_bag", "book_seat", "cancel_trip"):
        make_tool(make_signature(name, description=f"Does *{name}*."), endpoint=endpoint)
    search.index_pending()


def test_panel_moves_with_the_list_and_gives_the_focus_back(open_browser, complaints):
    page = open_browser(Role.VIEWER).new_page()
    messages = complaints(page)
    page.goto("/tools/?sort=name")
    page.locator("[data-row]").first.focus()

    page.keyboard.press("Space")
    panel = page.get_by_role("dialog", name="add_bag")
    expect(panel.get_by_role("heading", name="add_bag")).to_be_focused()
    expect(panel).to_contain_text("Does add_bag.")
    assert shut_out(page) == []
    page.keyboard.press("j")
    expect(page.get_by_role("dialog", name="book_seat")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.get_by_role("dialog", name="book_seat")).to_be_visible()
    expect(page.locator("[data-row][aria-current]")).to_have_text("book_seat")

    page.keyboard.press("Escape")
    expect(page.locator("#peek")).to_be_hidden()
    expect(page.locator("[data-row]", has_text="book_seat")).to_be_focused()
    assert page.locator("[data-row][aria-current]").count() == 0
    assert messages == []


def test_keys_count_from_the_row_that_was_asked_for_last(open_browser):
    page = open_browser(Role.VIEWER).new_page()
    page.goto("/tools/?sort=name")
    page.locator("[data-row]").first.focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("dialog", name="add_bag")).to_be_visible()

    held_requests = []
    page.route("**/peek/", lambda route: held_requests.append(route))
    for key in "jjk":
        page.keyboard.press(key)
    expect(page.locator("[data-row][aria-current]")).to_have_text("book_seat")
    page.wait_for_timeout(100)
    held_requests.pop().continue_()
    expect(page.get_by_role("dialog", name="book_seat")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("[data-row]", has_text="book_seat")).to_be_focused()


def test_button_of_a_row_opens_a_sheet_on_a_phone(open_browser):
    page = open_browser(Role.VIEWER, viewport=PHONE).new_page()
    page.goto("/tools/?sort=name")

    page.get_by_role("button", name="book_seat").click()
    panel = page.get_by_role("dialog", name="book_seat")
    expect(panel).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    panel.locator("[data-close]").click()
    expect(page.locator("#peek")).to_be_hidden()
    page.get_by_role("button", name="book_seat").click()
    panel.get_by_role("link", name="Open the page").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("book_seat")


def test_address_of_the_panel_is_the_page_without_a_script(open_browser):
    page = open_browser(Role.VIEWER, java_script_enabled=False).new_page()
    page.goto("/tools/?sort=name")
    address = page.locator("[data-row]").first.get_attribute("href")

    page.goto(f"{address}peek/")

    assert page.url.endswith(address)
