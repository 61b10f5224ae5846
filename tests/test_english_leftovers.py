"""No page in German shows an English text that has a translation."""

import re
from html.parser import HTMLParser

import pytest
from django.utils import translation

from core.stored_sentences import translate_sentence
from people.models import Role
from tests.browser.cast import set_the_stage
from tests.factories import make_user
from tests.message_catalog import translations_of

VOID = {"br", "hr", "img", "input", "link", "meta", "path", "use", "wbr"}
# Code, and what people and vendors wrote.
NOT_OURS = {"code", "kbd", "pre", "script", "style", "textarea", "title"}
# Names of rows that the product makes, and of a language in itself.
NAMES = {"Defined here", "Everyone", "English"}
# Exports are English, and an entry of the audit trail has values as they were recorded.
RECORDED = re.compile(r"[?]format=|/audit/[0-9]+/")
CLASSES_NOT_OURS = {"code-note", "mono", "name", "source", "vendor-text"}


class PageTexts(HTMLParser):
    """The texts of a page, without those of other authors."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open_elements: list[bool] = []  # is it ours?
        self.texts: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if self.is_ours():
            self.texts |= {
                values[name] for name in ("aria-label", "title", "placeholder") if values.get(name)
            }
        if tag not in VOID:
            classes = set((values.get("class") or "").split())
            is_ours = tag not in NOT_OURS and not classes & CLASSES_NOT_OURS
            self.open_elements.append(is_ours and values.get("lang", "de") == "de")

    def handle_endtag(self, tag):
        if tag not in VOID and self.open_elements:
            self.open_elements.pop()

    def handle_data(self, data):
        if self.is_ours() and data.strip():
            self.texts.add(" ".join(data.split()))

    def is_ours(self) -> bool:
        return all(self.open_elements)


def english_texts(page: str) -> list[str]:
    # Such as “Pin” and “Tag”, which are words of both languages.
    german = {message.string for message in translations_of("de") if isinstance(message.string, str)}
    texts = PageTexts(page).texts - NAMES - german
    with translation.override("de"):
        return sorted(text for text in texts if translate_sentence(text) != text)


@pytest.mark.django_db
def test_no_page_in_german_shows_an_english_text_that_has_a_translation(client):
    user = make_user(Role.ADMIN)
    user.language = "de"
    user.save()
    client.force_login(user)
    leftovers = []
    for address in set_the_stage():
        reply = client.get(address)
        if reply.status_code == 200 and not RECORDED.search(address):
            leftovers += [f"{address}: {text}" for text in english_texts(reply.content.decode())]

    assert not leftovers, "\n".join(leftovers)
