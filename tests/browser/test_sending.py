"""A form is sent once, and the button that was pressed shows that the server works on it."""

import pytest

from designer.models import Release
from people.models import Role
from tests.factories import make_agent, make_pin

pytestmark = pytest.mark.browser

# Presses the button twice before the page of the reply replaces this one.
PRESS_TWICE = """button => {
  button.click();
  button.click();
  return button.ariaBusy;
}"""


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_a_second_press_publishes_no_second_release(page, complaints):
    messages = complaints(page)
    make_pin(agent=make_agent(slug="desk"))
    page.goto("/agents/desk/publish/")
    posted = []
    page.on("request", lambda request: request.method == "POST" and posted.append(request.url))

    assert page.get_by_role("button", name="Publish only").evaluate(PRESS_TWICE) == "true"
    page.wait_for_url("**/releases/1/**")
    assert len(posted) == 1
    assert Release.objects.count() == 1
    assert messages == []


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_buttons_are_ready_again_after_going_back(page):
    make_pin(agent=make_agent(slug="desk"))
    page.goto("/agents/desk/publish/")
    page.get_by_role("button", name="Publish only").click()
    page.wait_for_url("**/releases/1/**")
    page.go_back()

    page.wait_for_function("!document.querySelector('[aria-busy]')")
