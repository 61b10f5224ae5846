import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from catalog import search
from catalog.models import Finding
from designer.agents import agents
from designer.models import Tuning
from designer.procedures import editing
from people.models import Role
from protocols.signature import Annotations
from tests.browser.conftest import DESKTOP, PHONE
from tests.factories import make_agent, make_pin, make_signature, make_tool, make_user, make_version

pytestmark = pytest.mark.browser

# Nothing lies over any corner of it.
IN_SIGHT = """node => {
    const box = node.getBoundingClientRect();
    const at = y => document.elementFromPoint(box.left + 8, y);
    return [box.top + 4, box.bottom - 4].every(y => node.contains(at(y)));
}"""


def test_slash_goes_to_the_search(page):
    page.goto("/agents/")
    page.keyboard.press("/")

    expect(page.get_by_role("searchbox")).to_be_focused()


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_slash_stays_a_slash_where_somebody_types(page):
    page.goto("/agents/")
    page.get_by_label("What should it do?").fill("a")
    page.keyboard.press("/")

    expect(page.get_by_label("What should it do?")).to_have_value("a/")


def test_the_first_tab_skips_to_the_content(page):
    page.goto("/agents/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page.locator("#main")).to_be_focused()


def test_arrow_keys_walk_through_a_list_and_only_scroll_elsewhere(page, complaints):
    messages = complaints(page)
    make_agent(name="First")
    make_agent(name="Second")
    page.goto("/agents/")
    page.keyboard.press("ArrowDown")
    first = page.get_by_role("link", name="First")
    first.focus()
    expect(first).to_be_focused()
    first.press("ArrowDown")

    expect(page.get_by_role("link", name="Second")).to_be_focused()
    assert messages == []


def test_the_menu_of_a_phone_opens_and_closes(open_browser):
    page = open_browser(Role.VIEWER, viewport=PHONE).new_page()
    page.goto("/")
    link = page.get_by_role("link", name="Agents")

    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()


def test_the_theme_changes_at_once_and_is_remembered(page):
    page.goto("/")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")

    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="System").click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") is None


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_leaving_with_unsaved_words_asks_first(page):
    pin = make_pin(make_agent(slug="desk"))
    page.goto(f"/agents/desk/pins/{pin.pk}/")
    page.get_by_label("Description", exact=True).fill("Half a sentence")
    types = []
    page.on("dialog", lambda dialog: (types.append(dialog.type), dialog.dismiss()))

    page.get_by_role("link", name="Audit trail").click()

    assert types == ["beforeunload"]
    assert urlsplit(page.url).path == f"/agents/desk/pins/{pin.pk}/"


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_what_was_typed_before_the_agent_was_renamed_is_saved(page):
    pin = make_pin(make_agent(slug="desk"))
    page.goto(f"/agents/desk/pins/{pin.pk}/")
    page.get_by_label("Description", exact=True).fill("Half an hour of typing")
    agents.update_agent(pin.agent, actor=make_user(Role.DESIGNER), slug="counter")

    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.get_by_text("Saved.")).to_be_visible()
    # A preview that came before the click has added its format to the query.
    assert urlsplit(page.url).path == f"/agents/counter/pins/{pin.pk}/"
    assert Tuning.objects.get(pin=pin).description == "Half an hour of typing"


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_a_name_is_judged_while_it_is_typed(page):
    pin = make_pin(make_agent(slug="desk"))
    page.goto(f"/agents/desk/pins/{pin.pk}/")
    page.get_by_label("Name for the model").press_sequentially("no good")

    expect(page.locator("#alias-says")).to_contain_text("Try no_good")


def test_pages_work_without_the_script(open_browser):
    tool = make_tool(name="forecast")
    page = open_browser(Role.DESIGNER, java_script_enabled=False).new_page()
    page.goto(f"/tools/{tool.pk}/")
    page.get_by_label("Name of the new agent").fill("Travel desk")
    page.get_by_role("button", name="Pin").click()

    expect(page.get_by_role("heading", name="Travel desk")).to_be_visible()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("role", [Role.ADMIN])
def test_a_decision_takes_a_finding_off_the_list_in_place(page):
    tool = make_tool(name="forecast")
    Finding.objects.create(
        endpoint=tool.endpoint, tool=tool, code="DRIFT", severity="high", subject="x", message="It drifted."
    )
    page.goto("/review/")
    page.evaluate("window.isTheSamePage = true")
    page.get_by_role("button", name="Accept", exact=True).click()

    expect(page.get_by_text("One finding was accepted.")).to_be_visible()
    expect(page.get_by_text("Nothing to review")).to_be_visible()
    expect(page.get_by_role("navigation", name="Main")).not_to_contain_text("waiting for review")
    assert page.evaluate("window.isTheSamePage")


def test_results_follow_the_typing_and_the_address_keeps_the_question(page):
    make_tool(name="send_fax")
    make_tool(make_signature("book_flight", description="WWWWWWWW " * 20))
    search.index_pending()
    page.goto("/tools/")
    page.get_by_role("searchbox", name="Search tools").press_sequentially("flight")

    expect(page.locator("#results [data-row]")).to_have_text(["book_flight"])
    expect(page).to_have_url(re.compile(r"/tools/\?q=flight$"))
    page.reload()
    expect(page.locator("#results [data-row]")).to_have_text(["book_flight"])

    # Two lines of a long text are seen, and the rest where a mouse rests.
    brief = page.locator("#results .brief")
    brief.hover()
    expect(brief).to_have_attribute("title", brief.text_content())


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_ticks_survive_a_new_search_and_lead_to_the_comparison_and_a_pin(page):
    make_agent(slug="desk", name="Desk")
    make_tool(name="send_fax")
    make_tool(name="book_flight")
    search.index_pending()
    page.goto("/tools/?q=fax")
    page.get_by_role("checkbox", name="send_fax").check()
    page.goto("/tools/?q=flight")
    page.get_by_role("checkbox", name="book_flight").check()
    page.get_by_role("link", name="Compare").click()

    expect(page.get_by_role("columnheader")).to_have_text(["send_fax", "book_flight"])
    page.get_by_label("Pin to").select_option("Desk")
    page.get_by_role("button", name="Pin book_flight").click()
    expect(page.get_by_role("cell").get_by_role("link", name="Pinned")).to_be_visible()


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_what_is_ticked_is_pinned_in_one_go(page):
    make_agent(slug="desk", name="Desk")
    make_tool(name="send_fax")
    make_tool(name="book_flight")
    page.goto("/tools/")
    page.get_by_role("checkbox", name="send_fax").check()
    page.get_by_role("checkbox", name="book_flight").check()
    page.get_by_role("button", name="Pin", exact=True).click()

    expect(page.get_by_text("2 tools are pinned to Desk.")).to_be_visible()
    page.goto("/tools/")
    expect(page.get_by_role("checkbox", name="send_fax")).not_to_be_checked()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_tools_are_chosen_over_two_searches_in_a_dialog_by_mouse_and_then_by_keyboard(
    open_browser, complaints, viewport
):
    agent = make_agent(slug="desk", name="Desk")
    for name in ("send_fax", "send_letter", "book_flight", "book_hotel"):
        make_tool(make_signature(name, annotations=Annotations(read_only=name == "book_hotel")))
    search.index_pending()
    page = open_browser(Role.DESIGNER, viewport=viewport).new_page()
    messages = complaints(page)

    page.goto("/agents/desk/")
    page.get_by_role("link", name="Add tools").click()
    dialog, tray_text = page.get_by_role("dialog", name="Add tools to Desk"), page.locator("#add-tray-says")
    expect(dialog.get_by_role("searchbox")).to_be_focused()
    dialog.get_by_role("searchbox").fill("fax")
    expect(dialog.get_by_role("checkbox")).to_have_count(1)
    dialog.get_by_role("checkbox", name="send_fax").check()
    expect(tray_text).to_have_text("1 selected")
    dialog.get_by_role("searchbox").fill("book")
    expect(dialog.get_by_role("checkbox")).to_have_count(2)
    dialog.get_by_role("button", name="Only reads").click()
    expect(tray_text).to_have_text("2 selected")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.get_by_role("link", name="Add tools").click()
    expect(tray_text).to_have_text("2 selected")
    dialog.get_by_role("button", name="Pin selected").click()

    expect(page.get_by_text("2 tools are pinned to Desk.")).to_be_visible()
    assert set(agent.pins.values_list("name", flat=True)) == {"send_fax", "book_hotel"}

    page.get_by_role("link", name="Add tools").focus()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("letter")
    expect(dialog.get_by_role("checkbox")).to_have_count(1)
    press_until(page, dialog.get_by_role("checkbox", name="send_letter"), "Tab")
    page.keyboard.press("Space")
    expect(tray_text).to_have_text("1 selected")
    expect(dialog.get_by_role("checkbox", name="send_letter")).to_be_focused()
    press_until(page, dialog.get_by_role("button", name="Leave out send_letter"), "Tab")
    page.keyboard.press("Enter")
    expect(tray_text).to_have_text("Nothing selected")
    expect(page.locator("#add-panel")).to_be_focused()
    press_until(page, dialog.get_by_role("checkbox", name="send_letter"), "Shift+Tab")
    page.keyboard.press("Space")
    expect(tray_text).to_have_text("1 selected")
    press_until(page, dialog.get_by_role("button", name="Pin selected"), "Tab")
    page.keyboard.press("Enter")

    expect(page.get_by_text("1 tool is pinned to Desk.")).to_be_visible()
    expect(page.get_by_role("link", name="send_letter")).to_be_visible()
    assert messages == []


def press_until(page, target, key):
    for _ in range(30):
        if target.evaluate("node => node === document.activeElement"):
            return
        page.keyboard.press(key)
    pytest.fail(f"{key} does not lead there")


def test_tools_are_chosen_over_two_searches_without_the_script(open_browser):
    agent = make_agent(slug="desk", name="Desk")
    for name in ("send_fax", "book_flight"):
        make_tool(name=name)
    search.index_pending()
    page = open_browser(Role.DESIGNER, java_script_enabled=False).new_page()

    page.goto("/agents/desk/")
    page.get_by_role("link", name="Add tools").click()
    for words, name in (("fax", "send_fax"), ("flight", "book_flight")):
        page.get_by_label("Search all tools by words").fill(words)
        page.keyboard.press("Enter")
        page.get_by_role("checkbox", name=name).check()
    page.get_by_role("button", name="Count again").click()
    expect(page.get_by_role("heading", name="2 selected")).to_be_visible()
    page.get_by_role("button", name="Pin selected").click()

    expect(page.get_by_text("2 tools are pinned to Desk.")).to_be_visible()
    assert set(agent.pins.values_list("name", flat=True)) == {"send_fax", "book_flight"}


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_the_vendors_words_come_back_into_a_box_by_one_press(page):
    pin = make_pin(make_agent(slug="desk"))
    page.goto(f"/agents/desk/pins/{pin.pk}/")
    box = page.get_by_label("Description", exact=True)
    back = page.get_by_role("button", name="Restore the vendor's text")
    expect(box).to_be_visible()
    expect(back).to_have_count(0)
    box.fill("Ours")
    expect(page.locator("#id_description-count")).to_have_text("4 characters · ~1 tokens")

    back.click()

    expect(box).to_have_value("Tomorrow's weather for a city")
    expect(box).to_be_focused()
    expect(back).to_have_count(0)


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_focus_stays_at_the_button_of_a_form_or_goes_to_the_mistake_or_the_message(page):
    agent = make_agent(slug="desk")
    make_pin(agent, alias="weather")
    page.goto("/agents/desk/rehearsals/")
    says = page.get_by_label("What a user says")
    says.fill("Will it rain?")
    page.get_by_label("Expected tool").select_option(index=1)
    add = page.get_by_role("button", name="Add", exact=True)
    add.press("Enter")
    expect(page.locator("#messages .banner")).to_be_visible()
    expect(add).to_be_focused()

    add.press("Enter")
    expect(says).to_be_focused()

    page.goto("/agents/desk/rehearsals/")
    page.get_by_role("button", name="Remove").press("Enter")
    expect(page.locator("#messages .banner")).to_be_focused()


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_a_version_is_previewed_when_it_is_chosen(page):
    pin = make_pin(make_agent(slug="desk"))
    make_version(pin.tool)
    page.goto(f"/agents/desk/pins/{pin.pk}/")
    page.get_by_label("Pinned version").select_option("2")

    expect(page.locator("#move-preview")).to_contain_text("The description of the tool has changed.")


@pytest.mark.parametrize("role", [Role.DESIGNER])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_an_agent_is_edited_beside_its_list_without_leaving_it(page, complaints, wait_for_requests, size):
    desk, messages = make_agent(slug="desk", name="Desk"), complaints(page)
    wait = wait_for_requests(page)
    first, _ = (make_pin(desk, make_tool(name=name), name=name) for name in ("book_flight", "send_fax"))
    body = "Ask, then book_flight()."
    editing.create_procedure(desk, actor=make_user(Role.DESIGNER), title="Trips", body=body)
    page.set_viewport_size(size)
    page.goto("/agents/desk/")
    is_phone = size == PHONE
    rows, title = (
        page.get_by_role("navigation", name="Tools and procedures of Desk"),
        page.locator("#detail [data-focus]"),
    )
    expect(page.get_by_role("link", name="Tools 2")).to_be_visible()
    expect(page.get_by_role("link", name="Procedures 1")).to_be_visible()

    # By keys: j goes to the rows, Enter opens, Escape comes back to the row.
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    expect(rows.get_by_role("link", name="book_flight")).to_be_focused()
    page.keyboard.press("Enter")
    expect(title).to_have_text("book_flight")
    expect(title).to_be_focused()
    expect(page).to_have_url(re.compile(f"/agents/desk/pins/{first.pk}/$"))
    expect(page).to_have_title(re.compile("book_flight in Desk"))
    expect(rows).to_be_visible(visible=not is_phone)
    element = page.get_by_role("heading", name="What the model sees")
    expect(element).to_be_visible(visible=not is_phone)
    if is_phone:
        page.get_by_text("What the model sees", exact=True).first.click()
        expect(element).to_be_visible()
        expect(page.locator("#id_description")).to_be_hidden()
        page.get_by_text("Text", exact=True).first.click()
    page.locator("#id_description").evaluate("box => scrollTo(0, box.offsetTop)")
    assert page.get_by_role("link", name="Review and publish").evaluate(IN_SIGHT)
    assert page.get_by_role("button", name="Save", exact=True).evaluate(IN_SIGHT)
    page.locator("#id_description").press("Escape")
    if is_phone:
        expect(page).to_have_url(re.compile("/agents/desk/$"))
        page.go_back()
        expect(title).to_have_text("book_flight")
    else:
        expect(rows.get_by_role("link", name="book_flight")).to_be_focused()

    # Leaving the page with typed text asks for a confirmation.
    page.locator("#id_description").fill("Typed and not saved")
    expect(page.locator("#shown-text")).to_contain_text("Typed and not saved")
    answers = iter([False, True])
    page.on("dialog", lambda dialog: dialog.accept() if next(answers) else dialog.dismiss())
    leave = page.locator("[data-back]") if is_phone else rows.get_by_role("link", name="send_fax")
    leave.click()
    expect(page.locator("#id_description")).to_have_value("Typed and not saved")
    leave.click()
    if is_phone:
        expect(page).to_have_url(re.compile("/agents/desk/$"))
    else:
        expect(title).to_have_text("send_fax")
        page.go_back()
        expect(title).to_have_text("book_flight")

    # The editor of a procedure works where it is swapped in, and keeps what is typed.
    rows.get_by_role("link", name="Trips").click()
    expect(title).to_have_text("Trips")
    page.locator("#id_body[data-started]").press("Control+End")
    page.wait_for_function("document.activeElement.selectionStart === document.activeElement.value.length")
    page.keyboard.type(" Then @send")
    page.get_by_role("option", name="send_fax").click()
    if is_phone:
        page.locator("[data-back]").click()
    rows.get_by_role("link", name="send_fax").click()
    expect(title).to_have_text("send_fax")
    wait()
    page.goto("/agents/desk/procedures/trips/")
    expect(page.locator("#id_body")).to_have_value("Ask, then book_flight(). Then send_fax()")
    assert messages == []


STUCK = """() => [...document.querySelectorAll("body *")]
    .filter(node => ["sticky", "fixed"].includes(getComputedStyle(node).position) && node.checkVisibility())
    .map(node => node.getBoundingClientRect())
    .reduce((sum, {top, bottom}) => sum + Math.max(0, Math.min(bottom, innerHeight) - Math.max(top, 0)), 0)"""


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_bars_leave_most_of_a_low_window_to_the_content(page):
    """A window of 1280 by 1024 pixels at 400 % has 320 by 256."""
    pin = make_pin(make_agent(slug="desk", name="Desk"))
    page.set_viewport_size({"width": 320, "height": 256})
    page.goto(f"/agents/desk/pins/{pin.pk}/")
    page.locator("#id_description").evaluate("box => scrollTo(0, box.offsetTop)")
    assert page.evaluate(STUCK) < 256 / 3


@pytest.mark.parametrize("role", [Role.DESIGNER])
@pytest.mark.parametrize("width", [390, 1024, 1280, 1440])
def test_selected_tools_are_never_over_the_list(page, width):
    make_agent(name="Desk", slug="desk")
    make_tool(make_signature("list_transactions_of_account", annotations=Annotations(destructive=True)))
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/agents/desk/add-tools/")

    table = page.locator(".adding .table").bounding_box()
    tray = page.locator(".adding-tray").bounding_box()

    assert table["x"] + table["width"] <= tray["x"] or table["y"] + table["height"] <= tray["y"]
    # Beside the list on a desk, below it in a narrower window.
    assert (table["x"] + table["width"] <= tray["x"]) is (width >= 1280)


@pytest.mark.parametrize("role", [Role.DESIGNER])
@pytest.mark.parametrize("width", [1024, 1280, 1440])
def test_the_preview_of_a_tool_can_be_seen_at_each_width(page, width):
    pin = make_pin(make_agent(slug="desk", name="Desk"))
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"/agents/desk/pins/{pin.pk}/")
    if page.locator(".pane-switch").is_visible():
        page.locator(".pane-switch [value=seen]").check(force=True)

    expect(page.locator(".pane-seen")).to_be_visible()
    editor = page.locator(".pane-editor")
    assert not editor.is_visible() or editor.bounding_box()["width"] >= 400
