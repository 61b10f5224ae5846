"""A tool is tried in a real browser, and a worker runs it meanwhile."""

import pytest
from playwright.sync_api import expect

from execution.calls import invocation
from people.models import Role
from protocols.signature import AllowedValue, Annotations
from tests.browser.axe import shut_out_in_both_themes
from tests.browser.conftest import DESKTOP, PHONE
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool
from tests.hostile_vendor import HostileVendor, json_reply

pytestmark = pytest.mark.browser

INPUTS = (
    make_parameter("city"),
    make_parameter("units", type="enum", required=False, allowed_values=(AllowedValue("METRIC"),)),
    make_parameter("days", type="int", required=False, min=1, max=14),
    make_parameter("extra", type="json", required=False, schema={"type": "array"}),
)
ROWS = [{"day": "Monday", "sky": "<b>fair</b>"}, {"day": "Tuesday", "sky": "rain"}]
ANSWER = json_reply({"output_parameters": [{"name": "forecast", "value": ROWS}]})


def make_it(url: str, **fields):
    outputs = (make_parameter("forecast", type="json"),)
    return make_tool(
        make_signature("forecast", inputs=INPUTS, outputs=outputs, **fields), endpoint=make_endpoint(url=url)
    )


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_a_tool_is_tried_kept_and_run_again(page, complaints, worker):
    messages = complaints(page)
    with HostileVendor(ANSWER) as vendor:
        tool = make_it(vendor.url)
        page.goto(f"/tools/{tool.pk}/")
        page.get_by_role("link", name="Try it").click()
        page.get_by_label("days").fill("99")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("Is required.")).to_be_visible()
        expect(page.get_by_label("days")).to_have_value("99")

        page.get_by_label("city").fill("Oslo")
        page.get_by_label("days").fill("2")
        page.get_by_role("button", name="Run").click()
        result = page.get_by_role("region", name="Result")
        expect(result.get_by_text("Succeeded")).to_be_visible()
        expect(result.get_by_role("cell", name="<b>fair</b>")).to_be_visible()
        expect(page.get_by_role("region", name="Recent calls").get_by_text("Succeeded")).to_be_visible()
        result.get_by_text("Requests and replies").click()
        expect(result.get_by_label("Request")).to_contain_text('"value": "Oslo"')

        page.get_by_label("Save these inputs for your team as").fill("Capital")
        page.get_by_role("button", name="Save", exact=True).click()
        examples = page.get_by_role("region", name="Examples")
        examples.get_by_role("button", name="Run").click()
        expect(page.get_by_role("region", name="Recent calls").get_by_role("row")).to_have_count(3)
        expect(result.get_by_text("Succeeded")).to_be_visible()

    assert messages == []
    assert [request.method for request in vendor.requests] == ["POST", "POST"]


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_nobody_is_shut_out_of_trying(open_browser, worker, viewport):
    page = open_browser(Role.DESIGNER, viewport=viewport).new_page()
    with HostileVendor(ANSWER) as vendor:
        tool = make_it(vendor.url, annotations=Annotations(destructive=True))
        page.goto(f"/tools/{tool.pk}/try/")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("Is required.")).to_be_visible()
        refused = shut_out_in_both_themes(page)
        page.get_by_label("city").fill("Oslo")
        page.get_by_label("Yes, run it").check()
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("region", name="Result").get_by_text("Succeeded")).to_be_visible()
        page.evaluate(
            "document.querySelectorAll('details:not(.menu)').forEach(each => { each.open = true; })"
        )
        worked = shut_out_in_both_themes(page)

    assert refused + worked == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_trying_works_without_the_script(open_browser):
    page = open_browser(Role.DESIGNER, java_script_enabled=False).new_page()
    with HostileVendor(ANSWER) as vendor:
        tool = make_it(vendor.url)
        page.goto(f"/tools/{tool.pk}/try/")
        page.get_by_label("city").fill("Oslo")
        page.get_by_role("button", name="Run").click()
        result = page.get_by_role("region", name="Result")
        expect(result.get_by_text("Waiting for a worker.")).to_be_visible()

        invocation.perform_due_calls()
        expect(result.get_by_text("Succeeded")).to_be_visible()
