"""A worker is killed at a random moment of a reading, again and again, while people read the catalog."""

from pathlib import Path

from soak.frame import Field
from tests.faults.rounds import KillRounds
from tests.faults.warm import Warm
from tests.vendor import Vendor, serving, tools

TAKEN_UP_WITHIN = 60


def storm(field: Field) -> None:
    worker = Warm(field.environment, Path(field.directory) / "warm.log")
    try:
        with serving(Vendor(tools(25))) as vendor:
            rounds = KillRounds(worker, vendor, field.random)
            for number in range(field.times(short=10, long=200)):
                seconds = rounds.play()
                # The lease is made to end at once; a real one adds the rest of its 30 seconds.
                field.fault("worker killed", f"round {number}", recovery=seconds, limit=TAKEN_UP_WITHIN)
                if wrong := rounds.wrong():
                    field.violation(f"round {number}: {wrong}")
            field.figure("killed in the middle", rounds.killed)
    finally:
        worker.stop()
