import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.rules.inspection.neighbours import is_one_slip, near

words = st.text("abc", max_size=5)


def slips(word):
    """Every word that one slip makes of it, spelled out."""
    for at in range(len(word) + 1):
        yield from (word[:at] + letter + word[at:] for letter in "abc")
        yield word[:at] + word[at + 1 :]
        yield from (word[:at] + letter + word[at + 1 :] for letter in "abc")
        yield word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


@given(words, words)
def test_one_slip_is_one_letter_more_less_other_or_swapped(one, other):
    made = {each for each in slips(one) if len(each) <= len(one) + 1} - {one}

    assert is_one_slip(one, other) == (other in made and other != one)


@given(st.text("ab_C", min_size=5, max_size=8), st.text("ab_C", min_size=5, max_size=8))
def test_whoever_is_near_is_found_whatever_the_style(one, other):
    plain = [each.casefold().replace("_", "") for each in (one, other)]
    is_near = min(map(len, plain)) >= 5 and is_one_slip(*plain)

    assert list(near([one], [other])) == ([(one, other)] if is_near else [])


@pytest.mark.parametrize("name", ["get", "sets", "x" * 200, ""])
def test_words_too_short_or_long_to_tell_are_near_to_nothing(name):
    assert list(near([name], [name + "s", name[1:], name[:-1]])) == []


def test_many_names_are_compared_in_one_go():
    known = [f"{word}_{number}" for word in ("search", "create", "update") for number in range(1_000)]

    assert dict(near(["serach_7", "creates_9", "nothing"], known)) == {
        "serach_7": "search_7",
        "creates_9": "create_9",
    }
