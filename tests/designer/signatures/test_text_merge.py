import pytest
from hypothesis import given
from hypothesis import strategies as st

from designer.signatures.text_merge import merge_texts

lines = st.lists(st.sampled_from(["a", "b b", "c, c", ""]), max_size=6).map("\n".join)


@pytest.mark.parametrize(
    ("base", "one", "other", "expected"),
    [
        ("a\nb\nc", "a\nb\nC", "A\nb\nc", "A\nb\nC"),
        ("The city to look up", "The town to look up", "The city to look up now", "The town to look up now"),
        ("The city", "The town", "The village", None),
        ("one two", "one 2", "1 two", "1 2"),
        ("one two", "2", "1 two", None),
        ("a", "a b", "a c", None),
        ("", "ours", "theirs", None),
        ("a", "b", "b", "b"),
    ],
)
def test_texts_are_merged_where_they_do_not_touch(base, one, other, expected):
    assert merge_texts(base, one, other) == expected


@given(lines, lines, lines)
def test_a_merge_takes_no_side(base, one, other):
    assert merge_texts(base, one, other) == merge_texts(base, other, one)
    assert merge_texts(base, one, base) == merge_texts(base, base, one) == merge_texts(base, one, one) == one


def test_texts_too_long_to_compare_are_left_to_a_person():
    long = "a b " * 3_000
    assert merge_texts(long, long + "c", "d " + long) is None
