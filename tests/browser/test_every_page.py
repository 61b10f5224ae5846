"""Every page, in both themes, on a desk and on a phone: readable for everyone and free of complaints."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from people.models import Role
from tests.browser.cast import set_the_stage
from tests.browser.conftest import DESKTOP, PHONE

pytestmark = pytest.mark.browser

# Sum of all shifts since the page began to load, as the browser itself scores them.
LAYOUT_SHIFT = """() => new Promise(resolve => {
  let sum = 0;
  new PerformanceObserver(list => list.getEntries().forEach(entry => { sum += entry.value; }))
    .observe({type: "layout-shift", buffered: true});
  requestAnimationFrame(() => setTimeout(() => resolve(sum), 50));
})"""


# The pages are the same in the dark, but for their colours.
OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


@pytest.mark.parametrize(("theme", "rules"), [("light", None), ("dark", OF_COLOURS)], ids=["light", "dark"])
def test_nobody_is_shut_out(open_browser, theme, rules):
    page = open_browser(Role.ADMIN, theme=theme).new_page()
    axe, found = Axe(), {}

    for address in set_the_stage():
        page.goto(address)
        violations = axe.run(page, options=rules).response["violations"]
        found[address] = [
            (violation["id"], [node["html"][:200] for node in violation["nodes"]]) for violation in violations
        ]

    assert {address: problems for address, problems in found.items() if problems} == {}


def test_a_stranger_can_sign_in_whatever_the_theme(open_browser):
    for theme in ("light", "dark"):
        page = open_browser(theme=theme).new_page()
        page.goto("/accounts/login/")

        assert Axe().run(page).response["violations"] == []


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_pages_neither_complain_nor_move_nor_overflow(open_browser, complaints, viewport):
    page = open_browser(Role.ADMIN, viewport=viewport).new_page()
    heard = complaints(page)
    found = {}

    for address in set_the_stage():
        page.goto(address)
        if page.evaluate(LAYOUT_SHIFT) > 0.01:
            heard.append("something moved")
        if page.evaluate("document.documentElement.scrollWidth") > viewport["width"]:
            heard.append("wider than the window")
        found[address] = [line for line in heard if "status of 404" not in line]
        heard.clear()

    assert {address: problems for address, problems in found.items() if problems} == {}
