"""A mock's answer to one call: a situation, an example, or outputs made up from its seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import DomainError
from execution.activities.mocks import answers
from execution.activities.mocks.answers import check, read_mock, reply
from execution.activities.mocks.situations import SITUATIONS, matches
from protocols.signature import Parameter
from tests.factories import make_signature

INPUTS = (
    Parameter(id="city", name="city", type="string", required=True, description=""),
    Parameter(id="days", name="days", type="int", required=False, description="", min=1, max=9),
)
OUTPUTS = (
    Parameter(id="sky", name="sky", type="string", required=True, description="", max_length=40),
    Parameter(id="degrees", name="degrees", type="number", required=True, description=""),
)
WEATHER = make_signature(inputs=INPUTS, outputs=OUTPUTS)
OSLO = {"city": "Oslo"}
COLD = {"sky": "snow", "degrees": -4}


def answer_to(config, arguments=OSLO, signature=WEATHER, **more):
    return reply(read_mock(check(config, signature)), signature, arguments, **more)


def test_the_same_seed_and_inputs_give_the_same_answer_and_others_another():
    first, again = answer_to({"seed": 1}), answer_to({"seed": 1})
    others = [
        answer_to({"seed": 2}),
        answer_to({"seed": 1}, {"city": "Rome"}),
        answer_to({"seed": 1}, OSLO | {"days": 2}),
    ]

    assert first.outcome.outcome == "ok"
    assert first == again
    assert all(other.outcome.outputs != first.outcome.outputs for other in others)
    assert answers.faults_in_outputs(WEATHER, first.outcome.outputs) == []


def test_all_that_a_tool_promises_comes_back_where_it_can():
    parameters = [Parameter(id=n, name=n, type="string", required=False, description="") for n in "abcdefgh"]
    optional = make_signature(inputs=INPUTS, outputs=tuple(parameters))

    assert all(len(answer_to({"seed": seed}, signature=optional).outcome.outputs) == 8 for seed in range(20))


def test_an_input_that_is_not_given_changes_nothing():
    assert answer_to({}, OSLO | {"days": None}) == answer_to({}, OSLO)


def test_the_example_that_says_most_about_the_inputs_answers():
    mild, anything = {"sky": "rain", "degrees": 9}, {"sky": "fog", "degrees": 1}
    config = {
        "examples": [
            {"outputs": anything},
            {"arguments": OSLO, "outputs": mild},
            {"arguments": OSLO | {"days": 3}, "outputs": COLD},
        ]
    }

    assert answer_to(config, OSLO | {"days": 3}).outcome.outputs == COLD
    assert answer_to(config, OSLO | {"days": 2}).outcome.outputs == mild
    assert answer_to(config, {"city": "Rome"}).outcome.outputs == anything
    assert answer_to(config).because == "Example 2 matches the inputs."


@pytest.mark.parametrize(
    ("situation", "outcome", "code", "expected"),
    [
        ({"name": "not_found"}, "tool_error", "HTTP_404", {}),
        (
            {"name": "invalid_input", "parameter_errors": {"city": "is no city"}},
            "invalid_arguments",
            "HTTP_422",
            {},
        ),
        (
            {"name": "can_retry", "hint": "Wait.", "after_ms": 1500},
            "tool_error",
            "TOOL_ERROR",
            {"can_retry": True, "hint": "Wait.", "retry_after": 1.5},
        ),
        (
            {"name": "authorization", "provider": "calendar"},
            "needs_authorization",
            "MISSING_REQUIREMENTS",
            {},
        ),
        ({"name": "interrupt"}, "needs_input", "INTERRUPT", {}),
        (
            {"name": "unavailable", "retry_after": 7},
            "unavailable",
            "HTTP_503",
            {"can_retry": True, "retry_after": 7},
        ),
        ({"name": "withdrawn"}, "refused", "NOT_FOUND", {"can_retry": None}),
    ],
)
def test_each_situation_answers_as_a_vendor_would(situation, outcome, code, expected):
    answer = answer_to(
        {"situations": [situation | {"switch": True}], "examples": [{"outputs": COLD}]}
    ).outcome

    assert (answer.outcome, answer.error["code"]) == (outcome, code)
    assert {name: getattr(answer, name) for name in expected} == expected
    assert answer.notes[-1].code == "MOCK"
    if outcome == "invalid_arguments":
        assert answer.error["fields"] == {"city": "is no city"}


def test_every_situation_is_off_until_it_is_switched_on_or_met_by_a_pattern():
    for situation in SITUATIONS:
        name = situation.__struct_config__.tag
        assert answer_to({"situations": [{"name": name}]}).outcome.outcome == "ok"
        assert (
            answer_to({"situations": [{"name": name, "when": OSLO, "switch": False}]}).outcome.outcome == "ok"
        )
        result = answer_to({"situations": [{"name": name, "when": {"city": "Os*"}}]})
        assert result.outcome.outcome != "ok" or result.seconds
        assert answer_to({"situations": [{"name": name, "when": {"city": "Rome"}}]}).outcome.outcome == "ok"


def test_a_slow_mock_answers_as_it_would_and_later():
    slow = answer_to(
        {"situations": [{"name": "slow", "switch": True, "seconds": 2.5}], "examples": [{"outputs": COLD}]}
    )

    assert (slow.seconds, slow.outcome.outputs) == (2.5, COLD)


def test_an_authorization_is_given_after_so_many_polls_and_a_question_is_answered_or_declined():
    config = {
        "situations": [
            {"name": "authorization", "switch": True, "polls": 2, "provider": "calendar"},
            {"name": "interrupt", "switch": True, "message": "Really?"},
        ],
        "examples": [{"outputs": COLD}],
    }
    first = answer_to(config).outcome
    second = answer_to(config, state=first.resume).outcome
    third = answer_to(config, state=second.resume).outcome
    last = answer_to(config, state=third.resume).outcome

    assert [answer.outcome for answer in (first, second, third, last)] == [
        "needs_authorization",
        "needs_authorization",
        "needs_input",
        "ok",
    ]
    assert (first.asks[0].id, third.asks[0].message) == ("calendar", "Really?")
    assert last.outputs == COLD
    declined = answer_to(config, state=third.resume, is_declined=True).outcome
    assert (declined.outcome, declined.error["code"]) == ("tool_error", "DECLINED")
    assert answer_to(config, state=first.resume, is_declined=True).outcome.error["code"] == "GRANT_REFUSED"


def test_a_tool_that_promises_nothing_answers_with_nothing_and_says_so():
    silent = make_signature(inputs=INPUTS, outputs=())

    answer = answer_to({}, signature=silent)

    assert answer.outcome.outcome == "ok"
    assert answer.outcome.outputs == {}
    assert "Add an example" in answer.because


@pytest.mark.parametrize("type", [None, ["object", "null"], ["string", "object"]])
def test_outputs_are_made_up_by_name_where_the_schema_leaves_their_type_open(type):
    # As a reference to forms that most tries cannot meet: only the last ones are as short as can be.
    hard = {"type": "string", "pattern": "^(?=a)b$"}
    outputs_rest = {"type": type, "properties": {"sky": {"anyOf": [hard, hard, hard]}}}
    open_type = make_signature(inputs=INPUTS, outputs=(), outputs_rest=outputs_rest)

    for seed in range(20):
        outputs = answers.made_up(answers.Mock(seed=seed), open_type, {})
        assert answers.faults_in_outputs(open_type, outputs) == []


UNMET = make_signature(
    inputs=INPUTS,
    outputs=(
        Parameter(
            id="o",
            name="o",
            type="json",
            required=True,
            description="",
            schema={"pattern": "^(?=a)b$", "type": "string"},
        ),
    ),
    outputs_rest={},
)


def test_a_schema_that_cannot_be_met_has_a_code_when_it_is_saved_and_when_it_is_called():
    with pytest.raises(DomainError) as refused:
        check({}, UNMET)
    at_the_call = reply(read_mock({}), UNMET, OSLO).outcome

    assert refused.value.code == "mock_schema_unmet"
    assert "No text can be generated for the pattern" in refused.value.fields["examples"]
    assert (at_the_call.outcome, at_the_call.error["code"]) == ("refused", "MOCK_SCHEMA_UNMET")
    assert check({"examples": [{"outputs": {"o": "x"}}]}, make_signature(inputs=INPUTS, outputs=()))


@pytest.mark.parametrize(
    ("config", "where", "member_name"),
    [
        ({"seed": "one"}, "seed", "Expected int"),
        ({"seed": -1}, "seed", ">= 0"),
        ({"situation": []}, "config", "unknown field"),
        ({"examples": [{"outputs": {"sky": 4}}]}, "examples.0.outputs", "sky must be text"),
        ({"examples": [{"outputs": {"sky": "snow"}}]}, "examples.0.outputs", "degrees is required"),
        (
            {"examples": [{"outputs": COLD, "arguments": {"town": "Oslo"}}]},
            "examples.0.arguments.town",
            "not an input",
        ),
        (
            {"examples": [{"outputs": COLD, "arguments": {"days": 30}}]},
            "examples.0.arguments.days",
            "at most 9",
        ),
        ({"situations": [{"name": "earthquake"}]}, "situations.0.name", "Invalid value"),
        ({"situations": [{"name": "slow", "seconds": 0}]}, "situations.0.seconds", "> 0"),
        (
            {"situations": [{"name": "not_found", "when": {"town": "*"}}]},
            "situations.0",
            "“town” is not an input",
        ),
        ({"situations": [{"name": "authorization", "url": "javascript:1"}]}, "situations.0.url", "https://"),
        (
            {"situations": [{"name": "interrupt", "schema": {"type": 3}}]},
            "situations.0.schema",
            "no JSON Schema",
        ),
    ],
)
def test_a_config_that_cannot_answer_is_refused_at_its_place(config, where, member_name):
    with pytest.raises(DomainError) as refused:
        check(config, WEATHER)

    assert refused.value.code == "invalid_mock"
    assert member_name in refused.value.fields[where]


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("Os*", "Oslo", True),
        ("*s*o", "Oslo", True),
        ("Oslo", "oslo", False),
        ("*", "", True),
        ("a*a", "a", False),
        ("4*", 42, True),
        ("true", True, True),
        (42, 42, True),
        (42, 42.0, False),
        (1, True, False),
        (["a"], ["a"], True),
        ("*", ["a"], False),
        (None, None, True),
    ],
)
def test_patterns(pattern, value, fits):
    assert matches(pattern, value) is fits


@given(
    st.lists(st.text(alphabet="ab", max_size=4), min_size=1, max_size=5), st.text(alphabet="ab", max_size=4)
)
def test_a_text_put_together_from_the_parts_of_a_pattern_matches_it(parts, between):
    assert matches("*".join(parts), between.join(parts))
