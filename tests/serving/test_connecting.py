"""The page that shows how to connect a client to a release."""

import html
import json
import re
import shlex

import pytest
from django.test import Client

from core.errors import DomainError
from people.models import ApiKey, KeyScope, Role
from serving.serve import SERVED
from tests.factories import make_user
from tests.serving.test_calls import desk, owner, runtime, vendor

__all__ = ["desk", "owner", "vendor"]
pytestmark = pytest.mark.django_db
PAGE = "/agents/desk/releases/1/connect/"


@pytest.fixture
def browser(owner, desk):
    client = Client()
    client.force_login(owner)
    return client


def texts(page: str) -> list[str]:
    return [html.unescape(block) for block in re.findall(r'<pre class="source"[^>]*>(.*?)</pre>', page, re.S)]


def make_the_key(browser, page: str):
    """Press the button of the page."""
    document = browser.get(page).content.decode()
    (action,) = re.findall(r'<form[^>]*method="post" action="([^"]*connect[^"]*)"', document)
    return browser.post(html.unescape(action))


def test_every_protocol_has_its_address_and_a_text_to_copy(browser):
    page = browser.get(PAGE).content.decode()
    for protocol in SERVED:
        assert f"http://testserver/serve/desk/live/{protocol.name}" in page
        assert f'data-copy="#text-{protocol.name}-1"' in page
    assert f'href="{PAGE}"' in browser.get("/agents/desk/releases/1/").content.decode()


def test_each_line_for_a_shell_lists_the_tools(browser, desk, owner):
    lines = [text for text in texts(browser.get(PAGE).content.decode()) if text.startswith("curl")]
    program = runtime(owner, desk[0])
    for line in lines:
        *words, address = shlex.split(line)
        path = address.removeprefix("http://testserver")
        answer = program.post(path, {}, format="json") if "-d" in words else program.get(path)
        assert "sky" in answer.content.decode(), line
    assert len(lines) == len(SERVED)


def test_each_text_for_a_client_of_mcp_names_the_server_and_leaves_a_place_for_the_key(browser):
    configurations = [text for text in texts(browser.get(PAGE).content.decode()) if text.startswith("{")]
    assert len(configurations) == 4
    for text in configurations:
        document = json.loads(text)
        (server,) = (document.get("mcpServers") or document["servers"]).values()
        assert "http://testserver/serve/desk/live/mcp" in json.dumps(server)
        assert "Bearer" in json.dumps(server)


def test_runtimes_are_given_the_address_of_their_own_processes(browser, desk, owner, settings):
    settings.PUBLIC_URL, settings.RUNTIMES_URL = "https://pegboard.example", "https://run.example"
    page = browser.get(PAGE).content.decode()
    assert "https://run.example/serve/desk/live/mcp" in page
    assert "https://pegboard.example/serve" not in page
    looked = browser.get(PAGE.replace("connect", "preflight"))
    assert "https://run.example/serve/desk/1/" in looked.content.decode()
    key_client = runtime(owner, desk[0], scopes=["runtime"])
    preflight = key_client.get("/api/v1/agents/desk/releases/live/preflight/").json()
    assert preflight["served_at"] == "https://run.example/serve/desk/live/"
    payload = {"name": "Till", "scope": "runtime", "days": "90"}
    assert "https://run.example/api/v1/agents/" in browser.post("/keys/new/", payload).content.decode()


def test_the_address_names_the_channel_the_number_or_the_digest(browser, desk):
    digest = desk[0].releases.get().digest
    for reference in ("1", f"sha256:{digest}"):
        assert f"/serve/desk/{reference}/mcp" in browser.get(PAGE, {"named": reference}).content.decode()
    assert "/serve/desk/live/mcp" in browser.get(PAGE, {"named": "<b>"}).content.decode()


def test_the_button_makes_a_key_that_runs_the_tools_of_the_agent_alone(browser, desk):
    answer = make_the_key(browser, PAGE)
    assert answer.context["plain"]
    key = ApiKey.objects.get()
    assert (key.scopes, key.is_narrowed) == ([KeyScope.RUNTIME, KeyScope.INVOKE], True)


def test_the_page_stays_and_its_texts_contain_the_key_once(browser):
    answer = make_the_key(browser, f"{PAGE}?named=1")
    page, plain = answer.content.decode(), answer.context["plain"]
    assert answer.context["named"] == "1"
    assert plain.startswith("pgb_")
    assert "no-store" in answer.headers["Cache-Control"]
    assert "pgb_…" not in page
    for text in texts(page):
        assert plain in text or "PEGBOARD_TOKEN" in text or "promptString" in text
    assert plain not in browser.get(f"{PAGE}?named=1").content.decode()


def test_a_refused_key_has_its_status(browser, monkeypatch):
    def refuse(*arguments, **options):
        raise DomainError("too_many_keys", "Revoke one first.", status=409)

    monkeypatch.setattr("designer.agents.agent_keys.issue", refuse)
    answer = make_the_key(browser, PAGE)
    assert (answer.status_code, answer.context["plain"]) == (409, "")


def test_the_release_page_makes_the_key_on_the_connect_page(browser):
    answer = make_the_key(browser, "/agents/desk/releases/1/")
    assert answer.templates[0].name == "serving/connect.html"
    assert ApiKey.objects.get().is_narrowed


def test_a_stranger_to_the_agents_team_finds_no_page(desk):
    client = Client()
    client.force_login(make_user(Role.VIEWER))
    assert client.get(PAGE.replace("desk", "other")).status_code == 404
    assert client.get("/agents/desk/releases/9/connect/").status_code == 404
