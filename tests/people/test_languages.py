"""The language of pages: the user's choice, else the browser's; programs always read English."""

import pytest
from django.utils import translation

from catalog.models import Call
from catalog.templatetags.display import compact, grouped, milliseconds, signed
from execution.calls import events, requesting
from people.models import AuditEntry, Role, User
from tests.browser.cast import set_the_stage
from tests.factories import make_pin, make_tool, make_user


@pytest.fixture
def german(client, db) -> User:
    user = make_user(Role.ADMIN)
    user.language = "de"
    user.save()
    client.force_login(user)
    return user


@pytest.mark.django_db
def test_a_user_chooses_a_language_and_returns_to_the_page(client):
    user = make_user()
    client.force_login(user)

    reply = client.post("/language/", {"language": "de", "next": "/tools/"})

    assert reply["Location"] == "/tools/"
    assert User.objects.get(pk=user.pk).language == "de"
    page = client.get("/tools/")
    assert page["Content-Language"] == "de"
    assert '<html lang="de"' in page.content.decode()


@pytest.mark.parametrize("code", ["", "xx", "x" * 300])
def test_an_unknown_language_is_that_of_the_browser(client, german, code):
    client.post("/language/", {"language": code})

    assert User.objects.get(pk=german.pk).language == ""
    assert client.get("/tools/")["Content-Language"] == "en"
    assert client.get("/tools/", headers={"Accept-Language": "de-AT,de;q=0.9"})["Content-Language"] == "de"


@pytest.mark.django_db
def test_the_page_to_sign_in_speaks_the_language_of_the_browser(client):
    page = client.get("/accounts/login/", headers={"Accept-Language": "de"})

    assert page["Content-Language"] == "de"
    assert "Accept-Language" in page["Vary"]
    assert client.get("/accounts/login/", headers={"Accept-Language": "tlh"})["Content-Language"] == "en"


def test_programs_read_english(client, german, program):
    headers = {"Accept-Language": "de"}

    by_session = client.get("/api/v1/tools/?status=wrong", headers=headers)
    by_key = program(german).get("/api/v1/tools/?status=wrong", headers=headers)

    assert by_session.json()["fields"] == by_key.json()["fields"]
    assert by_key.headers.get("Content-Language", "en") == "en"


@pytest.mark.parametrize("address", ["/serve/mcp/nothing/", "/api/nothing/", "/.well-known/nothing"])
def test_replies_to_programs_without_a_key_are_english(client, db, address):
    reply = client.get(address, headers={"Accept-Language": "de"})

    assert reply.headers.get("Content-Language", "en") == "en"


def test_the_reference_of_the_api_is_a_page(client, german):
    assert client.get("/api/docs/")["Content-Language"] == "de"


def test_a_language_ends_with_its_request(client, german):
    client.get("/tools/")

    assert translation.get_language() == "en"


def test_the_events_of_a_call_are_in_the_language_of_its_page(client, german):
    tool = make_tool()
    call = requesting.request_call(tool.current, actor=german, arguments={"city": "Oslo"})
    Call.objects.filter(pk=call.pk).update(status="finished", outcome="ok", mode="stream")
    events.publish(call.key, events.PARTIAL, {"outputs": {"is_sunny": True}})

    reply = client.get(f"/tools/{tool.pk}/calls/{call.pk}/events/")

    assert "Ja" in b"".join(reply.streaming_content).decode()


def test_the_audit_trail_names_objects_in_english(client, german):
    assert client.post("/notifications/", {"events": ["endpoint.broken"]}).status_code == 302

    entry = AuditEntry.objects.get(action="subscribe", object_id=german.subscriptions.get().pk)
    assert entry.label == "An endpoint cannot be synced"


def test_numbers_and_dates_follow_the_language():
    with translation.override("de"):
        assert [grouped(1_234_567), signed(-1234), compact(1_234), milliseconds(1_234)] == [
            "1.234.567",
            "\N{MINUS SIGN}1.234",
            "1,2k",
            "1,2 s",
        ]
    assert grouped(1_234_567) == "1,234,567"


def test_every_page_is_shown_in_german(client, german):
    pages = {address: client.get(address) for address in set_the_stage()}

    # The stage has an address of nothing, and one that leads on.
    assert {page.status_code for page in pages.values()} == {200, 302, 404}
    assert {address for address, page in pages.items() if page["Content-Language"] != "de"} == set()


def test_a_release_is_the_same_in_every_language(client, german):
    """A release, which runtimes read and a digest covers, contains no word of the interface."""
    pin = make_pin()
    address = f"/agents/{pin.agent.slug}/publish/"

    seen = client.get(address).context["review"].digest
    assert client.post(address, {"seen": seen, "led_to": "", "channel": ""}).status_code == 302
    german.language = "en"
    german.save()
    page = client.get(address)

    assert page["Content-Language"] == "en"
    assert not page.context["review"].is_new
