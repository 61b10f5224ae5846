"""A procedure is written in a real browser: by keyboard, by mouse, and on a phone."""

import pytest
from playwright.sync_api import expect

from catalog.search import index as search_index
from designer.models import Procedure
from designer.procedures import editing
from people.models import Role
from protocols.signature import AllowedValue
from tests.browser.conftest import DESKTOP, PHONE
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)

pytestmark = pytest.mark.browser

ABOVE_THE_BAR = """list => list.getBoundingClientRect().bottom <=
    document.querySelector(".save-bar").getBoundingClientRect().top"""
CHANNELS = (AllowedValue("SMS"), AllowedValue("EMAIL"))


@pytest.fixture
def pins(db):
    agent = make_agent(slug="desk", name="Desk")
    look_up = make_signature(
        "look_up",
        inputs=(make_parameter("account_id"),),
        outputs=(make_parameter("refills", required=False),),
    )
    order = make_signature(
        "order_refill",
        inputs=(make_parameter("refill"), make_parameter("channel", type="enum", allowed_values=CHANNELS)),
    )
    editing.create_procedure(agent, actor=make_user(Role.DESIGNER), title="Refill", body="## Steps\n")
    return [make_pin(agent=agent, tool=make_tool(version)) for version in (look_up, order)]


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_the_editor_marks_references_as_the_server_reads_them(page, pins):
    page.goto("/agents/desk/procedures/refill/")
    text = page.get_by_label("Text", exact=True)
    reference_mark = page.locator(".editor-marks mark.is-known")
    for reference in ("look_up({account_id})", "look_up({item:account_id}, account_id={other})"):
        text.fill(f"1. Call {reference} now")
        expect(reference_mark).to_have_text(reference)
    text.fill("1. Call look_up(with care!) now")
    expect(reference_mark).to_have_count(0)
    text.fill("1. Call order_refill(")
    text.press("End")
    page.keyboard.type("{account_id}, cha")
    expect(page.get_by_role("option", name="channel")).to_be_visible()


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_references_are_completed_and_checked_by_keyboard_alone(page, complaints, pins):
    messages = complaints(page)
    page.set_viewport_size(DESKTOP)
    page.goto("/agents/desk/procedures/refill/")
    text = page.get_by_label("Text", exact=True)
    text.focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("1. With {acc")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    page.keyboard.type(" call @loo")
    page.keyboard.press("Tab")
    page.keyboard.type(", read ")
    page.keyboard.type("look_up().ref")
    page.keyboard.press("Enter")
    page.keyboard.type("\n2. Order by order_refill(cha")
    expect(page.get_by_role("option", name="channel")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.type(' for nothing() of "SMS".')

    expected_text = (
        "## Steps\n1. With {account_id} call look_up(), read look_up().refills"
        '\n2. Order by order_refill(channel) for nothing() of "SMS".'
    )
    expect(text).to_have_value(expected_text)
    expect(page.get_by_text("There is no tool called “nothing”")).to_be_visible()
    expect(page.locator(".editor-marks mark.is-unknown")).to_have_text("nothing()")
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saved. Publish the agent")).to_be_visible()
    look_up, order = pins
    assert Procedure.objects.get().text == (
        f"## Steps\n1. With {{item:account_id}} call {{tool:{look_up.pk}}}, read {{out:{look_up.pk}/refills}}"
        f'\n2. Order by {{in:{order.pk}/channel}} for nothing() of "SMS".'
    )
    assert messages == []


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_what_is_typed_before_the_tools_are_read_is_completed(page, pins):
    held_requests = []
    page.route("**/tools/?own=1", lambda route: held_requests.append(route))
    page.goto("/agents/desk/procedures/refill/")
    page.locator("#id_body[data-started]").press("Control+End")
    with page.expect_response("**/tools/?q=*"):
        page.keyboard.type("1. Call @look")
    expect(page.get_by_role("option")).to_have_count(0)
    held_requests.pop().continue_()
    expect(page.get_by_role("option", name="look_up")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Text", exact=True)).to_have_value("## Steps\n1. Call look_up()")


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_a_tool_of_the_catalog_is_chosen_while_writing(page, complaints, pins):
    messages = complaints(page)
    make_tool(make_signature("track_parcel"))
    make_tool(make_signature("weigh_parcel"))
    search_index.index_pending()
    page.goto("/agents/desk/procedures/refill/")
    text = page.get_by_label("Text", exact=True)
    text.focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("1. Call @track")
    expect(page.get_by_role("option", name="track_parcel")).to_contain_text("not pinned yet")
    page.keyboard.press("Tab")
    expect(text).to_have_value("## Steps\n1. Call @track")
    expect(page.get_by_role("option")).to_have_count(0)
    assert not pins[0].agent.pins.live().filter(name="track_parcel").exists()
    text.focus()
    page.keyboard.type("_")
    expect(page.get_by_role("option", name="track_parcel")).to_be_visible()
    page.keyboard.press("Enter")
    expect(text).to_have_value("## Steps\n1. Call track_parcel()")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator('[data-tool="track_parcel"]')).to_have_count(0)
    assert not pins[0].agent.pins.live().filter(name="track_parcel").exists()
    page.get_by_role("button", name="Pin track_parcel").click()
    expect(page.locator('[data-tool="track_parcel"]')).to_be_visible()
    expect(page.locator(".editor-marks mark.is-known")).to_have_text("track_parcel()")
    expect(text).to_be_focused()

    page.keyboard.type(", then weigh_parcel()")
    page.get_by_role("button", name="Pin weigh_parcel").click()
    expect(page.locator('[data-tool="weigh_parcel"]')).to_be_visible()
    expect(text).to_have_value("## Steps\n1. Call track_parcel(), then weigh_parcel()")
    expect(text).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type(" or @trak_parcel() ")
    page.get_by_role("button", name="Replace with track_parcel()").click()
    expect(text).to_have_value("## Steps\n1. Call track_parcel(), then weigh_parcel() or @track_parcel() ")
    page.get_by_label("Title").press("Control+s")
    expect(page.get_by_text("Saved. Publish the agent")).to_be_visible()
    assert set(pins[0].agent.pins.live().values_list("name", flat=True)) >= {"track_parcel", "weigh_parcel"}
    assert messages == []


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_a_tool_is_inserted_by_a_press_and_a_remark_leads_to_its_line(page, complaints, pins):
    messages = complaints(page)
    page.set_viewport_size(PHONE)
    page.goto("/agents/desk/procedures/refill/")
    text = page.get_by_label("Text", exact=True)
    text.press("Control+End")
    page.locator(".pane-switch").get_by_text("Tools").click()
    page.get_by_text("look_up()", exact=True).first.click()
    page.get_by_role("button", name="Insert look_up()").click()
    expect(text).to_have_value("## Steps\nlook_up()")
    expect(page.get_by_text("“look_up()” needs “account_id”")).to_be_visible()

    page.get_by_role("button", name="Go to line 2").click()

    assert text.evaluate("box => box.value.slice(box.selectionStart, box.selectionEnd)") == "look_up()"
    page.keyboard.type("@")
    assert page.locator("#offers").evaluate(ABOVE_THE_BAR)
    page.keyboard.type("ord")
    page.get_by_role("option", name="order_refill").click()
    expect(text).to_have_value("## Steps\norder_refill()")
    assert messages == []


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_what_was_typed_is_there_after_the_window_was_closed(page, pins):
    page.goto("/agents/desk/procedures/refill/")
    page.get_by_label("Text", exact=True).fill("Half a thought")
    expect(page.get_by_text("draft saved")).to_be_visible()

    page.goto("/agents/")
    page.goto("/agents/desk/procedures/refill/")

    expect(page.get_by_text("This is your unsaved text")).to_be_visible()
    expect(page.get_by_label("Text", exact=True)).to_have_value("Half a thought")


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_what_is_saved_at_once_is_no_draft_any_more(page, pins):
    page.goto("/agents/desk/procedures/refill/")
    page.locator("#id_body[data-started]").press("Control+End")
    page.keyboard.type("Call look_up().")
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saved. Publish the agent")).to_be_visible()
    page.reload()
    expect(page.get_by_text("This is your unsaved text")).to_have_count(0)
    assert Procedure.objects.get().drafts.count() == 0


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_without_scripts_it_is_a_text_box_that_is_saved_and_checked(open_browser, role, pins):
    page = open_browser(role, java_script_enabled=False).new_page()
    page.goto("/agents/desk/procedures/refill/")
    page.get_by_label("Text", exact=True).fill("Call look_up().")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("“look_up()” needs “account_id”")).to_be_visible()


@pytest.mark.parametrize("role", [Role.DESIGNER])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_an_upgrade_leads_to_the_line_that_it_breaks(page, complaints, pins, size):
    messages = complaints(page)
    look_up, _ = pins
    body = "\n".join(
        ["Ask for {account_id}.", "Call look_up().", *["And wait."] * 120, "Say look_up().refills."]
    )
    editing.save_procedure(Procedure.objects.get(), actor=make_user(Role.DESIGNER), body=body)
    make_version(look_up.tool, make_signature("look_up", inputs=(make_parameter("account_id"),)))
    page.set_viewport_size(size)
    page.goto("/agents/desk/upgrades/")

    page.get_by_role("link", name="Refill, line 123").click()

    text = page.get_by_label("Text", exact=True)
    expect(text).to_be_focused()
    selected_text = "box => box.value.slice(box.selectionStart, box.selectionEnd)"
    assert text.evaluate(selected_text) == "Say look_up().refills."
    assert page.evaluate("scrollY") > 500
    assert messages == []
