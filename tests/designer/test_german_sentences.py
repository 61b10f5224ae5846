"""Sentences of modules without Django: translated on pages, English for programs and in what is stored."""

import pytest
from django.utils import translation
from django.utils.translation import gettext

from catalog.rules import retries
from catalog.tools import definitions
from core import translating
from core.translatable import Count, Wording, first_sentences
from core.translating import translate
from designer.environments import mocks
from designer.models import Agent, Pin, Release, TokenLimit, Tuning
from designer.pins import tunings
from designer.procedures import editing
from designer.releases import publishing
from people.models import AuditEntry, Role, User
from protocols.definition import Parts
from tests.catalog.views.test_definitions import Fields
from tests.factories import make_parameter, make_pin, make_signature, make_tool, make_user, make_version
from tests.pages import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def german(client, monkeypatch) -> User:
    """An administrator who reads German. Each translation is marked, so that no English sentence passes."""
    monkeypatch.setattr(translating, "gettext", _marked_gettext)
    user = make_user(Role.ADMIN)
    user.language = "de"
    user.save()
    client.force_login(user)
    return user


def _marked_gettext(message: str) -> str:
    return f"{gettext(message)}°" if translation.get_language() == "de" else message


def german_text_of(page) -> str:
    assert page["Content-Language"] == "de"
    return text_of(page)


def in_german(sentence: str) -> str:
    with translation.override("de"):
        return translate(sentence)


def large_agent() -> Agent:
    """An agent whose draft passes some checks and fails one."""
    agent = make_pin().agent
    TokenLimit.objects.create(agent=agent, tokens=1, stops=True)
    return agent


def test_a_wording_is_english_as_text_and_translated_with_its_values():
    count = Wording("{count} tokens", {"count": Count(12_345)})

    assert f"{count}" == str(count) == "12,345 tokens"
    assert in_german(count).startswith("12.345")
    assert first_sentences(["One.", "Two.", "Three."], 2) == "One. Two. And 1 more."


def test_the_publish_page_translates_its_checks(client, german):
    page = client.get(f"/agents/{large_agent().slug}/publish/")

    checks, text = page.context["review"].checks, german_text_of(page)
    assert {"budget_exceeded", "review", "offered", "names", "formats"} <= {row.code for row in checks}
    assert all(isinstance(row.message, Wording) for row in checks)
    assert [row.message for row in checks if in_german(row.message) not in text] == []


def test_a_failed_check_is_stored_and_answered_in_english(client, german):
    agent = large_agent()
    page = client.get(f"/agents/{agent.slug}/publish/")
    seen, failed = page.context["review"].digest, page.context["review"].failed

    refused = client.post(f"/agents/{agent.slug}/publish/", {"seen": seen, "led_to": "", "channel": ""})
    answer = client.get(f"/api/v1/agents/{agent.slug}/draft/").json()
    form = {"seen": seen, "led_to": "", "channel": "", "accept": ["budget_exceeded"], "reason": "It is fine."}
    assert client.post(f"/agents/{agent.slug}/publish/", form).status_code == 302

    sentences = [str(check.message) for check in failed]
    assert all(in_german(check.message) in german_text_of(refused) for check in failed)
    assert [row["message"] for row in answer["checks"] if row["severity"] == "error"] == sentences
    assert [row["message"] for row in Release.objects.get().accepted] == sentences
    assert AuditEntry.objects.get(action="publish").facts[1]["accepted"] == sentences


def test_the_editor_translates_its_remarks(client, german):
    agent = make_pin().agent
    text = "1. Call `lookup()`, which is not there.\n2. Set the channel.\n"
    procedure = editing.create_procedure(agent, actor=german, title="Refill", body=text)
    address = f"/agents/{agent.slug}/procedures/{procedure.slug}/"

    page = client.get(address)
    answer = client.get(f"/api/v1{address}").json()

    remarks = page.context["remarks"]
    assert "unknown_reference" in {row.code for row in remarks}
    sentences = [sentence for row in remarks for sentence in (row.message, row.fix)]
    assert all(isinstance(sentence, Wording) for sentence in sentences)
    assert [row for row in sentences if in_german(row) not in german_text_of(page)] == []
    assert [row["message"] for row in answer["lint"]][: len(remarks)] == [str(row.message) for row in remarks]


def test_the_pin_page_translates_what_does_not_fit_and_what_repeats(client, german):
    signature = make_signature("sky", inputs=(make_parameter("city", description="city: The city."),))
    pin = make_pin(tool=make_tool(signature))
    lost = {"days": {"description": "How many."}}
    Tuning.objects.create(pin=pin, against=pin.version, parameters=lost)
    address = f"/agents/{pin.agent.slug}/pins/{pin.pk}/"

    page = client.get(address)
    answer = client.get(f"/api/v1{address}").json()

    misfits, savings = page.context["misfits"], [saving for saving, _field in page.context["savings"]]
    messages = [row.message for row in (*misfits, *savings)]
    assert misfits
    assert savings
    assert all(isinstance(message, Wording) for message in messages)
    text = german_text_of(page)
    assert [message for message in messages if in_german(message) not in text] == []
    assert in_german(retries.sentence(retries.DEFAULT)) in text
    assert answer["misfits"] == [str(row.message) for row in misfits]


def test_the_publish_page_translates_the_changes(client, german):
    pin = make_pin()
    publishing.publish(pin.agent, actor=german, channel="live")
    tunings.tune(pin, actor=german, description="Tells how the evening sky looks.")
    Agent.objects.filter(pk=pin.agent_id).update(name="Evening desk")

    page = client.get(f"/agents/{pin.agent.slug}/publish/")
    answer = client.get(f"/api/v1/agents/{pin.agent.slug}/draft/").json()

    changes, (tool,) = list(page.context["changes"]), page.context["review"].changes.own.tools
    assert len(changes) == 2
    assert tool.sentences
    assert all(isinstance(change.sentence, Wording) for change in changes)
    text = german_text_of(page)
    assert [row.sentence for row in changes if in_german(row.sentence) not in text] == []
    assert answer["changes"][0]["sentences"] == [str(sentence) for sentence in tool.sentences]


def test_the_editor_of_an_implementation_translates_its_faults(client, german):
    address = f"/activities/new/?kind=http&interface=tool:{make_tool().pk}:1"

    page = client.post(address, Fields(client.get(address)).sent | {"act": "save", "address": "nowhere"})

    faults, text = page.context["editor"].faults, german_text_of(page)
    assert "unfixed_host" in {fault.code for fault in faults}
    assert all(isinstance(fault.message, Wording) for fault in faults)
    assert [fault.message for fault in faults if in_german(fault.message) not in text] == []


def test_the_publish_page_translates_why_nothing_runs(client, german):
    fields = {"type": "object", "properties": {"place": {"type": "string"}}}
    parts = Parts(
        name="report", title="", description="Report it.", inputs=fields, output=fields, activity="smtp"
    )
    pin = make_pin(tool=definitions.define(actor=german, parts=parts))

    page = client.get(f"/agents/{pin.agent.slug}/publish/")
    answer = client.get(f"/api/v1/agents/{pin.agent.slug}/draft/").json()

    (check,) = [row for row in page.context["review"].checks if row.code == "unknown_activity"]
    (message,) = [row["message"] for row in answer["checks"] if row["code"] == "unknown_activity"]
    reason = check.message.values["message"].values["sentence_0"]
    assert isinstance(reason, Wording)
    assert in_german(reason) in german_text_of(page)
    assert str(reason) in message


def test_the_page_of_a_mock_translates_what_does_not_fit(client, german):
    pin = make_pin(tool=make_tool(make_signature("sky")))
    mocks.save(pin, actor=german, config={"examples": [{"arguments": {"city": "Oslo"}, "outputs": {}}]})
    newer = make_version(pin.tool, make_signature("sky", inputs=(make_parameter("town"),)))
    Pin.objects.filter(pk=pin.pk).update(version=newer)
    address = f"/agents/{pin.agent.slug}/mocks/{pin.pk}/"

    page = client.get(address)

    problems, text = page.context["mocked"].problems, german_text_of(page)
    assert set(problems) == {"examples.0.arguments.city"}
    assert all(isinstance(message, Wording) for message in problems.values())
    assert [message for message in problems.values() if in_german(message) not in text] == []
