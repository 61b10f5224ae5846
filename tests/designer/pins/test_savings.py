"""Shorter texts keep their meaning, and texts that would lose something are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from designer import exports
from designer.pins import savings
from designer.signatures.words import Words, members, of_vendor
from protocols.signature import AllowedValue
from tests.designer import strategies
from tests.factories import make_parameter, make_signature

UNITS = make_parameter("units", type="enum", allowed_values=(AllowedValue("metric"), AllowedValue("us")))
LIMITS = exports.get("mcp").limits


def find_savings(signature, limits=LIMITS, **words):
    words_said = of_vendor(signature) | members(Words(**words))
    return savings.find_savings(signature, words_said, limits, size=1000)


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("The units. One of: metric, us.", "The units."),
        ("The units (one of `metric` or `us`)", "The units."),
        ("The units. Allowed values are 'us', 'metric'. Ask first.", "The units. Ask first."),
        ("Units must be either metric or us", "Units."),
        ("Use one of metric, us.", ""),  # “Use.” would be no sentence
        ("The units. One of: metric, imperial.", ""),  # another value is news
        ("The units. One of: metric, us or what the user says.", ""),
        ("One of: metric, us", ""),  # nothing would be left
        ("The units", ""),
    ],
)
def test_values_that_are_listed_again_can_go(text, shorter):
    assert savings.without_values(text, UNITS) == shorter


@pytest.mark.parametrize(
    ("text", "default", "shorter"),
    [
        ("How many days. Defaults to 3.", 3, "How many days."),
        ("How many days (default: 3)", 3, "How many days."),
        ("Whether to round. Default is true. Be careful.", True, "Whether to round. Be careful."),
        ("How many days. Defaults to 30.", 3, ""),
        ("How many days. Defaults to 3 when the user is new.", 3, ""),
        ("How many days", 3, ""),
        ("How many days. Defaults to 3.", UNSET, ""),
    ],
)
def test_a_default_that_is_said_again_can_go(text, default, shorter):
    assert savings.without_default(text, default) == shorter


@pytest.mark.parametrize(
    ("text", "is_required", "shorter"),
    [
        ("(required) The city", True, "The city"),
        ("Optional. The city", False, "The city"),
        ("The city (optional).", False, "The city."),
        ("(optional) The city", True, ""),  # it contradicts the schema, so it is no repetition
        ("Required documents of the city", True, ""),
    ],
)
def test_whether_it_is_required_can_go(text, is_required, shorter):
    assert savings.remove_required_note(text, is_required=is_required) == shorter


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("due_date: When it is due", "When it is due"),
        ("`Due date` - When it is due", "When it is due"),
        ("due: When", ""),
        ("due_date:", ""),
    ],
)
def test_a_name_at_the_beginning_can_go(text, shorter):
    assert savings.without_name(text, "due_date") == shorter


def test_a_section_of_arguments_goes_only_where_each_input_says_it():
    text = (
        "Looks up.\n\nArgs:\n    city: The city to\n        look up.\n    days (int): How many\n\nReturns: it"
    )
    inputs = {"city": "The city to look up", "days": "How many days"}

    assert savings.without_inputs(text, inputs) == "Looks up.\n\nReturns: it"
    assert savings.without_inputs(text, {**inputs, "days": "Until when"}) == ""
    assert savings.without_inputs(text, {"city": inputs["city"]}) == ""


def test_each_member_is_told_with_what_it_saves():
    days = make_parameter("days", type="int", required=False, default=3, description="Days. Defaults to 3.")
    units = make_parameter(
        "units",
        type="enum",
        allowed_values=UNITS.allowed_values,
        description="units: How to measure. One of: metric, us.",
    )
    signature = make_signature(title="Forecast", inputs=(days, units))

    savings_by_place = {
        (saving.code, saving.path[1] if len(saving.path) > 1 else ""): saving
        for saving in find_savings(signature)
    }

    assert set(savings_by_place) == {
        ("title_repeats", ""),
        ("default_repeated", "days"),
        ("values_repeated", "units"),
        ("name_repeated", "units"),
    }
    assert savings_by_place["values_repeated", "units"].text == "units: How to measure."
    assert savings_by_place["title_repeats", ""].text == ""


def test_a_format_saves_only_what_it_says_elsewhere():
    days = make_parameter("days", type="int", required=False, default=3, description="Days. Defaults to 3.")
    optional = make_parameter("city", required=False, description="(optional) The city")
    signature = make_signature(title="Forecast", inputs=(days, optional))

    assert {saving.code for saving in find_savings(signature)} == {
        "title_repeats",
        "default_repeated",
        "required_repeated",
    }
    # Strict schemas have no defaults and require every input, and nothing of OpenAI's has a title.
    assert find_savings(signature, exports.get("openai-strict").limits) == []
    hidden = {"days": {"hidden": True}, "city": {"description": "The city"}}
    members_said = of_vendor(signature) | {
        ("parameters", "days", "hidden"): True,
        ("parameters", "city", "description"): hidden["city"]["description"],
        ("title",): "",
    }
    assert savings.find_savings(signature, members_said, LIMITS, size=1000) == []


@given(strategies.any_signatures)
def test_any_tool_can_be_asked_and_no_required_text_becomes_empty(signature):
    for saving in find_savings(signature):
        assert saving.tokens > 0
        assert saving.text.strip() or saving.path == ("title",)


@given(st.text(max_size=200))
def test_blanks_alone_go_from_any_text(text):
    shorter = savings.without_blanks(text)
    assert not shorter or shorter.split() == text.split()
