"""Every page, in both themes, on a desk and on a phone: readable for everyone and free of complaints."""

import pytest

from people.models import Role
from tests.browser.access import find_hidden_current, find_overflow, find_small_targets
from tests.browser.axe import shut_out, shut_out_in_both_themes
from tests.browser.cast import set_the_stage
from tests.browser.conftest import DESKTOP, PHONE

pytestmark = pytest.mark.browser

# Sum of all shifts since the page began to load, as the browser itself scores them.
# How far things moved, in the measure of browsers, and what did.
LAYOUT_SHIFT = """() => new Promise(resolve => {
  let sum = 0;
  const moved = [];
  new PerformanceObserver(list => list.getEntries().forEach(entry => {
    sum += entry.value;
    moved.push(...entry.sources.map(({node}) => node?.outerHTML?.slice(0, 80) ?? node?.textContent));
  })).observe({type: "layout-shift", buffered: true});
  requestAnimationFrame(() => setTimeout(() => resolve([sum, moved]), 50));
})"""


# Elements that overflow their panel or figure, if nothing between the two scrolls or clips.
STICKS_OUT = """() => [...document.querySelectorAll("main :is(.panel, .figure) *")].filter(node => {
    const box = node.getBoundingClientRect();
    for (let at = node.parentElement; at; at = at.parentElement) {
        if (getComputedStyle(at).overflowX !== "visible") return false;
        const edge = at.matches(".panel, .figure") && at.getBoundingClientRect().right;
        if (edge) return box.width && box.right > edge + 1;
    }
}).slice(0, 3).map(node => node.outerHTML.slice(0, 120))"""


# The main actions in sight. A list may offer one for each row, and a tray repeats one on a phone.
PRIMARY = """() => [...document.querySelectorAll("main .button.is-primary:not(:disabled)")]
    .filter(node => node.checkVisibility() && !node.closest("li, tr, dialog, .menu-items, .tray"))
    .map(node => node.innerText.trim())"""


# Waits until the fonts of the page are loaded.
USES_OWN_FONT = "document.fonts.ready.then(fonts => [...fonts].some(font => font.status === 'loaded'))"


# Ninety pages, some of them in both themes.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_pages_shut_nobody_out_and_neither_complain_nor_move_nor_overflow(open_browser, complaints, viewport):
    """Run all checks of a page in one visit, because opening the page takes the longest."""
    page = open_browser(Role.ADMIN, theme="light", viewport=viewport).new_page()
    messages = complaints(page)
    problems_by_address = {}

    for address in [*set_the_stage(), "/api/docs/", "/api/docs/tools/"]:
        page.goto(address)
        page.locator(".htmx-request").first.wait_for(state="detached")  # what the page loads by itself
        distance, moved = page.evaluate(LAYOUT_SHIFT)
        if distance > 0.01:
            messages.append(f"something moved: {moved}")
        if page.evaluate("document.documentElement.scrollWidth") > viewport["width"]:
            messages.append("wider than the window")
        messages += [f"sticks out: {node}" for node in page.evaluate(STICKS_OUT)]
        primary = page.evaluate(PRIMARY)
        if len(primary) > 1:
            messages.append(f"more than one main action: {primary}")
        if not page.evaluate(USES_OWN_FONT):
            messages.append("the preloaded font is not used")
        messages += find_small_targets(page)
        if viewport == DESKTOP:
            messages += shut_out_in_both_themes(page)
            messages += find_hidden_current(page)
            messages += find_overflow(page)
        problems_by_address[address] = [line for line in messages if "status of 404" not in line]
        messages.clear()

    assert {address: problems for address, problems in problems_by_address.items() if problems} == {}


def test_a_stranger_can_sign_in_whatever_the_theme(open_browser):
    for theme in ("light", "dark"):
        page = open_browser(theme=theme).new_page()
        page.goto("/accounts/login/")

        assert shut_out(page) == []
