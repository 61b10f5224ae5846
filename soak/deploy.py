"""Every process is told to end in the middle of ten readings, and its successor takes over."""

import threading
import time

from soak.frame import Field
from tests.faults.stand import Stand, wait_for
from tests.vendor import Vendor, serving, tools

READINGS = 10
SOFT_SHUTDOWN, BACK = 30, 60


def storm(field: Field) -> None:
    stand = Stand(field.servers, field.environment, field.directory)
    try:
        with serving(Vendor(tools(25))) as stand.vendor:
            stand.found()
            for number in range(field.times(short=1, long=3)):
                deploy(field, stand, number)
    finally:
        stand.stop()


def deploy(field: Field, stand: Stand, number: int) -> None:
    answers: list[int] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.02):
            answers.append(stand.ask("/api/v1/tools/?q=thing").status)

    stand.begin_web()
    wait_for(lambda: stand.ask("/healthz").status == 200, 60, "the first page")
    stand.begin_worker()
    stand.begin_beat()
    fresh = [Vendor(tools(40)) for _ in range(READINGS)]
    for vendor in fresh:
        vendor.script = lambda page, document: time.sleep(0.7)
    reader = threading.Thread(target=read)
    served = [serving(vendor) for vendor in fresh]
    for vendor in served:
        vendor.__enter__()
    try:
        runs = [stand.warm.do("request", stand.warm.do("add", vendor.url), stand.ada) for vendor in fresh]
        wait_for(
            lambda: stand.query("SELECT count(*) FROM catalog_run WHERE status = 'running'") != [(0,)], 60
        )
        reader.start()
        began = time.monotonic()
        for name in ("web", "worker", "beat"):
            stand.end(name, patience=SOFT_SHUTDOWN + 10)
            if name == "web":
                stand.begin_web()
        ended = time.monotonic() - began
        field.fault("told to end", f"round {number}", recovery=ended, limit=SOFT_SHUTDOWN)
        stand.begin_worker()
        stand.begin_beat()
        done = "SELECT count(*) FROM catalog_run WHERE id = ANY(%s) AND status = 'succeeded'"
        wait_for(lambda: stand.query(done, runs) == [(READINGS,)], 180, "ten readings")
        field.fault(
            "replaced", f"round {number}", recovery=time.monotonic() - began, limit=BACK + SOFT_SHUTDOWN
        )
    finally:
        over.set()
        if reader.is_alive():
            reader.join()
        for name in ("worker", "beat", "web"):
            stand.end(name)
        for vendor in served:
            vendor.__exit__(None, None, None)
    field.expect(set(answers) == {200}, f"round {number}: answers {set(answers)}")
    field.figure(f"answers in round {number}", len(answers))
