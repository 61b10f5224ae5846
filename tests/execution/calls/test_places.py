"""Agents and API keys share the places of one process for calls."""

from contextlib import ExitStack

import pytest

from execution.calls.places import CallPlaces, Holder, may_take


def filled_by(stack: ExitStack, places: CallPlaces, holder: Holder) -> int:
    """Return how many places the holder gets until it gets no more."""
    count = 0
    while stack.enter_context(places.place(holder, 0.0)):
        count += 1
    return count


@pytest.mark.parametrize(
    ("in_use", "free", "share", "is_allowed"),
    [(0, 1, 3, True), (0, 0, 3, False), (1, 3, 3, True), (2, 2, 3, True), (3, 1, 3, False), (1, 1, 7, False)],
)
def test_what_a_holder_may_take_depends_on_what_stays_free(in_use, free, share, is_allowed):
    assert may_take(in_use, free, share) == is_allowed


@pytest.mark.parametrize(("capacity", "of_one_key"), [(1, 1), (2, 1), (4, 3), (8, 6), (240, 180)])
def test_one_key_leaves_a_place_for_others(capacity, of_one_key):
    with ExitStack() as stack:
        assert filled_by(stack, CallPlaces(capacity), Holder(1, "key 1")) == of_one_key


def test_another_agent_has_a_place_whatever_the_keys_of_the_first_one_do():
    places = CallPlaces(240)
    with ExitStack() as stack:
        of_keys = [filled_by(stack, places, Holder(1, f"key {number}")) for number in range(50)]
        assert sum(of_keys) <= 240 * 7 // 8
        assert of_keys[1] > 20
        assert filled_by(stack, places, Holder(2, "key 99")) > 20
        assert filled_by(stack, places, Holder(None, "user 7")) > 2


def test_what_was_given_back_is_there_for_the_next_one():
    places, holder = CallPlaces(4), Holder(1, "key 1")
    for _ in range(3):
        with ExitStack() as stack:
            assert filled_by(stack, places, holder) == 3
    with places.place(Holder(2, "key 2"), 0.0) as has_place:
        assert has_place
