"""Whom a page shuts out, as axe sees it."""

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

# Only what is wrong: to describe the rest of a page takes longer than to judge it.
RUN = """async options => {
  const found = await axe.run(document, {resultTypes: ["violations"], ...options});
  return found.violations.flatMap(
    rule => rule.nodes.map(node => `${rule.id}: ${node.html.slice(0, 200)}`)
  );
}"""
# A page is the same in the dark, but for its colours.
OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
SWITCH = "theme => { document.documentElement.dataset.theme = theme; }"


def shut_out(page: Page, options: dict | None = None) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    return page.evaluate(RUN, options or {})


def shut_out_in_both_themes(page: Page) -> list[str]:
    """Check the page in its present theme and in the dark one; the page is light afterwards."""
    page.evaluate(SWITCH, "dark")
    in_the_dark = [f"in the dark: {fault}" for fault in shut_out(page, OF_COLOURS)]
    page.evaluate(SWITCH, "light")
    return in_the_dark + shut_out(page)
