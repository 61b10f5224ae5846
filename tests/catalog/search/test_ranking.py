import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.search import ranking

words = st.text("abcdefgh", min_size=1, max_size=6)


@given(st.dictionaries(words, st.integers(1, 255), max_size=60), st.lists(words))
def test_the_score_of_a_packed_tool_counts_the_impacts_of_the_words(impacts, gained):
    gains = ranking.by_key(dict.fromkeys(gained, 1.0))
    vector = ranking.pack([], impacts)
    expected = sum(impact for word, impact in impacts.items() if word in gained) / 255
    assert ranking.score(vector, gains, gains) == pytest.approx(expected)


@given(st.dictionaries(words, st.floats(0.05, 1000), min_size=1))
def test_an_impact_fits_a_byte_and_is_never_nothing(frequencies):
    assert all(1 <= impact <= 255 for impact in ranking.impacts(frequencies, set()).values())


def test_a_word_of_the_name_weighs_more_than_one_of_a_parameter():
    impacts = ranking.impacts(
        {"a": ranking.NAME, "b": ranking.TEXT, "c": ranking.PARAMETER, "d": ranking.DETAIL}, set()
    )
    assert impacts["a"] > impacts["b"] > impacts["c"] > impacts["d"]


def test_stop_words_make_no_tool_longer():
    short = ranking.impacts({"send": 5.0}, {"the"})
    assert ranking.impacts({"send": 5.0, "the": 40.0}, {"the"})["send"] == short["send"]
    assert ranking.impacts({"send": 5.0, "mail": 40.0}, {"the"})["send"] < short["send"]


def test_a_name_that_says_nothing_else_is_ahead():
    gains = stress = ranking.by_key({"send": 1.0, "mail": 1.0})
    full_match = ranking.pack(["send", "mail"], {"send": 200, "mail": 200})
    partial = ranking.pack(["send", "mail", "to", "all"], dict.fromkeys(("send", "mail", "to", "all"), 200))
    assert ranking.score(full_match, gains, stress) > ranking.score(partial, gains, stress)


def test_rare_words_tell_more_than_common_ones():
    assert ranking.rarity(3, 1000) > ranking.rarity(300, 1000) > ranking.rarity(1000, 1000) > 0
    assert ranking.rarity(5, 0) > 0
