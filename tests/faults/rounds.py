"""One round of a fault at a random moment. The caller decides how often, and passes the random generator."""

import time
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from django.utils import timezone

from catalog.enumeration import runs as enumeration_runs
from catalog.enumeration import schedule
from catalog.models import Endpoint, Run, Tool
from catalog.models.runs import Trigger
from tests.factories import make_endpoint
from tests.faults import tally
from tests.faults.catalog import housekeeping, let_the_lease_run_out
from tests.faults.warm import Child, Warm
from tests.vendor import Vendor, tool

# Number in the design, failpoint in our code. 4 to 6 are those of an OAuth token.
KILLED = [
    (2, "received"),
    (3, "claimed"),
    (9, "page:2"),
    (10, "staging"),
    (11, "compare:2"),
    (12, "staged"),
    (14, "record-locked"),
    (15, "record-versions"),
    (16, "record-withdrawn"),
    (17, "record-findings"),
    (18, "record-commit"),
    (19, "recorded"),
    (13, "inspecting"),
    (13, "inspected"),
    (21, "done"),
]


@dataclass
class KillRounds:
    """A vendor that changes every round, and a worker that is killed while it reads it.

    `longest` is in seconds: a little more than a reading takes here, so that some end before they are killed.
    """

    worker: Warm
    vendor: Vendor
    random: Random
    max_seconds: float = field(init=False)
    endpoint: Endpoint = field(init=False)
    versions: dict[int, int] = field(init=False)
    killed: int = 0

    def __post_init__(self) -> None:
        self.endpoint = make_endpoint(url=self.vendor.url)
        self.versions = dict.fromkeys(range(1, 26), 1)
        self._publish()
        run = enumeration_runs.request_run(self.endpoint, trigger=Trigger.COMMAND)
        began = time.monotonic()
        self.worker.do("task", run.pk)
        self.max_seconds = 1.2 * (time.monotonic() - began)

    def _publish(self) -> None:
        self.vendor.listed = [
            tool(number, version, description=f"Does thing {number} in way {version}.")
            for number, version in sorted(self.versions.items())
        ]

    def _change(self) -> None:
        for number in self.random.sample(sorted(self.versions), 3):
            self.versions[number] += 1
        del self.versions[self.random.choice(sorted(self.versions))]
        self.versions[max(self.versions) + 1] = 1
        self._publish()

    def play(self, point: str = "") -> float:
        """Kill the run at this point, or at any moment; return the seconds from the kill to its end.

        Every other run counts as a long one, which leaves its replies to the next. Errors afterwards are
        found by `wrong`.
        """
        self._change()
        run = enumeration_runs.request_run(self.endpoint, trigger=Trigger.COMMAND)
        deed = self.random.choice(("task", "long_task"))
        child = self.worker.start(deed, run.pk, crash=point)
        if not point:
            time.sleep(self.random.uniform(0, self.max_seconds))
            child.kill()
        self.killed += child.wait().status < 0
        began = time.monotonic()
        let_the_lease_run_out()
        schedule.tick()
        children = [self.worker.start("task", run.pk) for _ in range(2)]
        for process in children:
            process.wait()
        housekeeping()
        took = time.monotonic() - began
        tally.recovery("worker killed", took)
        return took

    def wrong(self) -> str:
        """Return the differences from the vendor's list; empty when there are none."""
        rows = Tool.objects.filter(endpoint=self.endpoint, status="active")
        current_versions = dict(rows.values_list("name", "current__label"))
        listed_versions = {f"tool_{number}": str(version) for number, version in self.versions.items()}
        active = Run.objects.filter(endpoint=self.endpoint, status__in=("queued", "running")).count()
        if current_versions == listed_versions and not active:
            return ""
        differences = sorted(current_versions.items() ^ listed_versions.items())
        return f"{active} active runs; these differ: {differences[:6]}"


def claim(worker: Warm, vendor: Vendor, *, claimers: int, rounds: int) -> int:
    """Let so many processes try the same runs at once; return the number of listings requested of the
    vendor.
    """
    vendor.page_size = 100
    runs = []
    for _ in range(rounds):
        endpoint = make_endpoint(url=vendor.url, next_due_at=timezone.now() + timedelta(hours=9))
        runs.append(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    vendor.requests.clear()
    moment = time.monotonic() + 0.15
    _finish([worker.start("perform_at", moment, runs) for _ in range(claimers)])
    assert Run.objects.filter(pk__in=runs, status="succeeded", attempt=1).count() == rounds
    return len(vendor.requests)


def tick_together(worker: Warm, days: tuple[int, ...], *, endpoints: int, is_late: bool = False) -> list[int]:
    """Schedulers with clocks so many days off tick at once; how many runs each due endpoint got."""
    ago = timedelta(hours=3) if is_late else timezone.timedelta(seconds=1)
    due = [make_endpoint(next_due_at=timezone.now() - ago) for _ in range(endpoints)]
    moment = time.monotonic() + 0.15
    _finish([worker.start("tick_at", moment, 5, day) for day in days])
    return [endpoint.runs.count() for endpoint in due]


def _finish(children: list[Child]) -> None:
    assert {child.wait().status for child in children} == {0}
