"""A step of a procedure uses values of earlier results; some results report that nothing was done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from designer.procedures import step_results


@pytest.mark.parametrize(
    ("outputs", "name"),
    [
        ({"sent": "no"}, "sent"),
        ({"id": 7, "emailSent": False}, "emailSent"),
        ({"is_booked": "FALSE"}, "is_booked"),
        ({"success": 0}, "success"),
        ({"status": "failed"}, "status"),
        ({"payment_status": "Declined"}, "payment_status"),
        ({"sent": "yes"}, ""),
        ({"sent": True, "status": "open"}, ""),
        ({"sent": "2026-11-27"}, ""),
        ({"available": "no"}, ""),
        ({"state": "NO"}, ""),
        ({}, ""),
    ],
)
def test_an_output_says_that_nothing_was_done(outputs, name):
    assert step_results.denial(outputs) == name


def test_an_input_takes_the_newest_result_of_its_name():
    results = [{"orderId": 1, "city": "Oslo"}, {"order": {"id": 2}}]
    values = step_results.values_for(["order_id", "city", "country"], results)
    assert values == {"order_id": 2, "city": "Oslo"}


def test_an_input_takes_a_member_of_a_list_of_one_and_none_of_a_list_of_two():
    assert step_results.values_for(["slot_id"], [{"slots": [{"slot_id": "a"}]}]) == {"slot_id": "a"}
    assert step_results.values_for(["slot_id"], [{"slots": [{"slot_id": "a"}, {"slot_id": "b"}]}]) == {}


def test_a_result_that_is_empty_is_not_taken():
    assert step_results.values_for(["note"], [{"note": None}]) == {}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.text(), _JSON, max_size=4), max_size=3), st.lists(st.text(), max_size=4))
def test_whatever_a_vendor_returns_only_inputs_that_were_asked_for_take_it(results, inputs):
    assert set(step_results.values_for(inputs, results)) <= set(inputs)
    for outputs in results:
        assert step_results.denial(outputs) in ("", *outputs)
