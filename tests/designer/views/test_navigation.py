"""The side bar by role, and the four tabs of an agent with the pages below them."""

import re

import pytest

from people.models import Role
from tests.factories import make_agent
from tests.pages import signed_in

pytestmark = pytest.mark.django_db
SIDE = re.compile(r'<a class="side-link" href="([^"]+)"( aria-current="page")?')
TAB = re.compile(r'<a class="tab" href="([^"]+)"(?: aria-current="(?:page|true)")?>(\w+)')
CURRENT_TAB = re.compile(r'<a class="tab" href="[^"]+" aria-current="(?:page|true)">(\w+)')
FOR_ADMINISTRATORS = {"/credentials/", "/users/", "/teams/", "/judges/"}
FOR_DESIGNERS = {"/grants/"}
AGENT = "/agents/desk/"


def entries_of(role):
    page = signed_in(role).get("/agents/").content.decode()
    assert re.findall(r'<p class="side-title">(\w+)</p>', page) == ["Build", "Watch", "Manage"]
    return {url for url, _ in SIDE.findall(page)}


def test_the_side_bar_has_only_what_a_role_may_use():
    admin, designer, viewer = entries_of(Role.ADMIN), entries_of(Role.DESIGNER), entries_of(Role.VIEWER)
    assert admin - designer == FOR_ADMINISTRATORS
    assert designer - viewer == FOR_DESIGNERS
    assert viewer == {"/agents/", "/tools/", "/", "/vendors/", "/runtimes/", "/keys/", "/audit/"}


def test_every_entry_opens_and_is_the_current_one_there():
    browser = signed_in(Role.ADMIN)
    for url in entries_of(Role.ADMIN):
        current = [path for path, is_current in SIDE.findall(browser.get(url).content.decode()) if is_current]
        assert current == [url]


@pytest.mark.parametrize(
    ("path", "tab"),
    [
        ("", "Build"),
        ("procedures/", "Build"),
        ("tree/", "Build"),
        ("rehearsals/", "Test"),
        ("mocks/", "Test"),
        ("environments/", "Test"),
        ("upgrades/", "Updates"),
        ("releases/", "Releases"),
        ("publish/", "Releases"),
        ("threads/", "Releases"),
    ],
)
def test_an_agent_has_four_tabs_and_every_address_belongs_to_one(path, tab):
    make_agent(slug="desk")
    page = signed_in(Role.DESIGNER).get(AGENT + path).content.decode()
    assert [label for _, label in TAB.findall(page)] == ["Build", "Test", "Updates", "Releases"]
    assert CURRENT_TAB.findall(page) == [tab]
