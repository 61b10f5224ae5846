import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from catalog import invariants
from tests.faults.model import Machine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

EXAMPLES, STEPS = 6, 25


def test_the_catalog_does_what_its_model_does(worker, vendor):
    """V6. The storm `model` plays five hundred of fifty steps."""

    class Played(Machine):
        pass

    Played.vendor, Played.worker = vendor, worker
    run_state_machine_as_test(
        Played,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            print_blob=True,
        ),
    )
    assert [str(breach) for breach in invariants.check(only=["version_digests", "withdrawals"])] == []
