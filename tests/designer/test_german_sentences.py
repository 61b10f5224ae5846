"""Sentences of modules without Django: translated on pages, English for programs and in what is stored."""

import pytest
from django.utils import translation

from core.translatable import Count, Wording, first_sentences
from core.translating import translated
from designer.models import Agent, Release, TokenLimit
from people.models import AuditEntry, Role, User
from tests.factories import make_pin, make_user
from tests.pages import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def german(client) -> User:
    user = make_user(Role.ADMIN)
    user.language = "de"
    user.save()
    client.force_login(user)
    return user


def german_text_of(page) -> str:
    assert page["Content-Language"] == "de"
    return text_of(page)


def in_german(sentence: str) -> str:
    with translation.override("de"):
        return translated(sentence)


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
    assert {"budget_exceeded", "review", "offered", "vendors", "names", "words", "formats"} <= {
        row.code for row in checks
    }
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
