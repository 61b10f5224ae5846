import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.rules.inspection.neighbours import is_one_slip, near

words = st.text("abc", max_size=5)


def slips(word):
    """Every word that one slip makes of it, spelled out."""
    for position in range(len(word) + 1):
        yield from (word[:position] + letter + word[position:] for letter in "abc")
        yield word[:position] + word[position + 1 :]
        yield from (word[:position] + letter + word[position + 1 :] for letter in "abc")
        yield word[:position] + word[position : position + 2][::-1] + word[position + 2 :]


@given(words, words)
def test_one_slip_is_one_letter_more_less_other_or_swapped(one, other):
    all_slips = {slip for slip in slips(one) if len(slip) <= len(one) + 1} - {one}

    assert is_one_slip(one, other) == (other in all_slips and other != one)


@given(st.text("ab_C", min_size=5, max_size=8), st.text("ab_C", min_size=5, max_size=8))
def test_whoever_is_near_is_found_whatever_the_style(one, other):
    plain = [name.casefold().replace("_", "") for name in (one, other)]
    is_near = min(map(len, plain)) >= 5 and is_one_slip(*plain)

    assert list(near([one], [other])) == ([(one, other)] if is_near else [])


@pytest.mark.parametrize("name", ["get", "sets", "x" * 200, ""])
def test_words_too_short_or_long_to_tell_are_near_to_nothing(name):
    assert list(near([name], [name + "s", name[1:], name[:-1]])) == []


def test_many_names_are_compared_in_one_go():
    known_names = [f"{word}_{number}" for word in ("search", "create", "update") for number in range(1_000)]

    assert dict(near(["serach_7", "creates_9", "nothing"], known_names)) == {
        "serach_7": "search_7",
        "creates_9": "create_9",
    }
