"""Stored English sentences are found again by their templates; vendors' values in them stay."""

import time

import pytest
from django.utils.translation import gettext, override

from core.stored_sentences import NESTED, parse_template, translate_sentence
from tests.message_catalog import translations_of

TEMPLATES = [
    template
    for message in translations_of("de")
    if isinstance(message.id, str) and message.string and (template := parse_template(message.id))
]
KNOWN = "Nothing was changed."


@pytest.fixture(autouse=True)
def german():
    with override("de"):
        yield


def test_every_template_of_the_catalog_is_found_by_its_sentence():
    wrong = []
    for template in TEMPLATES:
        values = {name: f"Zq{index}" for index, name in enumerate(template.placeholders)}
        expected = gettext(template.message).format(**values)
        if translate_sentence(template.message.format(**values)) != expected:
            wrong.append(template.message)

    assert wrong == []
    assert len(TEMPLATES) > 500


def test_english_pages_and_unknown_sentences_stay():
    with override("en"):
        assert translate_sentence(KNOWN) == KNOWN
    assert translate_sentence("Zq is in no catalog.") == "Zq is in no catalog."
    assert translate_sentence("") == ""


def test_sentences_in_a_row_are_translated_one_by_one():
    unknown = "Zq is in no catalog."

    assert translate_sentence(f"{KNOWN} {unknown} {KNOWN}") == f"{gettext(KNOWN)} {unknown} {gettext(KNOWN)}"


@pytest.mark.parametrize("name", ["nothing", "{0.__class__}", "{", "%s", "<b>x</b>", "Every tool."])
def test_a_value_of_a_vendor_is_inserted_as_it_is(name):
    template = "This version has no input “{name}”."
    assert not NESTED.fullmatch("name")

    translation = translate_sentence(template.format(name=name))

    assert translation == gettext(template).format(name=name)


def test_values_that_are_sentences_of_pegboard_are_translated():
    outer, inner = "“{name}”: {message}", "This version has no input “{name}”."

    translation = translate_sentence(outer.format(name="x", message=inner.format(name="y")))

    assert translation == gettext(outer).format(name="x", message=gettext(inner).format(name="y"))


def test_a_long_text_of_a_vendor_takes_no_time():
    started = time.perf_counter()
    for number in range(3):
        translate_sentence("“" + "”: “. a; " * 400 + str(number))

    assert time.perf_counter() - started < 3
