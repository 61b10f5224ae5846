"""Schedulers and workers live in other times than the database: a day ahead or behind, leaping, stopped."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from django.db.models import F
from django.db.models.functions import Now

from catalog.models import Endpoint, Run, Tool
from soak.frame import Field
from tests.factories import make_endpoint
from tests.faults.stand import NO_LIMITS, Stand, wait_for
from tests.vendor import Vendor, serving, tools

ENDPOINTS, PROCESSES = 12, 4
TAKEN_UP_WITHIN = 60
TWO_ROUNDS = 22  # seconds in which every scheduler and every worker looks around twice
AWAY = timedelta(hours=3)
INTERVAL = timedelta(hours=1)
RIGHT, AHEAD, BEHIND = "+0", "+1d", "-1d"
SUMMER_BEGINS, SUMMER_ENDS = "@2027-03-28 01:59:50", "@2027-10-31 02:59:50"
SKEW = timedelta(minutes=5)
# Python sleeps until a moment of the monotonic clock, which libfaketime 0.9.10 takes for one of its own.
SLEEP = """
import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""


@dataclass(frozen=True)
class Clocks:
    """Of each scheduler and each worker; the database keeps the right time."""

    schedulers: tuple[str, ...]
    workers: tuple[str, ...]

    def __str__(self) -> str:
        return f"schedulers {', '.join(self.schedulers) or 'none'}; workers {', '.join(self.workers)}"


SETS = (
    Clocks((RIGHT, AHEAD, BEHIND), (RIGHT,)),
    Clocks((AHEAD,), (AHEAD,)),
    Clocks((BEHIND,), (BEHIND,)),
    Clocks((RIGHT, RIGHT), (AHEAD, BEHIND)),
    Clocks((AHEAD, BEHIND), (BEHIND, AHEAD)),
    Clocks((SUMMER_BEGINS, SUMMER_ENDS), (SUMMER_ENDS,)),
    Clocks((), (AHEAD, BEHIND)),
)


def storm(field: Field) -> None:
    library = find_faketime_library()
    if not library:
        field.skip(
            "it moves clocks with the program faketime, which is not here (Debian: apt-get install faketime)"
        )
        return
    stand = Stand(field.servers, field.environment | NO_LIMITS, field.directory)
    try:
        with serving(Vendor(tools(10))) as vendor:
            later = {"next_due_at": Now() + timedelta(days=9)}
            endpoints = [make_endpoint(url=vendor.url) for _ in range(ENDPOINTS)]
            Endpoint.objects.update(**later)
            for clocks in SETS[: field.times(short=1, long=len(SETS))]:
                live(field, stand, library, clocks, endpoints)
            stop_for_hours(field, stand, library, endpoints)
            for leaps in ((AHEAD, RIGHT), (BEHIND, RIGHT), ("+3h", AHEAD, BEHIND))[
                : field.times(short=1, long=3)
            ]:
                leap(field, stand, library, leaps, endpoints)
    finally:
        stand.stop()


def find_faketime_library() -> str:
    """Return the library for LD_PRELOAD; empty if the program is missing."""
    if not shutil.which("faketime"):
        return ""
    completed = subprocess.run(
        ["faketime", "-m", "-f", "+0", "env"], capture_output=True, text=True, check=True
    )
    match = re.search(r"^LD_PRELOAD=(.+)$", completed.stdout, re.MULTILINE)
    return match[1] if match else ""


def moved_clock_variables(stand: Stand, library: str, clock: str) -> dict[str, str]:
    """Variables for a process in another time. Its monotonic clock continues, as a real one does."""
    (stand.directory / "sitecustomize.py").write_text(SLEEP)
    return {
        "PYTHONPATH": str(stand.directory),
        "LD_PRELOAD": library,
        "FAKETIME": clock,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "TZ": "Europe/Berlin",
    }


def begin(stand: Stand, library: str, clocks: Clocks) -> None:
    """Start all processes, and wait until each has written its ready file."""
    ready = [stand.directory / f"{n}.ready" for n in range(len(clocks.schedulers) + len(clocks.workers))]
    for ready_file in ready:
        ready_file.unlink(missing_ok=True)
    files = iter(ready)
    for number, clock in enumerate(clocks.schedulers):
        ready_variable = {"PEGBOARD_READY_FILE": str(next(files))}
        stand.begin_beat(f"beat-{number}", **ready_variable, **moved_clock_variables(stand, library, clock))
    for number, clock in enumerate(clocks.workers):
        ready_variable = {"PEGBOARD_READY_FILE": str(next(files))}
        stand.begin_worker(
            f"worker-{number}",
            processes=PROCESSES,
            **ready_variable,
            **moved_clock_variables(stand, library, clock),
        )
    wait_for(lambda: all(ready_file.exists() for ready_file in ready), 120, f"the start of {clocks}")


def end(stand: Stand) -> None:
    for name in list(stand.processes):
        stand.end(name)


def live(field: Field, stand: Stand, library: str, clocks: Clocks, endpoints: Sequence[Endpoint]) -> None:
    begin(stand, library, clocks)
    started = time.time()
    seconds = read_all(field, endpoints, str(clocks))
    field.fault("clocks moved", str(clocks), recovery=seconds, limit=TAKEN_UP_WITHIN)
    check_times(field, str(clocks), timedelta(seconds=time.time() - started))
    end(stand)


def read_all(field: Field, endpoints: Sequence[Endpoint], which: str, ago: timedelta = timedelta()) -> float:
    """All come due at this moment, or did a while ago: each is read once, and then not again."""
    newest = Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    Endpoint.objects.update(next_due_at=Now() - ago)
    since = Run.objects.filter(pk__gt=newest)
    good = since.filter(status="succeeded")
    seconds = wait_for(lambda: good.count() >= len(endpoints), 180, f"{which}: a run for each endpoint")
    time.sleep(TWO_ROUNDS)
    counts = [since.filter(endpoint=endpoint).count() for endpoint in endpoints]
    field.expect(counts == [1] * len(endpoints), f"{which}: runs of each endpoint: {counts}")
    due = Endpoint.objects.filter(next_due_at__gt=Now(), next_due_at__lt=Now() + 2 * INTERVAL).count()
    field.expect(due == len(endpoints), f"{which}: {len(endpoints) - due} are not due within two hours")
    return seconds


def check_times(field: Field, which: str, age: timedelta) -> None:
    """Check the times that workers stored against the clock of the database."""
    newest = Run.objects.order_by("-pk")[:ENDPOINTS]
    recent = Run.objects.filter(pk__in=[run.pk for run in newest])
    for name in ("queued_at", "started_at", "finished_at"):
        wrong = recent.exclude(**{f"{name}__range": (Now() - age - SKEW, Now() + SKEW)})
        field.expect(not wrong.exists(), f"{which}: {wrong.count()} runs with a wrong {name}")
    backwards = recent.filter(finished_at__lt=F("started_at")).count()
    field.expect(backwards == 0, f"{which}: {backwards} runs ended before they began")
    future = Tool.objects.filter(changed_at__gt=Now() + SKEW).count()
    field.expect(future == 0, f"{which}: {future} tools changed in the future")


def stop_for_hours(field: Field, stand: Stand, library: str, endpoints: Sequence[Endpoint]) -> None:
    """No process looked for three hours: each is read once, and the next readings do not come all at once."""
    begin(stand, library, Clocks((RIGHT, AHEAD), (RIGHT,)))
    seconds = read_all(field, endpoints, "after three hours", AWAY)
    field.fault("no process looked for three hours", recovery=seconds, limit=TAKEN_UP_WITHIN)
    due = sorted(Endpoint.objects.values_list("next_due_at", flat=True))
    widest = max(later - earlier for earlier, later in pairwise(due))
    field.expect(due[-1] - due[0] > INTERVAL / 3, f"the next readings lie within {due[-1] - due[0]}")
    field.figure("the next readings are spread over", f"{due[-1] - due[0]}, the widest gap is {widest}")
    end(stand)


def leap(
    field: Field, stand: Stand, library: str, leaps: Sequence[str], endpoints: Sequence[Endpoint]
) -> None:
    """The clocks of a running scheduler and a running worker are set, more than once."""
    clock = stand.directory / "clock"
    clock.write_text(RIGHT)
    variables = moved_clock_variables(stand, library, "") | {
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
    }
    del variables["FAKETIME"]
    stand.begin_beat("beat", **variables)
    stand.begin_worker("worker", processes=PROCESSES, **variables)
    read_all(field, endpoints, "before the leap")
    for to in leaps:
        fresh = clock.with_suffix(".new")
        fresh.write_text(to)
        os.replace(fresh, clock)
        time.sleep(2)
        seconds = read_all(field, endpoints, f"after a leap to {to}")
        field.fault("clocks leapt", f"to {to}", recovery=seconds, limit=TAKEN_UP_WITHIN)
    end(stand)
