"""Names of tools that stand for the same subject."""

import pytest

from catalog.search.similar import has_same_subject


@pytest.mark.parametrize(
    ("name", "other_name"),
    [
        ("get_weather", "weather_forecast"),
        ("list_prescriptions", "getPrescription"),
        ("create_payment_intent", "make_payment_intent"),
        ("send_email", "email.send"),
        ("find_stores", "list_stores_nearby"),
    ],
)
def test_tools_of_the_same_subject(name, other_name):
    assert has_same_subject(name, other_name)
    assert has_same_subject(other_name, name)


@pytest.mark.parametrize(
    ("name", "other_name"),
    [
        ("request_prior_authorization", "request_late_checkout"),
        ("get_weather", "get_invoice"),
        ("customer_order_history", "customer_loyalty_points"),
        ("list", "list_orders"),
        ("", "send_email"),
    ],
)
def test_tools_of_other_subjects(name, other_name):
    assert not has_same_subject(name, other_name)
    assert not has_same_subject(other_name, name)
