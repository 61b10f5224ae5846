from hypothesis import given
from hypothesis import strategies as st

from catalog.rules import word_diff

WORDS = st.lists(st.sampled_from(["find", "a", "store", "near", "you", " ", ", ", "é", "\n"]), max_size=30)


def marks(*texts):
    return [
        [piece for piece, is_marked in pieces if is_marked] for pieces in word_diff.mark_differences(texts)
    ]


def test_words_that_only_one_of_two_has_are_marked_in_it():
    assert marks("Finds a store near you", "Finds a shop near you") == [["store"], ["shop"]]
    assert marks("Finds a store near you", "Finds a store near") == [[" you"], []]


def test_the_first_is_compared_with_all_and_each_of_the_others_with_it():
    assert marks("Finds a store near you", "Finds a shop near you", "Finds a store near them") == [
        ["store", "you"],
        ["shop"],
        ["them"],
    ]


def test_texts_with_little_in_common_or_too_long_are_left_alone():
    assert marks("Finds a store near you", "Orders refills by post") == [[], []]
    assert marks("Free times of a clinician. Book soon.", "Bikes of the shop, and where they are.") == [
        [],
        [],
    ]
    assert marks("a " * 2_000, "b " * 2_000) == [[], []]


@given(st.lists(WORDS.map("".join), min_size=1, max_size=4))
def test_no_character_is_lost_and_equal_texts_have_no_marks(texts):
    marked_texts = word_diff.mark_differences(texts)

    assert ["".join(piece for piece, _ in pieces) for pieces in marked_texts] == texts
    assert not any(
        is_marked for pieces in word_diff.mark_differences([texts[0]] * 3) for _, is_marked in pieces
    )
    for pieces, text in zip(marked_texts[1:], texts[1:], strict=True):
        if text == texts[0]:
            assert not any(is_marked for _, is_marked in pieces)
