"""A worker is killed at any moment of a reading, and at each named point, while people read the catalog."""

from pathlib import Path

from soak.frame import Field
from tests.faults.rounds import KILLED, KillRounds
from tests.faults.warm import Warm
from tests.vendor import Vendor, serving, tools

TAKEN_UP_WITHIN = 60


def storm(field: Field) -> None:
    worker = Warm(field.environment, Path(field.directory) / "warm.log")
    try:
        with serving(Vendor(tools(25))) as vendor:
            rounds = KillRounds(worker, vendor, field.random)
            for number in range(field.times(short=10, long=200)):
                play(field, rounds, f"round {number}")
            field.figure("killed in the middle", rounds.killed)
            for number in range(field.times(short=1, long=10)):
                for _, point in KILLED:
                    before = rounds.killed
                    play(field, rounds, f"{point}, round {number}", point)
                    field.expect(rounds.killed == before + 1, f"round {number}: no process died at {point}")
    finally:
        worker.stop()


def play(field: Field, rounds: KillRounds, which: str, point: str = "") -> None:
    """The lease is made to end at once; a real one adds the rest of its 30 seconds."""
    kind = "worker killed at a named point" if point else "worker killed at any moment"
    field.fault(kind, which, recovery=rounds.play(point), limit=TAKEN_UP_WITHIN)
    if wrong := rounds.wrong():
        field.violation(f"{which}: {wrong}")
