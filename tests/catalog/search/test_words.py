import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.search import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("refill_prescription", ["refill", "prescription"]),
        ("getUserByID", ["get", "user", "by", "id"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("repos/get-content", ["repos", "get", "content"]),
        ("OAuth2 and s3, v2", ["auth", "2", "and", "s3", "v2"]),
        ("What's Dana's I'd we'll", ["what", "s", "dana", "s", "i", "we"]),
        ("Café RÉSUMÉ", ["cafe", "resume"]),
        ("-email %_ 🙂", ["email"]),
        ("", []),
    ],
)
def test_text_is_taken_apart_into_words(text, expected):
    assert words.words(text) == expected


def test_an_identifier_also_counts_in_one_piece():
    assert words.with_compound("GitHub") == ("git", "hub", "github")
    assert words.with_compound("github") == ("github",)


def test_scripts_without_spaces_become_characters_and_pairs():
    assert words.words("药房营业") == ["药", "房", "营", "业", "药房", "房营", "营业"]
    assert words.words("аптека рядом") == ["аптека", "рядом"]


@pytest.mark.parametrize(
    "name", ["refill_prescription", "Refill prescription", "refillPrescription", "REFILL-prescription"]
)
def test_spellings_of_one_name_have_one_key(name):
    assert words.name_key(name) == "refillprescription"


def test_capitals_amid_small_letters_are_acronyms():
    assert words.acronyms("open an IT ticket in the US") == {"it", "us"}
    assert words.acronyms("OPEN IT") == set()


@pytest.mark.parametrize(
    ("typed", "intended", "edits"),
    [
        ("cancle", "cancel", 1),
        ("prescripton", "prescription", 1),
        ("emial", "email", 1),
        ("weather", "whether", 2),
    ],
)
def test_swapped_neighbours_are_one_edit(typed, intended, edits):
    assert words.typo_distance(typed, intended, 2) == edits


def test_counting_edits_stops_beyond_the_limit():
    assert words.typo_distance("weather", "forecast", 2) == 3
    assert words.typo_distance("a", "abcdef", 2) == 3


@given(st.text())
def test_any_text_gives_words_of_bounded_length_without_space_or_mark(text):
    for word in words.words(text):
        assert 0 < len(word) <= words.MAX_WORD_LENGTH
        assert not word.startswith(words.TAG_MARK)
        assert word == "".join(word.split())


@given(st.text(), st.text(), st.integers(0, 3))
def test_distance_is_symmetric(a, b, limit):
    assert words.typo_distance(a, b, limit) == words.typo_distance(b, a, limit)
