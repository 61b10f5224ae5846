"""Tuned texts whose vendor text has changed: three panes, decided by keyboard."""

import pytest
from playwright.sync_api import expect

from designer.models import Tuning
from designer.pins import pins, tunings
from people.models import Role
from protocols.signature import AllowedValue, Annotations
from tests.browser.conftest import DESKTOP, PHONE
from tests.factories import make_agent, make_parameter, make_signature, make_tool, make_user, make_version

pytestmark = pytest.mark.browser

THEN = "Tomorrow's weather.\nTakes a city.\nUnits vary."
NOW = "The weather of up to nine days.\nTakes a city.\nUnits vary."
OURS = f"{THEN}\nAsk for the country first."
MERGED = f"{NOW}\nAsk for the country first."
STICKS_OUT = """() => [...document.querySelectorAll("main .panel *")].filter(node => {
    const box = node.getBoundingClientRect(), edge = node.closest(".panel").getBoundingClientRect();
    return box.width && getComputedStyle(node).position !== "absolute" && box.right > edge.right + 1;
}).map(node => node.outerHTML.slice(0, 120))"""


def forecast(description, celsius, **claims):
    values = (AllowedValue("C", celsius), AllowedValue("F", "Fahrenheit"), AllowedValue("K", "Kelvin"))
    return make_signature(
        "forecast",
        description=description,
        inputs=(
            make_parameter("city"),
            make_parameter("unit", type="enum", allowed_values=values, required=False),
        ),
        outputs=(make_parameter("sky"),),
        annotations=Annotations(**claims),
    )


@pytest.fixture
def pin(db):
    ada, tool = make_user(Role.DESIGNER), make_tool(forecast(THEN, "Celsius", destructive=False))
    pin = pins.pin_tool(make_agent(slug="desk", name="Desk"), actor=ada, tool=tool)
    unit = {"values": {"C": {"description": "Degrees as in Europe"}, "K": {"hidden": True}}}
    words = {"description": OURS, "parameters": {"unit": unit}, "effects": {"destructive": True}}
    tunings.tune(pin, actor=ada, **words)
    make_version(tool, forecast(NOW, "Degrees Celsius", destructive=None))
    return pins.move_pin(pin, actor=ada, ordinal=2)


@pytest.mark.parametrize(
    ("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop-light", "phone-dark"]
)
def test_stale_texts_are_settled_by_keyboard(open_browser, complaints, pin, size, theme):
    page = open_browser(Role.DESIGNER, theme=theme, viewport=size).new_page()
    messages = complaints(page)
    page.goto("/agents/desk/")
    mark = page.get_by_role("link", name="vendor changed 3 texts you replaced")
    mark.focus()
    page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="The vendor changed the text that yours replaces")
    expect(panel.locator("form")).to_have_count(3)
    for place in ("Description", "What “C” of “unit” means", "May destroy"):
        expect(panel.get_by_text(place, exact=True)).to_be_visible()
    page.locator("summary", has_text="unit").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("What C means")).to_have_value("Degrees as in Europe")
    expect(page.get_by_label("Hide K")).to_be_checked()
    for text in (THEN, NOW, OURS, MERGED):
        expect(panel.get_by_text(text, exact=True)).to_be_visible()
    assert page.evaluate(STICKS_OUT) == []
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, "nothing has to be scrolled sideways"
    tops = [
        panel.get_by_text(text, exact=True).first.bounding_box()["y"]
        for text in ("Vendor text, before", "Vendor text, now", "Yours")
    ]
    assert (len(set(tops)) == 1) == (size == DESKTOP), "beside each other where there is room"

    press(page, panel, "Use the merged text")
    expect(panel.locator("form")).to_have_count(2)
    press(page, panel, "Keep your text")
    expect(panel.locator("form")).to_have_count(1)
    press(page, panel, "Use the vendor's text")
    expect(panel).to_have_count(0)

    words = Tuning.objects.get(pin=pin)
    assert words.description == MERGED
    unit_words = {"values": {"C": {"description": "Degrees as in Europe"}, "K": {"hidden": True}}}
    assert (words.parameters, words.effects) == ({"unit": unit_words}, {})
    page.goto("/agents/desk/")
    expect(page.get_by_text("you replaced")).to_have_count(0)
    assert messages == []


def press(page, panel, name):
    """Press Tab from the heading of the panel on, then Enter, as a designer without a mouse does."""
    panel.locator("form").first.scroll_into_view_if_needed()
    panel.locator("button").first.focus()
    for _ in range(6):
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            break
        page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text(name)
    page.keyboard.press("Enter")
    expect(page.locator("#messages .is-ok")).to_be_visible()
