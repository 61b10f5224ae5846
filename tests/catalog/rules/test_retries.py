"""A failed call is sent again only within its number of attempts, in time and without harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from catalog.rules import retries
from catalog.rules.retries import RetryPolicy, RetryTerms, wait_before_next
from protocols.call_outcome import Outcome
from protocols.signature import Annotations

STATED = st.sampled_from([None, True, False])
CODES = ["HTTP_500", "HTTP_503", "HTTP_408", "DEADLINE", "RESET", "IDLE", "CONNECT", "RATE_LIMITED"]
OUTCOMES = st.builds(
    Outcome,
    st.sampled_from(
        [
            "ok",
            "tool_error",
            "invalid_arguments",
            "needs_authorization",
            "needs_input",
            "unavailable",
            "refused",
        ]
    ),
    error=st.sampled_from(CODES).map(lambda code: {"code": code}),
    retry_after=st.none() | st.floats(0, 100),
    can_retry=STATED,
    hint=st.sampled_from(["", "Known cities: Oslo."]),
)
POLICIES = st.builds(
    RetryPolicy,
    retry=st.sampled_from(list(retries.WHENS)),
    give_up_after_seconds=st.integers(1, retries.MAX_GIVE_UP_SECONDS),
    attempts=st.integers(1, retries.MAX_ATTEMPTS),
)
EFFECTS = st.builds(Annotations, read_only=STATED, destructive=STATED, idempotent=STATED)
TERMS = st.builds(RetryTerms, policy=POLICIES, effects=EFFECTS)
FAILURES = st.builds(
    Outcome,
    st.just("unavailable"),
    error=st.sampled_from(CODES).map(lambda code: {"code": code}),
    retry_after=st.none() | st.floats(0, 20),
    can_retry=st.sampled_from([None, True]),
)
CHANCES = st.floats(0, 1)


@given(TERMS, OUTCOMES, st.floats(0.1, 120), CHANCES)
def test_there_are_never_more_attempts_than_allowed_and_none_after_the_end(terms, outcome, seconds, chance):
    attempts, passed = 1, 0.0
    while (
        wait := wait_before_next(
            terms, outcome, attempts=attempts, seconds_left=seconds - passed, chance=chance
        )
    ) is not None:
        attempts, passed = attempts + 1, passed + wait
        assert passed < seconds
    assert attempts <= terms.policy.attempts


@given(TERMS, st.sampled_from(["DEADLINE", "RESET", "IDLE"]))
def test_what_may_be_at_work_is_sent_again_only_where_that_is_harmless_or_wanted(terms, code):
    unknown = Outcome("unavailable", error={"code": code})
    allowed = retries.is_harmless(terms.effects) or terms.policy.retry == "all"
    again = wait_before_next(terms, unknown, attempts=1, seconds_left=1_000)
    assert (again is None) or allowed


@given(TERMS, OUTCOMES, st.floats(0, 100), CHANCES)
def test_the_time_that_the_vendor_asks_for_is_never_cut_short(terms, outcome, retry_after, chance):
    outcome = Outcome(
        outcome.outcome, error=outcome.error, can_retry=outcome.can_retry, retry_after=retry_after
    )
    wait = wait_before_next(terms, outcome, attempts=1, seconds_left=1_000, chance=chance)
    assert wait is None or wait >= retry_after


@given(TERMS, FAILURES, st.integers(1, 5), st.floats(5, 100), CHANCES)
def test_more_time_fewer_attempts_and_a_bolder_policy_never_stop_a_retry(
    terms, outcome, attempts, seconds_left, chance
):
    again = wait_before_next(terms, outcome, attempts=attempts, seconds_left=seconds_left, chance=chance)
    if again is None:
        return
    bolder = replace(terms, policy=replace(terms.policy, retry="all"))
    for easier in (
        wait_before_next(terms, outcome, attempts=attempts, seconds_left=seconds_left + 1, chance=chance),
        wait_before_next(terms, outcome, attempts=1, seconds_left=seconds_left, chance=chance),
        wait_before_next(bolder, outcome, attempts=attempts, seconds_left=seconds_left, chance=chance),
    ):
        assert easier is not None


@given(TERMS, OUTCOMES)
def test_what_worked_what_was_refused_and_what_a_model_has_to_read_is_told_at_once(terms, outcome):
    if outcome.outcome not in ("unavailable", "tool_error") or outcome.hint:
        assert wait_before_next(terms, outcome, attempts=1, seconds_left=1_000) is None


@given(EFFECTS, st.integers(1, 10))
def test_a_policy_of_none_and_a_single_attempt_repeat_nothing(effects, attempts):
    away = Outcome("unavailable", error={"code": "CONNECT"}, can_retry=True)
    none = RetryTerms(policy=RetryPolicy(retry="none", attempts=10), effects=effects)
    single = RetryTerms(policy=RetryPolicy(retry="all", attempts=1), effects=effects)
    assert wait_before_next(none, away, attempts=1, seconds_left=100) is None
    assert wait_before_next(single, away, attempts=attempts, seconds_left=100) is None


def test_each_member_of_a_policy_is_taken_where_it_is_stated_first():
    resolved = retries.resolve_policy(
        pin={"retry": "all"}, agent={"retry": "none", "attempts": 5}, endpoint={"attempts": 9}
    )
    assert resolved.policy == RetryPolicy(retry="all", attempts=5, give_up_after_seconds=30)
    assert resolved.levels == {"retry": "pin", "attempts": "agent", "give_up_after_seconds": "default"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"retry": "safe", "attempts": 1, "give_up_after_seconds": 120}, set()),
        ({"retry": None, "attempts": None}, set()),
        ({"retry": "often"}, {"retry"}),
        ({"attempts": 0, "give_up_after_seconds": 121}, {"attempts", "give_up_after_seconds"}),
        ({"attempts": True}, {"attempts"}),
    ],
)
def test_what_may_be_stated(changes, wrong):
    assert retries.faults(changes).keys() == wrong
