"""The command palette by keyboard, on a desk and on a phone."""

import pytest
from playwright.sync_api import expect

from people.models import Role
from tests.browser.axe import shut_out
from tests.browser.conftest import DESKTOP, PHONE
from tests.factories import make_agent

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_keys_open_the_palette_choose_and_go(open_browser, complaints, viewport):
    make_agent(name="Front desk", slug="front-desk")
    make_agent(name="Back desk", slug="back-desk")
    page = open_browser(Role.DESIGNER, viewport=viewport).new_page()
    messages = complaints(page)
    page.goto("/vendors/")

    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search and jump")
    expect(field).to_be_focused()
    page.keyboard.type("desk")
    options = page.get_by_role("option", name="desk")
    # The first search of a process loads its lists of words.
    expect(options.nth(1)).to_have_text("Front desk", timeout=15_000)
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    assert shut_out(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    page.keyboard.press("Enter")

    expect(page).to_have_url("/agents/front-desk/")
    assert messages == []


def test_letters_after_g_open_pages_and_a_question_mark_lists_the_keys(open_browser):
    page = open_browser(Role.DESIGNER).new_page()
    page.goto("/vendors/")

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Audit trail")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("l")

    expect(page).to_have_url("/audit/")


def test_letters_in_a_field_are_text(open_browser):
    page = open_browser(Role.DESIGNER).new_page()
    page.goto("/tools/")

    page.keyboard.press("/")
    page.keyboard.type("g?a")

    expect(page.locator("main [data-search]")).to_have_value("g?a")
    expect(page.locator("#palette")).to_be_hidden()
