"""An activity is set up with the keyboard alone, and on a page that asks before typed words are left."""

import pytest

from catalog.models import Activity
from people.models import Role
from tests.catalog.views.test_activities import mail

__all__ = ["mail"]
pytestmark = pytest.mark.browser


def reach(page, selector):
    """Move the focus there by the tabulator key, as a user without a mouse does."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached")


@pytest.mark.parametrize("role", [Role.DESIGNER])
def test_an_activity_is_set_up_with_the_keyboard_alone(page, mail):
    post, notes, _ = mail
    page.goto(f"/activities/new/?kind=vendor&interface=tool:{post.pk}:1")
    page.locator("#id_name").focus()
    page.keyboard.type("By Larkspur")
    reach(page, "#find-step")
    page.keyboard.type("send a note")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    # Enter sought, and saved nothing.
    assert page.locator("#id_name").input_value() == "By Larkspur"
    reach(page, f'[value="add-tool:{notes.pk}:1"]')
    with page.expect_navigation():
        page.keyboard.press("Enter")
    reach(page, "#steps-0-inputs-2-from")
    page.keyboard.type("A fixed")
    reach(page, "#steps-0-inputs-2-value")
    page.keyboard.type("Come by.")
    reach(page, "button[value=save]")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    activity = Activity.objects.get()
    assert page.url.partition("#")[0].endswith(f"/activities/{activity.pk}/")
    assert activity.current.config["steps"][0]["inputs"]["message"] == {"value": "Come by."}
