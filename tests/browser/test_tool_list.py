"""The list of tools in a browser: facets beside it, over it on a phone, and nothing scrolls sideways."""

import pytest
from playwright.sync_api import expect

from catalog import search
from people.models import Role
from protocols.signature import Annotations
from tests.browser.conftest import PHONE
from tests.factories import make_endpoint, make_signature, make_tool, make_vendor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]
LONG = "Sends **a letter** with [everything](https://example.com/x) that belongs to it. " * 4


@pytest.fixture
def letters():
    for vendor in ("air", "sea"):
        endpoint = make_endpoint(vendor=make_vendor(slug=vendor, name=f"The vendor of {vendor}"))
        for number in range(30):
            reads = Annotations(read_only=True) if number % 2 else Annotations()
            name = f"send_a_letter_by_{vendor}_with_{number}"
            make_tool(make_signature(name, description=LONG, annotations=reads), endpoint=endpoint)
    search.index_pending()


def test_facets_narrow_the_list_and_stay_in_the_address(open_browser, complaints, letters):
    page = open_browser(Role.DESIGNER).new_page()
    messages = complaints(page)
    page.goto("/tools/")
    assert page.locator(".is-tools tbody tr").count() == 50

    page.locator("#facets input[value=sea]").check()
    expect(page.locator(".is-tools tbody tr")).to_have_count(30)
    page.locator("#facets input[value=reads]").check()
    expect(page.locator(".is-tools tbody tr")).to_have_count(15)

    assert "vendor=sea" in page.url
    assert "effect=reads" in page.url
    assert page.locator("#vendor-air + span + .num").inner_text() == "15"
    page.reload()
    assert page.locator(".is-tools tbody tr").count() == 15
    assert page.locator("#facets :checked").count() == 2
    assert "](" not in page.locator("#results").inner_text()
    assert messages == []


def test_on_a_phone_the_facets_open_over_the_list(open_browser, letters):
    page = open_browser(Role.DESIGNER, viewport=PHONE).new_page()
    page.goto("/tools/")
    assert not page.locator("#facets").is_visible()

    page.locator(".facets-open").click()
    page.locator("#facets input[value=air]").check()
    expect(page.locator(".is-tools tbody tr")).to_have_count(30)


@pytest.mark.parametrize("width", [320, 390, 720, 800, 1024, 1200, 1440])
def test_no_window_scrolls_sideways(open_browser, letters, width):
    page = open_browser(Role.ADMIN, viewport={"width": width, "height": 800}).new_page()
    page.goto("/tools/")

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width == 390:
        assert page.evaluate("document.documentElement.scrollHeight") <= 5_000
