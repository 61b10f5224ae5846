"""Goes from “New credential” to a token in a browser: our policies allow the way to the vendor and back."""

import re

import pytest

from catalog.models import Endpoint, Grant, Run
from people.models import Role
from tests.authorization_server import CLIENT_ID, CLIENT_SECRET, AuthorizationServer
from tests.strict_authorization import StrictServer

pytestmark = pytest.mark.browser


def test_an_administrator_looks_up_a_vendor_and_signs_in_there(open_browser, complaints):
    page = open_browser(Role.ADMIN).new_page()
    messages = complaints(page)
    with AuthorizationServer() as server:
        basic = ["client_secret_basic"]
        server.documents = {
            "/.well-known/oauth-protected-resource": server.resource(),
            "/.well-known/oauth-protected-resource/tools": server.resource(),
            "/.well-known/oauth-authorization-server": server.metadata(
                token_endpoint_auth_methods_supported=basic
            ),
        }
        page.goto("/credentials/new/")
        assert not page.get_by_label("Token address").is_visible()
        page.get_by_label("Name", exact=True).fill("Weather")
        page.get_by_label("Address of the vendor").fill(f"{server.url}/tools")
        page.get_by_label("Kind").select_option("oauth_code")
        page.get_by_role("button", name="Look up this server's settings").click()
        page.get_by_role("button", name="Use these settings").click()
        page.get_by_label("Client id").fill(CLIENT_ID)
        page.get_by_label("Secret", exact=True).fill(CLIENT_SECRET)
        page.get_by_role("button", name="Save").click()
        page.get_by_role("button", name="Sign in at").click()
        page.get_by_text("“Weather” can be used now.").wait_for()

        assert "code=" not in page.url
        assert Grant.objects.get().access_token
        assert [form["grant_type"] for form in server.forms] == ["authorization_code"]
    assert messages == []


def test_a_vendor_that_wants_a_sign_in_is_connected_in_one_go(open_browser, complaints):
    page = open_browser(Role.ADMIN).new_page()
    messages = complaints(page)
    with StrictServer(client_id="") as server:
        page.goto("/endpoints/new/")
        page.get_by_text("Choose the protocol yourself").click()
        page.get_by_label("Name of the new vendor").fill("Forecasts")
        page.get_by_role("radio", name="MCP").check()
        page.get_by_label("Address", exact=True).fill(server.resource)
        page.get_by_role("button", name="Preview the tools").click()
        page.get_by_role("heading", name="This vendor requires a sign-in").wait_for()
        page.get_by_role("button", name=re.compile("register Pegboard at 127")).click()
        page.get_by_text("can be used now.").wait_for()

        assert page.url.endswith(f"/runs/{Run.objects.get().pk}/")
        assert (server.faults, Endpoint.objects.get().is_paused) == ([], False)
    assert messages == []
