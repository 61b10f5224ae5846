"""Every word of the pages has a German translation that says the same about the same things."""

import re

import pytest

from tests.message_catalog import (
    LANGUAGES,
    compiled,
    is_translated,
    key_of,
    messages_of_pages,
    path_of,
    translations_of,
)

PLACEHOLDER = re.compile(r"%\(\w+\)s|\{\w+\}")
TAG = re.compile(r"<[^>]+>")
in_each_language = pytest.mark.parametrize("language", LANGUAGES)


def texts_of(text: str | tuple[str, ...]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


@in_each_language
def test_the_catalog_holds_the_messages_of_the_pages_and_no_others(language):
    """Otherwise run `make messages`, and translate what is new."""
    used = {key_of(message) for message in messages_of_pages() if message.id}
    stored = {key_of(message) for message in translations_of(language) if message.id}

    assert sorted(map(str, used ^ stored)) == []


@in_each_language
def test_each_message_is_translated(language):
    assert [message.id for message in translations_of(language) if not is_translated(message)] == []


@in_each_language
def test_translations_have_the_placeholders_and_tags_of_their_messages(language):
    differences = []
    for message in translations_of(language):
        if not message.id:
            continue
        *_, longest = texts_of(message.id)
        names = set(PLACEHOLDER.findall(" ".join(texts_of(message.id))))
        for text in texts_of(message.string):
            # A singular may leave the number out: “One tool was added”.
            missing = set(PLACEHOLDER.findall(longest)) - set(PLACEHOLDER.findall(text))
            if set(PLACEHOLDER.findall(text)) - names or (missing and isinstance(message.id, str)):
                differences.append((message.id, text))
            if sorted(TAG.findall(text)) != sorted(TAG.findall(longest)):
                differences.append((message.id, text))

    assert differences == []


@in_each_language
def test_the_compiled_file_is_made_from_the_catalog(language):
    """Otherwise run `make messages`."""
    assert path_of(language).with_suffix(".mo").read_bytes() == compiled(translations_of(language))
