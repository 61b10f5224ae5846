"""Every invisible code point, at every position."""

import sys
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.rules import inspection
from catalog.rules.inspection.characters import SEVERITIES, spell_out_hidden
from catalog.templatetags.display import shown
from core.invisible_characters import (
    HIDDEN,
    KINDS,
    PRIVATE,
    RANGES,
    SURROGATE,
    UNASSIGNED,
    decoded_tags,
    find_hidden,
    kind_of,
    name_of,
)
from core.unassigned_characters import UNICODE
from tests.factories import make_parameter, make_signature

# How many code points of each kind there are: a change of the table has to be meant.
COUNTS = {
    "TAG_CHARACTERS": 128,
    "VARIATION_SELECTOR": 260,
    "BIDI_CONTROL": 9,
    "DIRECTION_MARK": 3,
    "ZERO_WIDTH": 53,
    "SOFT_HYPHEN": 1,
    "FILLER": 18,
    "COMBINING_MARK": 171,
    "TERMINAL_ESCAPE": 2,
    "ERASING_CONTROL": 2,
    "CONTROL_CHARACTER": 58,
    "PRIVATE_USE": 137_468,
    "SURROGATE": 2_048,
    "NONCHARACTER": 66,
    "UNASSIGNED": 814_628,
    "LINE_SEPARATOR": 2,
    "UNUSUAL_SPACE": 16,
}
HIDING = [chr(point) for first, last, _ in RANGES for point in range(first, last + 1)]
STORABLE = [character for character in HIDING if not 0xD800 <= ord(character) <= 0xDFFF]
BLOCK = 4096


def every_block():
    """All 1,114,112 code points, a few thousand at a time."""
    for start in range(0, sys.maxunicode + 1, BLOCK):
        yield [chr(point) for point in range(start, start + BLOCK)]


def test_the_table_holds_what_it_should():
    counts: dict[str, int] = {}
    for first, last, kind in RANGES:
        counts[kind.code] = counts.get(kind.code, 0) + last - first + 1

    assert counts == COUNTS


def test_every_kind_has_a_severity():
    assert SEVERITIES.keys() == set(KINDS)


def test_no_two_kinds_claim_one_code_point():
    assert all(before[1] < after[0] for before, after in pairwise(RANGES))


def test_unassigned_is_what_the_checked_in_unicode_says_and_not_the_interpreters():
    """An older interpreter knows fewer characters: U+088F came with 17.0, U+FFF0 never came."""
    assert kind_of("\u088f") is None
    assert kind_of("\ufff0") is kind_of("\U000e0080") is UNASSIGNED
    if tuple(map(int, unicodedata.unidata_version.split("."))) <= tuple(map(int, UNICODE.split("."))):
        assigned = (c for block in every_block() for c in block if unicodedata.category(c) != "Cn")
        assert [c for c in assigned if kind_of(c) is UNASSIGNED] == []


def test_nothing_that_formats_or_controls_is_missing():
    free = set("\t\n\r")
    controls = (
        c for block in every_block() for c in block if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs")
    )

    assert {c for c in controls if not kind_of(c)} - free == set()


def test_the_search_and_the_table_agree():
    for block in every_block():
        hiding = [c for c in block if kind_of(c)]
        assert not hiding or HIDDEN.fullmatch("".join(hiding))
        assert not HIDDEN.search("".join(c for c in block if not kind_of(c)))


def test_every_one_is_found_in_the_middle_of_a_text():
    """Every sixteenth unassigned code point; a test above covers all of them."""
    tried = [c for number, c in enumerate(HIDING) if not number % 16 or kind_of(c) is not UNASSIGNED]
    for start in range(0, len(tried), BLOCK):
        block = tried[start : start + BLOCK]
        starts = [hidden_part.start for hidden_part in find_hidden("".join([f"ab{c}cd" for c in block]))]
        assert starts == list(range(2, 5 * len(block), 5)), f"from U+{ord(block[0]):04X}"


def test_pages_draw_every_one_that_the_inspection_finds():
    """All but the invisible alphabet, which is drawn as what it spells; of the largest kinds some."""
    some = {PRIVATE, UNASSIGNED, SURROGATE}
    tried = [c for number, c in enumerate(HIDING) if not number % 2_001 or kind_of(c) not in some]
    assert len(tried) > 800
    undrawn = [c for c in tried if f">U+{ord(c):04X}</span>" not in shown(f"ab{c}cd")]
    assert [c for c in undrawn if not decoded_tags(c)] == []


def test_pages_draw_no_character_that_a_script_or_a_picture_needs():
    needed = "\u0928\u094d\u200d\u0926 \u2764\ufe0f 1\ufe0f\u20e3 Z\u00fcrich \u6771\u4eac"
    assert shown(needed) == needed
    assert shown("a\u3000\u00a0b").count("hidden-char") == 1


places = st.sampled_from(["name", "title", "description", "tag", "parameter", "value", "key", "rest"])


def _with(place: str, text: str):
    match place:
        case "tag":
            return {"tags": (text,)}
        case "parameter":
            return {"inputs": (make_parameter(text),)}
        case "value":
            return {"inputs": (make_parameter(default=text),)}
        case "key":
            return {"outputs": (make_parameter(schema={text: True}),)}
        case "rest":
            return {"rest": {"x": [text]}}
        case _:
            return {place: text}


@given(
    character=st.sampled_from(STORABLE),
    before=st.text("abc de", max_size=8),
    after=st.text("abc de", max_size=8),
    place=places,
)
def test_every_one_is_found_at_every_position(character, before, after, place):
    signature = make_signature(**_with(place, f"{before}{character}{after}"))

    assert kind_of(character).code in {alarm.code for alarm in inspection.inspect(signature)}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\ufe00\ufe01", "VARIATION_SELECTORS"),
        ("a\U000e0100\U000e0101b", "VARIATION_SELECTORS"),
        ("\u845b\U000e0100", "VARIATION_SELECTOR"),
        ("a\U0001d159b", "FILLER"),
        ("a\ufffcb", "FILLER"),
        ("i\u1ab0gnore", "COMBINING_MARK"),
        ("i\u20e3gnore", "COMBINING_MARK"),
        ("a\ufe0fb", "VARIATION_SELECTOR"),
        ("a\u200db", "ZERO_WIDTH"),
        ("\U000e0067", "TAG_CHARACTERS"),
    ],
)
def test_runs_and_strays_are_told_apart(text, code):
    assert [hidden_part.kind.code for hidden_part in find_hidden(text)] == [code]


@pytest.mark.parametrize("text", ["❤\ufe0f", "1\ufe0f\u20e3", "न्\u200dद", "👨\u200d👩", "👁\ufe0f\u200d🗨"])
def test_what_a_script_or_a_picture_needs_is_no_finding(text):
    assert list(find_hidden(text)) == []


def test_tags_are_decoded_and_names_are_short():
    assert decoded_tags("x\U000e0068\U000e0069") == "hi"
    assert [name_of(c) for c in "\u202e\u200b\u00a0"] == ["U+202E RLO", "U+200B ZWSP", "U+00A0 NBSP"]
    assert spell_out_hidden("a\u202eb\U000e0068\U000e0069") == "a[U+202E RLO]b[hidden: hi]"
    assert spell_out_hidden("\u200b" * 9).endswith("[and 5 more]")
