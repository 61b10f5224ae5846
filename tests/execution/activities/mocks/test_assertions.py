"""Assertions about the calls of an agent, judged by the order of its calls."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.activities.mocks.assertions import AnyAssertion, Before, Called, Never, RecordedCall


def log(*tools: str) -> list[RecordedCall]:
    """Return calls by name; `!` marks a failed one."""
    return [
        RecordedCall(number, name.rstrip("!"), "tool_error" if name.endswith("!") else "ok")
        for number, name in enumerate(tools, 1)
    ]


@pytest.mark.parametrize(
    ("assertion", "logged_calls", "holds", "calls"),
    [
        (
            Before(tool="authenticate", other="look_up"),
            ["authenticate", "look_up", "look_up"],
            True,
            (1, 2, 3),
        ),
        (Before(tool="authenticate", other="look_up"), ["look_up", "authenticate", "look_up"], False, (1,)),
        (Before(tool="authenticate", other="look_up"), ["authenticate!", "look_up"], False, (2,)),
        (Before(tool="authenticate", other="look_up"), ["authenticate"], True, ()),
        (Before(tool="look_up", other="look_up"), ["look_up", "look_up"], False, (1,)),
        (Called(tool="create", times=1), ["create", "other"], True, (1,)),
        (Called(tool="create", times=1), ["create", "create!"], False, (1, 2)),
        (Called(tool="create", times=1), [], False, ()),
        (Called(tool="create"), ["create", "create"], True, (1, 2)),
        (Never(tool="delete"), ["create"], True, ()),
        (Never(tool="delete"), ["delete!"], False, (1,)),
    ],
)
def test_each_assertion_holds_or_failed_with_the_calls_that_show_it(assertion, logged_calls, holds, calls):
    verdict = assertion.judge(log(*logged_calls))

    assert (verdict.holds, verdict.calls) == (holds, calls)
    assert verdict.reason.endswith(".")


@pytest.mark.parametrize(
    ("assertion", "logged_calls", "is_exercised"),
    [
        (Before(tool="authenticate", other="look_up"), ["authenticate"], False),
        (Before(tool="authenticate", other="look_up"), [], False),
        (Before(tool="authenticate", other="look_up"), ["authenticate", "look_up"], True),
        (Before(tool="authenticate", other="look_up"), ["look_up"], True),
        (Never(tool="delete"), [], False),
        (Never(tool="delete"), ["create"], True),
        (Called(tool="create", times=1), ["create"], True),
    ],
)
def test_an_assertion_without_calls_that_could_break_it_proves_nothing(assertion, logged_calls, is_exercised):
    assert assertion.judge(log(*logged_calls)).is_exercised == is_exercised


def test_assertions_have_sentences_and_travel_as_json():
    documents = [
        {"is": "before", "tool": "authenticate", "other": "look_up"},
        {"is": "called", "tool": "create", "times": 1},
        {"is": "called", "tool": "create", "times": 3},
        {"is": "never", "tool": "delete"},
    ]

    assertions = msgspec.convert(documents, list[AnyAssertion])

    assert msgspec.to_builtins(assertions) == documents
    assert [assertion.sentence for assertion in assertions] == [
        "authenticate before look_up",
        "create called once",
        "create called 3 times",
        "never delete",
    ]


@given(st.lists(st.sampled_from(["a", "a!", "b", "c"])))
def test_never_and_called_never_both_hold(logged_calls):
    never, called_never = (
        assertion_class(tool="a").judge(log(*logged_calls)) for assertion_class in (Never, Called)
    )

    assert never.holds is not called_never.holds
    assert never.calls == called_never.calls
