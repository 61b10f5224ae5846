"""Activities whose process dies or whose call is cancelled: no step runs twice, and none continues alone."""

import signal
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from catalog.models import Call, ToolVersion
from catalog.models.calls import Mode
from execution.calls import cancellation, invocation, queue, requesting
from people.models import Role
from tests import forked_python
from tests.execution.activities.test_steps import FAIR, FOUND, composite, two_steps
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor, Line, Request, in_turn

pytestmark = pytest.mark.django_db(transaction=True)

PERFORM = (
    "import django, sys; django.setup(); "
    "from execution.calls import invocation; invocation.perform_due_calls()"
)


def ask_for(interface: ToolVersion, config: dict, mode: Mode = Mode.ASYNC) -> Call:
    activity = composite(interface, config).current
    return requesting.request_call(
        interface,
        actor=make_user(Role.DESIGNER),
        arguments={"place": "Oslo"},
        activity=activity,
        mode=mode,
        deadline_seconds=60,
    )


@pytest.mark.faults
def test_a_worker_that_dies_between_two_steps_leaves_a_doubt_and_sends_nothing_twice(process_environment):
    with HostileVendor(in_turn(FOUND, FAIR)) as vendor:
        call = ask_for(*two_steps(vendor.url))
        crash = {"CRASHPOINT": "step-made", "DEBUG_CRASH": "1"}
        worker = forked_python.run("-c", PERFORM, str(call.pk), env=process_environment | crash)
        invocation.perform_due_calls()
        assert Call.objects.get(pk=call.pk).status == "running"
        Call.objects.filter(pk=call.pk).update(gives_up_at=timezone.now() - timedelta(seconds=1))
        queue.sweep()
        invocation.perform_due_calls()

    call.refresh_from_db()
    assert worker.returncode == -signal.SIGKILL
    assert len(vendor.requests) == 1
    assert (call.outcome, call.error_code) == ("unknown", "WORKER_LOST")
    assert [step.outcome for step in call.steps.all()] == ["ok"]


def test_a_worker_makes_what_is_not_waited_for():
    with HostileVendor(in_turn(FOUND, FAIR)) as vendor:
        call = ask_for(*two_steps(vendor.url))
        invocation.perform_due_calls()
    call.refresh_from_db()
    assert (call.outcome, call.decoded().outputs) == ("ok", {"sky": "fair"})
    assert {step.mode for step in call.steps.all()} == {Mode.ASYNC}


def test_who_cancels_the_whole_cancels_the_step_that_is_under_way():
    has_begun = threading.Event()

    def hangs(line: Line, request: Request) -> bool:
        has_begun.set()
        line.wait()
        return False

    with HostileVendor(hangs) as vendor:
        call = ask_for(*two_steps(vendor.url))

        def perform() -> None:
            try:
                invocation.perform_due_calls()
            finally:
                connection.close()

        worker = threading.Thread(target=perform)
        worker.start()
        assert has_begun.wait(30)
        cancelled = cancellation.cancel(call, actor=call.requested_by)
        # The step's conversation is cut off, or its worker would wait for the vendor for a minute.
        worker.join(30)
        assert not worker.is_alive()

    (step,) = Call.objects.filter(parent=call)
    assert (cancelled.outcome, step.outcome) == ("cancelled", "cancelled")
    assert len(vendor.requests) == 1
