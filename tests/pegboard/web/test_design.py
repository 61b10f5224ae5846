"""The page with every component, which only `make run` shows."""

import re

import pytest
from django.conf import settings as product_settings

from people.models import Role
from tests.pages import signed_in

pytestmark = pytest.mark.django_db


def test_it_is_there_under_make_run_only(settings):
    browser = signed_in(Role.VIEWER)

    settings.LOCAL = False
    assert browser.get("/design/").status_code == 404
    settings.LOCAL = True
    assert browser.get("/design/").status_code == 200


def test_it_shows_every_icon_and_every_colour(settings):
    settings.LOCAL = True
    page = signed_in(Role.VIEWER).get("/design/").content.decode()
    static = product_settings.BASE_DIR / "static"
    icons = re.findall(r'id="([\w-]+)"', (static / "icons.svg").read_text())
    colours = re.findall(
        r"^  --([\w-]+): light-dark", (static / "css" / "variables.css").read_text(), re.MULTILINE
    )

    assert [name for name in icons if f"<code>{name}</code>" not in page] == []
    assert [
        name
        for name in colours
        if f"<code>{name}</code>" not in page and "-dot" not in name and "hover" not in name
    ] == []
