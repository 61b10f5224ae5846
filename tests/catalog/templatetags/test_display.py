from datetime import UTC, datetime, timedelta

import pytest
from django.utils.safestring import mark_safe

from catalog.templatetags.differences import changed_words
from catalog.templatetags.display import ago, breakable, brief, compact, shown, shown_matched, version_cell
from catalog.templatetags.signatures import claims, default_value, limits
from protocols.signature import Annotations
from tests.factories import make_parameter

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("text", ["plain", "日本語", "مرحبا", "नमस्ते", "👩🏽‍🚀 and ☂️", "a\nb\tc", ""])
def test_ordinary_text_of_any_script_is_left_alone(text):
    assert shown(text) == text


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("a\u200bb", "U+200B"),
        ("a\u202eb", "U+202E"),
        ("a\u200db", "U+200D"),
        ("a\x1b[0m", "U+001B"),
        ("a\ue000", "U+E000"),
        ("a\ufe0f\ufe0f\ufe0f", "U+FE0F U+FE0F U+FE0F"),
        ("a" + "\u200b" * 5, "U+200B U+200B U+200B and 2 more"),
        ("a" + "".join(chr(0xE0000 + ord(c)) for c in "obey"), "hidden text: obey"),
    ],
)
def test_what_draws_nothing_becomes_visible(text, drawn):
    assert f">{drawn}</span>" in shown(text)


def test_markup_stays_text_beside_a_chip():
    assert shown("<b>\u200b</b>").startswith("&lt;b&gt;<span")


def test_a_list_shows_the_beginning_of_a_long_text():
    text = "word " * 200

    assert len(brief(text)) < 250
    assert brief("short") == '<div class="brief">short</div>'


def test_words_that_came_and_went_are_marked():
    sides = changed_words("A city in Europe", "A town in Europe")

    assert "A <del>city</del> in Europe" in sides
    assert "A <ins>town</ins> in Europe" in sides


def test_texts_with_little_in_common_are_not_chopped_up():
    assert "<ins>" not in changed_words("The city", "Any number you like")


def test_a_side_that_was_not_there_is_not_shown():
    assert "is-old" not in changed_words(None, "New text")
    assert "is-new" not in changed_words("Old text", None)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(seconds=10), "just now"),
        (timedelta(minutes=3), "3 min ago"),
        (timedelta(hours=5), "5 h ago"),
        (timedelta(days=40), "1 mo ago"),
        (-timedelta(minutes=20), "in 20 min"),
        (-timedelta(seconds=10), "in a moment"),
    ],
)
def test_a_moment_is_told_by_its_distance(time_machine, span, words):
    time_machine.move_to(NOW, tick=False)

    assert f">{words}</time>" in ago(NOW - span)


def test_what_never_happened_says_so():
    assert ago(None) == "never"


@pytest.mark.parametrize(
    ("number", "words"), [(7, "7"), (1_250, "1.2k"), (12_000, "12k"), (3_400_000, "3.4M")]
)
def test_large_numbers_are_short(number, words):
    assert compact(number) == words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"max_length": 40}, "at most 40 characters"),
        ({"min": 1, "max": 9}, "1 to 9"),
        ({"max": 65_535, "max_defaulted": True}, ""),
        ({"max": 10}, "at most 10"),
        ({"min": 5}, "5 or more"),
    ],
)
def test_limits_are_said_in_words(fields, words):
    assert limits(make_parameter(**fields)) == words


def test_no_default_is_not_null():
    assert default_value(make_parameter()) == ""
    assert default_value(make_parameter(default=None)) == "null"


def test_what_a_vendor_does_not_claim_is_left_out():
    assert claims(Annotations(destructive=False)) == [("Danger", "Does not destroy")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sky", "sky"),
        ("book_a_room", "book_<wbr>a_<wbr>room"),
        ("__init__", "__<wbr>init__"),
        ("Orders_ListOpen", "Orders_<wbr>List<wbr>Open"),
        ("weather.now", "weather.<wbr>now"),
        ("SendSMS", "Send<wbr>SMS"),
        ("<b>_x", "&lt;b&gt;_<wbr>x"),
        (mark_safe("a&amp;_b"), "a&amp;_<wbr>b"),
        (shown("a_b\u202ec"), shown("a_b\u202ec").replace("a_b", "a_<wbr>b")),
    ],
)
def test_a_name_breaks_between_its_words_and_stays_escaped(name, expected):
    assert breakable(name) == expected


@pytest.mark.parametrize(
    ("name", "label", "cell"),
    [
        ("29 November 2026, 14:37", "", "29 Nov 2026, 14:37"),
        ("3 May 2026, 09:05", "", "3 May 2026, 09:05"),
        ("2, rewritten on 22 November 2026", "2", "2, rewritten on 22 November 2026"),
        ("", "", ""),
    ],
)
def test_a_version_that_is_a_time_is_short_in_a_column(name, label, cell):
    assert version_cell(name, label) == cell


@pytest.mark.parametrize(
    ("text", "stems", "html"),
    [
        ("Payments_ListStandingOrders", {"order"}, "Payments_ListStanding<mark>Orders</mark>"),
        ("orders & <b>", {"order"}, "<mark>orders</mark> &amp; &lt;b&gt;"),
        ("Ärzte suchen", {"arzt"}, "<mark>Ärzte</mark> suchen"),
        ("Alle Ärzte", {"such"}, "Alle Ärzte"),
        ("cancel_flight", set(), "cancel_flight"),
    ],
)
def test_the_part_of_a_name_is_marked_that_was_looked_for(text, stems, html):
    assert shown_matched(text, stems) == html
