"""Every code point that hides, wherever it stands."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import inspection
from catalog.inspection.characters import HIDDEN, decoded_tags, hidden, kind_of, name_of, spelled
from tests.factories import make_parameter, make_signature

# How many code points of each kind there are: a change of the table has to be meant.
COUNTS = {
    "TAG_CHARACTERS": 128,
    "VARIATION_SELECTOR": 260,
    "BIDI_CONTROL": 9,
    "DIRECTION_MARK": 3,
    "ZERO_WIDTH": 53,
    "SOFT_HYPHEN": 1,
    "FILLER": 16,
    "TERMINAL_ESCAPE": 2,
    "ERASING_CONTROL": 2,
    "CONTROL_CHARACTER": 58,
    "PRIVATE_USE": 137_472,
    "SURROGATE": 2_048,
    "LINE_SEPARATOR": 2,
    "UNUSUAL_SPACE": 16,
}
ALL = [chr(point) for point in range(sys.maxunicode + 1)]
HIDING = [character for character in ALL if kind_of(character)]
STORABLE = [character for character in HIDING if not 0xD800 <= ord(character) <= 0xDFFF]


def test_the_table_holds_what_it_should():
    counts: dict[str, int] = {}
    for character in HIDING:
        kind = kind_of(character)
        counts[kind.code] = counts.get(kind.code, 0) + 1
    counts.pop("NONCHARACTER")

    assert counts == COUNTS


def test_nothing_that_formats_or_controls_is_missing():
    free = set("\t\n\r")
    missing = [c for c in ALL if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs") and not kind_of(c)]

    assert set(missing) - free == set()


def test_the_search_and_the_table_agree():
    for start in range(0, len(ALL), 4096):
        block = ALL[start : start + 4096]
        assert [bool(HIDDEN.match(c)) for c in block] == [bool(kind_of(c)) for c in block]


def test_every_one_is_found_in_the_middle_of_a_text():
    assert [c for c in HIDING if [found.start for found in hidden(f"ab{c}cd")] != [2]] == []


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
        ("a\ufe0fb", "VARIATION_SELECTOR"),
        ("a\u200db", "ZERO_WIDTH"),
        ("\U000e0067", "TAG_CHARACTERS"),
    ],
)
def test_runs_and_strays_are_told_apart(text, code):
    assert [found.kind.code for found in hidden(text)] == [code]


@pytest.mark.parametrize(
    "text", ["❤\ufe0f", "1\ufe0f\u20e3", "葛\U000e0100", "न्\u200dद", "👨\u200d👩", "👁\ufe0f\u200d🗨"]
)
def test_what_a_script_or_a_picture_needs_is_no_finding(text):
    assert list(hidden(text)) == []


def test_tags_are_decoded_and_names_are_short():
    assert decoded_tags("x\U000e0068\U000e0069") == "hi"
    assert [name_of(c) for c in "\u202e\u200b\u00a0"] == ["U+202E RLO", "U+200B ZWSP", "U+00A0 NBSP"]
    assert spelled("a\u202eb\U000e0068\U000e0069") == "a[U+202E RLO]b[hidden: hi]"
    assert spelled("\u200b" * 9).endswith("[and 5 more]")
