"""Calls that a mock answers: the vendor is gone, nothing is sent, and the rest of a call is as ever."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from catalog.models import Activity, Call, Endpoint, UserGrant, Vendor
from core.errors import DomainError
from execution.activities import kinds, operations
from execution.activities.base import ActivityWork
from execution.calls import checks, invocation
from people.models import Role
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db

COLD = {"sky": "snow"}
FAILS_TWICE = {"name": "fails_first", "times": 2, "switch": True}


@pytest.fixture
def version():
    # Nothing listens there, and the vendor is removed: whatever would be sent fails.
    endpoint = make_endpoint(url="http://127.0.0.1:9/")
    signature = make_signature(inputs=(make_parameter("city"),), outputs=(make_parameter("sky"),))
    version = make_tool(signature, endpoint=endpoint).current
    Endpoint.objects.filter(pk=endpoint.pk).update(removed_at="2026-01-01T00:00:00Z")
    Vendor.objects.filter(pk=endpoint.vendor_id).update(removed_at="2026-01-01T00:00:00Z")
    version.tool.endpoint.refresh_from_db()
    return version


def mocked(version, **config) -> Activity:
    return operations.create(
        actor=make_user(Role.DESIGNER), name="Mock", kind="mock", config=config, interface=version
    )


def call(version, activity, **wish) -> Call:
    actor = make_user(Role.DESIGNER)
    result = invocation.call_now(
        version, actor=actor, arguments={"city": "Oslo"}, activity=activity.current, **wish
    )
    return Call.objects.get(pk=result.pk)


def test_a_call_is_answered_and_kept_while_its_vendor_is_gone(version):
    activity = mocked(version, examples=[{"arguments": {"city": "Oslo"}, "outputs": COLD}])

    result = call(version, activity)

    assert (result.outcome, result.decoded().outputs) == ("ok", COLD)
    assert result.activity == activity.current
    assert result.decoded().attempts == []
    assert result.decoded().notes[-1]["message"].endswith("Example 1 matches the inputs.")


def test_what_a_mock_is_told_takes_effect_from_the_next_call_on(version):
    activity = mocked(version, seed=1)
    first, again = call(version, activity), call(version, activity)
    activity = operations.change(activity, actor=make_user(Role.DESIGNER), config={"seed": 2})

    other = call(version, activity)

    assert first.decoded().outputs == again.decoded().outputs != other.decoded().outputs


def test_a_call_that_stops_goes_on_with_the_mock_and_leaves_no_grant(version):
    activity = mocked(
        version,
        situations=[
            {"name": "authorization", "switch": True, "polls": 2},
            {"name": "interrupt", "switch": True},
        ],
        examples=[{"outputs": COLD}],
    )
    stopped, outcomes = call(version, activity), []
    for answers in ({}, {}, {"answer": {"approved": True}}):
        outcomes.append(stopped.outcome)
        stopped = invocation.continue_now(stopped, actor=stopped.requested_by, answers=answers)

    assert outcomes == ["needs_authorization", "needs_authorization", "needs_input"]
    assert stopped.decoded().outputs == COLD
    assert not UserGrant.objects.exists()
    with pytest.raises(checks.ArgumentsError):
        invocation.continue_now(
            stopped.continues, actor=stopped.requested_by, answers={"answer": {"approved": 3}}
        )


@pytest.mark.parametrize(("seconds_left", "sleeps", "outcome"), [(60, 9, "ok"), (4, 4, "unavailable")])
def test_a_slow_mock_sleeps_as_the_calls_own_lease_has_it_and_no_longer_than_its_time(
    version, seconds_left, sleeps, outcome
):
    # The lease ends the rest when the call is cancelled.
    slept = []
    work = ActivityWork(
        call=Call(arguments={"city": "Oslo"}),
        config={"situations": [{"name": "slow", "switch": True, "seconds": 9}]},
        signature=version.decoded(),
        seconds_left=lambda: seconds_left,
        sleep=slept.append,
        **dict.fromkeys(("may_continue", "call_step", "continue_step", "converse"), pytest.fail),
    )

    answer = kinds.get("mock").perform(work)

    assert (answer.outcome, slept) == (outcome, [sleeps])


def test_a_mock_that_cannot_answer_is_refused_when_it_is_saved(version):
    with pytest.raises(DomainError) as refused:
        mocked(version, examples=[{"outputs": {"sky": 3}}])

    assert refused.value.fields == {"examples.0.outputs": "sky must be text."}
    assert not Activity.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_calls_made_at_once_as_many_fail_as_were_said_and_then_all_work(version):
    activity = mocked(version, examples=[{"outputs": COLD}], situations=[FAILS_TWICE])
    ada, bob = make_user(Role.DESIGNER), make_user(Role.DESIGNER)

    def outcomes_of(actor, times, environment=""):
        def one(_):
            try:
                result = invocation.call_now(
                    version,
                    actor=actor,
                    arguments={"city": "Oslo"},
                    activity=activity.current,
                    environment=environment,
                )
            finally:
                connection.close()
            return result.outcome

        with ThreadPoolExecutor(4) as threads:
            return sorted(threads.map(one, range(times)))

    assert outcomes_of(ada, 6) == ["ok"] * 4 + ["tool_error"] * 2
    assert outcomes_of(ada, 2) == ["ok"] * 2
    assert outcomes_of(ada, 1, "test") == outcomes_of(bob, 1) == ["tool_error"]
    failed = Call.objects.filter(outcome="tool_error").first().decoded()
    assert (failed.retry.can_retry, failed.retry.hint) == (
        True,
        "Call the tool once more, with the same inputs.",
    )
    # Saved anew, it counts anew.
    activity = operations.change(
        activity, actor=ada, config={"seed": 2, "examples": [{"outputs": COLD}], "situations": [FAILS_TWICE]}
    )
    assert outcomes_of(ada, 3) == ["ok"] + ["tool_error"] * 2
