"""The catalog is played against a model of itself: vendors, readings, kills and people, in any order."""

from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from soak.frame import Field
from tests.faults.model import Machine
from tests.faults.warm import Warm
from tests.vendor import Vendor, serving, tools

STEPS = 50


def storm(field: Field) -> None:
    worker = Warm(field.environment, Path(field.directory) / "warm.log")
    examples = field.times(short=5, long=500)
    try:
        with serving(Vendor(tools(1))) as vendor:

            class Played(Machine):
                pass

            Played.vendor, Played.worker = vendor, worker
            Played.tell = staticmethod(field.fault)
            game_settings = settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            )
            run_state_machine_as_test(seed(field.seed)(Played), settings=game_settings)
    finally:
        worker.stop()
    field.figure("games", examples)
