"""A procedure is tested against mocks in one press, in a real browser."""

import pytest
from playwright.sync_api import expect

from designer.procedures import editing
from people.models import Role
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]


def test_a_procedure_is_tested_against_mocks_in_one_press(open_browser):
    agent = make_agent(slug="desk", name="Desk")
    for name in ("find_person", "write_letter"):
        person = make_parameter("person")
        make_pin(
            agent, make_tool(make_signature(name, inputs=(person,), outputs=(make_parameter("answer"),)))
        )
    text = "1. find_person()\n2. write_letter()"
    editing.create_procedure(agent, actor=make_user(Role.DESIGNER), title="Write", body=text)
    page = open_browser(Role.DESIGNER).new_page()

    page.goto("/agents/desk/rehearsals/")
    page.get_by_role("button", name="Test “Write” against mocks").click()

    expect(page.locator("[role=status].is-ok")).to_contain_text("2 of 2")
