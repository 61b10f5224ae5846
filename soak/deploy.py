"""Every process gets SIGTERM in the middle of ten readings, and its successor takes over."""

import threading
import time
from contextlib import ExitStack

from soak.frame import Field
from tests.faults.stand import Stand, wait_for
from tests.vendor import Vendor, serving, tools

READINGS = 10
SOFT_SHUTDOWN, BACK = 30, 60


def storm(field: Field) -> None:
    stand = Stand(field.servers, field.environment, field.directory)
    try:
        with serving(Vendor(tools(25))) as stand.vendor:
            stand.set_up()
            for number in range(field.times(short=1, long=3)):
                deploy(field, stand, number)
    finally:
        stand.stop()


def deploy(field: Field, stand: Stand, number: int) -> None:
    answers: list[int] = []
    over = threading.Event()

    def keep_reading() -> None:
        while not over.wait(0.02):
            answers.append(stand.ask("/api/v1/tools/?q=thing").status)

    stand.begin_web()
    wait_for(lambda: stand.ask("/healthz").status == 200, 60, "the first page")
    stand.begin_worker()
    stand.begin_beat()
    reader = threading.Thread(target=keep_reading)
    reader.start()
    try:
        with ExitStack() as served:
            vendors = [served.enter_context(serving(slow_vendor())) for _ in range(READINGS)]
            replace_everything(field, stand, vendors, number)
    finally:
        over.set()
        reader.join()
        for name in ("worker", "beat", "web"):
            stand.end(name)
    field.expect(set(answers) == {200}, f"round {number}: answers {set(answers)}")
    field.figure(f"answers in round {number}", len(answers))


def slow_vendor() -> Vendor:
    vendor = Vendor(tools(40))
    vendor.script = lambda page, document: time.sleep(0.7)
    return vendor


def replace_everything(field: Field, stand: Stand, vendors: list[Vendor], number: int) -> None:
    runs = [stand.warm.do("request", stand.warm.do("add", vendor.url), stand.ada) for vendor in vendors]
    wait_for(lambda: stand.query("SELECT count(*) FROM catalog_run WHERE status = 'running'") != [(0,)], 60)
    began = time.monotonic()
    stand.end("web", patience=SOFT_SHUTDOWN)
    stand.begin_web()
    for name in ("worker", "beat"):
        stand.end(name, patience=2 * SOFT_SHUTDOWN)
    field.fault("told to end", f"round {number}", recovery=time.monotonic() - began, limit=SOFT_SHUTDOWN)
    stand.begin_worker()
    stand.begin_beat()
    done = "SELECT count(*) FROM catalog_run WHERE id = ANY(%s) AND status = 'succeeded'"
    wait_for(lambda: stand.query(done, runs) == [(READINGS,)], 180, "ten readings")
    field.fault("replaced", f"round {number}", recovery=time.monotonic() - began, limit=BACK + SOFT_SHUTDOWN)
