"""Pages by role, and their layout with long texts."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from catalog.models import Finding, Rejection, Run
from designer.agents import agent_keys
from designer.pins import pins
from designer.releases import publishing
from people.models import Role
from protocols.signature import AllowedValue
from tests.browser.axe import shut_out
from tests.browser.cast import set_the_stage
from tests.browser.conftest import DESKTOP, PHONE
from tests.browser.test_every_page import STICKS_OUT
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_vendor,
    make_version,
)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Fields of a form that the user's role may not submit.
EDITABLE = """() => [...document.querySelectorAll("main form[method=post]")]
    .filter(form => {
        const buttons = [...form.querySelectorAll("button")];
        return buttons.length && buttons.every(button => button.disabled);
    })
    .flatMap(form => [...form.querySelectorAll("input:not([type=hidden]), select, textarea")])
    .filter(box => !box.matches(":disabled"))
    .map(box => box.name || box.id)"""
OVERLAPS = """() => {
    const cells = [...document.querySelectorAll("main .table td")];
    return cells.filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.textContent.trim());
}"""
# Labels that end in dots, and words that are broken over two lines.
CUT = """() => [...document.querySelectorAll("main .table .label")]
    .filter(label => label.scrollWidth > label.clientWidth).map(label => label.textContent)"""
BROKEN = """() => {
    const main = document.querySelector("main"), broken = [];
    const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
            const range = document.createRange();
            range.setStart(texts.currentNode, word.index);
            range.setEnd(texts.currentNode, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map(part => part.top)).size > 1) broken.push(word[0]);
        }
    }
    return broken;
}"""
# How far panels that follow each other are apart.
GAPS = """() => {
    const panels = [...document.querySelectorAll("main .panel")].map(panel => panel.getBoundingClientRect());
    return panels.slice(1).map((panel, n) => Math.round(panel.top - panels[n].bottom));
}"""


def of_the_longest_names() -> list[str]:
    """A vendor whose every word is as long as words may be; returns its pages, and those that list it."""
    inputs = (
        make_parameter("p" * 128, description="d" * 500),
        make_parameter("kind", type="enum", allowed_values=(AllowedValue("V" * 80), AllowedValue("W"))),
    )
    signature = make_signature(
        "n" * 200, title="T" * 200, description="D" * 900, inputs=inputs, outputs=inputs
    )
    vendor = make_vendor(name="V" * 110, slug="long")
    endpoint = make_endpoint(
        vendor=vendor,
        name="E" * 60,
        url="http://127.0.0.1:9998/" + "path/" * 40,
        last_success_at=timezone.now(),
    )
    endpoint.held_run = Run.objects.create(
        endpoint=endpoint,
        status="failed",
        error_code="SHRINK_HELD",
        queued_at=timezone.now() - timedelta(minutes=52),
    )
    endpoint.save()
    tool = make_tool(signature, endpoint=endpoint, tags=["t" * 60])
    Rejection.objects.create(run=endpoint.held_run, tool="#3", code="NAME_TOO_LONG", reason="r" * 300)
    agent = make_agent(name="A" * 100, slug="long", description="x" * 400)
    pin = make_pin(agent, tool)
    publishing.publish(agent, actor=make_user(name="N" * 60), note="o" * 300, channel="live")
    pages = ("", "try/", "tuning/", "versions/", "used-by/", "findings/", "raw/")
    return [
        *("/", "/tools/", f"/agents/{agent.slug}/add-tools/", f"/tools/compare/?tool={tool.pk}", "/vendors/"),
        *(f"/tools/{tool.pk}/{page}" for page in pages),
        *("/vendors/long/", f"/endpoints/{endpoint.pk}/", f"/runs/{endpoint.held_run_id}/", "/review/"),
        *("/agents/", "/agents/long/", f"/agents/long/pins/{pin.pk}/", "/agents/long/upgrades/"),
        *("/agents/long/releases/", "/agents/long/releases/1/", "/agents/long/received/", "/audit/"),
        *("/agents/long/channels/live/", "/agents/long/channels/canary/?release=1"),
        "/agents/long/publish/",
    ]


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_the_longest_names_stick_out_of_no_panel(open_browser, viewport):
    page, nodes_by_address = open_browser(Role.ADMIN, viewport=viewport).new_page(), {}
    for address in of_the_longest_names():
        page.goto(address)
        if nodes := page.evaluate(STICKS_OUT):
            nodes_by_address[address] = nodes

    assert nodes_by_address == {}


def test_who_may_not_send_a_form_cannot_fill_it_in(open_browser):
    page, boxes_by_address = open_browser(Role.VIEWER).new_page(), {}
    for address in set_the_stage():
        page.goto(address)
        if boxes := page.evaluate(EDITABLE):
            boxes_by_address[address] = boxes

    assert boxes_by_address == {}


# On how many lines the text of an element is.
LINES = """node => {
    const text = document.createRange();
    text.selectNodeContents(node);
    return new Set([...text.getClientRects()].map(box => Math.round(box.bottom))).size;
}"""


def test_who_approved_what_keeps_names_and_times_in_one_line(page):
    actor = make_user(Role.DESIGNER, name="Alexandra Berger-Montgomery", username="ada")
    agent = make_agent(name="Desk", slug="desk")
    pins.pin_tool(agent, actor=actor, tool=make_tool(name="cancel_subscription_of_customer_account"))
    publishing.publish(agent, actor=actor, note="The first")
    page.goto("/agents/desk/received/")

    row = page.locator("tbody tr")
    cell = row.locator("[data-label=Pinned]")
    assert [part.evaluate(LINES) for part in cell.locator("a, .faint").all()] == [1, 1]
    assert page.evaluate(OVERLAPS) == []


def test_what_keys_may_and_who_approved_is_neither_cut_nor_broken_on_a_phone(open_browser):
    actor = make_user(Role.ADMIN, name="Administrator", username="ada")
    agent = make_agent(name="Desk", slug="desk")
    pins.pin_tool(agent, actor=actor, tool=make_tool(name="forecast"))
    publishing.publish(agent, actor=actor, note="The first")
    scopes = ["runtime", "invoke"]
    agent_keys.issue(actor, actor=actor, name="Desk, runtime", scopes=scopes, agents=[agent])
    page = open_browser(Role.ADMIN, viewport=PHONE).new_page()
    for address in ("/keys/", "/agents/desk/received/"):
        page.goto(address)
        assert page.locator("tbody tr").count() == 1
        assert (page.evaluate(CUT), page.evaluate(BROKEN)) == ([], []), address


def test_a_long_address_in_a_finding_fits_on_a_phone(open_browser):
    endpoint = make_endpoint()
    run = Run.objects.create(endpoint=endpoint, status="succeeded", seen=1, added=1)
    tool = make_tool(endpoint=endpoint)
    finding = Finding.objects.create(
        endpoint=endpoint,
        tool=tool,
        version=tool.current,
        run=run,
        code="TEMPLATED_LINK",
        severity="medium",
        subject="x",
        message=f"It holds a link: https://collector.example/{'a' * 200}?key={{key}}",
    )
    page = open_browser(Role.ADMIN, viewport=PHONE).new_page()
    for address in (
        f"/runs/{run.pk}/",
        f"/tools/{tool.pk}/findings/",
        "/",
        "/review/",
        f"/review/?item={finding.pk}",
    ):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address


def test_panels_of_the_raw_document_do_not_touch(page):
    tool = make_tool(make_signature("forecast"), endpoint=make_endpoint(protocol="mcp"))
    page.goto(f"/tools/{tool.pk}/raw/")

    gaps = page.evaluate(GAPS)
    assert gaps
    assert min(gaps) >= 8


def test_each_tab_of_a_tool_has_a_title_of_its_own(page):
    tool = make_tool(name="forecast")
    titles = set()
    for part in ("", "try/", "tuning/", "versions/", "used-by/", "findings/", "raw/"):
        page.goto(f"/tools/{tool.pk}/{part}")
        assert "forecast" in page.title()
        titles.add(page.title())

    assert len(titles) == 7


def test_slash_goes_to_the_search_of_the_page_or_of_the_side_bar(page):
    page.goto("/tools/")
    expect(page.locator(".search .kbd:visible", has_text="/")).to_have_count(1)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search tools", exact=True)).to_be_focused()

    page.goto("/agents/")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search all tools")).to_be_focused()


def test_raw_differences_calls_and_the_review_shut_nobody_out(page):
    tool = make_tool(name="forecast")
    make_pin(make_agent(), tool)
    second = make_version(tool, make_signature("forecast", description="Other words"))
    third = make_version(tool, make_signature("forecast", description="Words of its third"))
    Finding.objects.create(
        endpoint=tool.endpoint,
        tool=tool,
        version=third,
        against=second,
        code="DRIFT",
        severity="high",
        subject=third.digest,
        message="It drifted.",
    )
    for address in ("/review/", f"/tools/{tool.pk}/versions/?raw=1", "/api/docs/tools/"):
        page.goto(address)
        page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
        assert shut_out(page) == [], address


def test_three_compared_tools_can_be_read_on_a_phone(open_browser):
    tools = [make_tool(make_signature(f"refill_prescription_of_member_{number}")) for number in range(3)]
    page = open_browser(Role.DESIGNER, viewport=PHONE).new_page()
    page.goto(f"/tools/compare/?{'&'.join(f'tool={tool.pk}' for tool in tools)}")

    for header in page.locator(".compare thead th").all():
        box = header.bounding_box()
        assert box is not None
        assert box["width"] >= 130
    assert page.evaluate("document.documentElement.scrollHeight") < 5_000
