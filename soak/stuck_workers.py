"""A pool process is killed while it holds a lock of its pool, so that its worker can take no more work.

The worker's watchdog ends it, its supervisor starts another, and the runs that waited succeed. The first
worker's watchdog looks as often as it is shipped.
"""

import signal
import time
from contextlib import ExitStack

from pegboard import watchdog
from pegboard.local.processes import Service, Supervisor
from soak.frame import Field
from tests.faults.stand import NO_LIMITS, Stand, wait_for
from tests.faults.stuck import start_once_stuck
from tests.vendor import Vendor, serving, tools

VENDORS = 4
# The watchdog counts its intervals; on a busy machine each lasts longer. Then a worker starts.
RESTARTED_WITHIN = 2 * watchdog.INTERVAL * watchdog.MAX_SILENT_INTERVALS
DONE_WITHIN = RESTARTED_WITHIN + 60.0


def storm(field: Field) -> None:
    stand = Stand(field.servers, field.environment | NO_LIMITS, field.directory)
    try:
        with ExitStack() as stack:
            stand.vendor = stack.enter_context(serving(Vendor(tools(25))))
            stand.set_up()
            others = [stack.enter_context(serving(Vendor(tools(25)))) for _ in range(VENDORS)]
            endpoints = [stand.warm.do("connect", vendor.url) for vendor in others]
            stand.begin_web()
            wait_for(lambda: stand.ask("/healthz").status == 200, 60, "the first page")
            stand.begin_beat()
            for number in range(field.times(short=1, long=2)):
                lose_a_lock(field, stand, endpoints, number)
    finally:
        stand.stop()


def lose_a_lock(field: Field, stand: Stand, endpoints: list[int], number: int) -> None:
    reports: list[str] = []
    supervisor = Supervisor(reports.append)
    try:
        service = supervisor.add(Service("worker", start_once_stuck(stand, interval=watchdog.INTERVAL)))
        began = time.monotonic()
        runs = [request(stand, endpoint) for endpoint in endpoints]
        wait_for(service.has_ended, 2 * RESTARTED_WITHIN, "the end of the worker that is stuck")
        detail = f"round {number}, {len(runs)} runs"
        field.fault(
            "pool process killed with its lock",
            detail,
            recovery=time.monotonic() - began,
            limit=RESTARTED_WITHIN,
        )
        killed = service.process is not None and service.process.returncode == -signal.SIGKILL
        field.expect(killed, f"round {number}: the watchdog did not end the worker")
        supervisor.check()
        wait_for(lambda: has_succeeded(stand, runs), DONE_WITHIN, "the runs that waited")
        field.fault("worker stuck", detail, recovery=time.monotonic() - began, limit=DONE_WITHIN)
        supervisor.check()
        field.expect(len(reports) == 1, f"round {number}: the supervisor reported {reports}")
    finally:
        supervisor.stop()


def request(stand: Stand, endpoint: int) -> int:
    run: int = stand.ask(f"/api/v1/endpoints/{endpoint}/enumerate/", {}).json()["run"]
    return run


def has_succeeded(stand: Stand, runs: list[int]) -> bool:
    done = "SELECT count(*) FROM catalog_run WHERE id = ANY(%s) AND status = 'succeeded'"
    return stand.query(done, runs) == [(len(runs),)]
