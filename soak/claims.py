"""Two to eight workers claim the same runs at once; three schedulers with odd clocks start the same work."""

from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from catalog.models import Endpoint, Run
from soak.frame import Field
from tests.faults.rounds import claim, tick_together
from tests.faults.warm import Warm
from tests.vendor import Vendor, serving, tools

CLOCKS = ((0, 0, 0), (0, 1, -1), (1, 1, 1), (-1, -1, -1), (365, 0, -365))


def storm(field: Field) -> None:
    worker = Warm(field.environment, Path(field.directory) / "warm.log")
    try:
        with serving(Vendor(tools(10))) as vendor:
            for number in range(field.times(short=2, long=20)):
                claimers = field.random.randint(2, 8)
                listings = claim(worker, vendor, claimers=claimers, rounds=5)
                for _ in range(5):
                    field.fault("claimed at once", f"{claimers} workers")
                field.expect(listings == 5, f"round {number}: 5 runs were read {listings} times")
        for days in CLOCKS[: field.times(short=2, long=len(CLOCKS))]:
            for is_late in (False, True):
                started = tick_together(worker, days, endpoints=20, is_late=is_late)
                field.fault("clocks moved", f"by {days} days, {'late' if is_late else 'due'}")
                field.expect(started == [1] * 20, f"clocks {days}: runs for each endpoint: {started}")
                Run.objects.filter(status="queued").update(
                    status="failed", finished_at=timezone.now(), error_code="OVER"
                )
                Endpoint.objects.update(next_due_at=timezone.now() + timedelta(days=1))
    finally:
        worker.stop()
