import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.search import ranking

strengths = st.dictionaries(st.integers(0, 2**31), st.integers(1, 255), max_size=300)


@given(strengths, st.lists(st.integers(0, 2**31)))
def test_packing_a_tool_loses_nothing(impacts, name):
    assert ranking.unpack(ranking.pack([*name, *list(impacts)[:3]], impacts)) == impacts


@given(st.dictionaries(st.integers(), st.floats(0.05, 1000), min_size=1))
def test_an_impact_fits_a_byte_and_is_never_nothing(frequencies):
    assert all(1 <= impact <= 255 for impact in ranking.impacts(frequencies, set()).values())


def test_a_word_of_the_name_weighs_more_than_one_of_a_parameter():
    impacts = ranking.impacts(
        {1: ranking.NAME, 2: ranking.TEXT, 3: ranking.PARAMETER, 4: ranking.DETAIL}, set()
    )
    assert impacts[1] > impacts[2] > impacts[3] > impacts[4]


def test_stop_words_make_no_tool_longer():
    short = ranking.impacts({1: 5.0}, {9})
    assert ranking.impacts({1: 5.0, 9: 40.0}, {9})[1] == short[1]
    assert ranking.impacts({1: 5.0, 8: 40.0}, {9})[1] < short[1]


def test_a_name_that_says_nothing_else_is_ahead():
    gains = stress = {1: 1.0, 2: 1.0}
    whole = ranking.pack([1, 2], {1: 200, 2: 200})
    partial = ranking.pack([1, 2, 3, 4], {1: 200, 2: 200, 3: 200, 4: 200})
    assert ranking.score(whole, gains, stress) > ranking.score(partial, gains, stress)


def test_rare_words_tell_more_than_common_ones():
    assert ranking.rarity(3, 1000) > ranking.rarity(300, 1000) > ranking.rarity(1000, 1000) > 0
    assert ranking.rarity(5, 0) > 0


@given(
    st.dictionaries(st.integers(), st.integers(0, 100_000), min_size=1, max_size=50), st.integers(100, 50_000)
)
def test_shares_of_postings_keep_to_the_budget(found_in, budget):
    parts = ranking.shares(found_in, budget)
    assert sum(part * found_in[lexeme] for lexeme, part in parts.items()) <= budget * 1.001
    assert all(0 < part <= 1 for part in parts.values())


def test_rare_words_are_read_whole_and_common_ones_share_the_rest():
    parts = ranking.shares({1: 10, 2: 100_000, 3: 50_000}, 10_010)
    assert parts[1] == 1
    assert parts[2] * 100_000 == pytest.approx(parts[3] * 50_000) == pytest.approx(5_000)
