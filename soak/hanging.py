"""Four vendors of twenty hang, each in its own way: the other sixteen are read almost as if none did.

With the worker as it is shipped, in three rounds: sixteen alone; with four that hang for the first time;
and with the four known to hang.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from catalog import enumeration
from catalog.models import Endpoint, Run
from catalog.models.runs import ACTIVE, Trigger
from pegboard.local import WORKER
from soak.frame import Field, wait_for
from tests.factories import make_endpoint
from tests.hostile_vendor import BEHAVIOURS, HostileVendor
from tests.vendor import Vendor, serving, tools

GOOD, MAY_DELAY = 16, 1.5
HANGS = ("accepts and is silent", "drips its headers", "drips its body", "sends endless interim replies")
PAGE_SECONDS = 0.05


def storm(field: Field) -> None:
    with ExitStack() as stack:
        good = [_endpoint(stack.enter_context(serving(_vendor())).url) for _ in range(GOOD)]
        bad = [_endpoint(stack.enter_context(HostileVendor(BEHAVIOURS[each])).url) for each in HANGS]
        worker = _worker(field)
        stack.callback(worker.wait, 30)
        stack.callback(worker.terminate)
        _round(good, [])  # the worker's processes have started, and every list is known
        rounds = field.times(short=2, long=5)
        alone = min(_round(good, []) for _ in range(rounds))
        field.figure("memory of the worker, MB", _proportional_memory(worker.pid))
        field.figure("sixteen alone, s", round(alone, 2))
        for name in ("hang for the first time", "hang again"):
            took = min(_beside(good, bad, is_known=name == "hang again") for _ in range(rounds))
            for each in HANGS * rounds:
                field.fault(name, each)
            ratio = took / alone
            field.figure(f"sixteen beside four that {name}, s", round(took, 2))
            field.figure(f"ratio where they {name}", round(ratio, 2))
            field.expect(ratio <= MAY_DELAY, f"{name}: the others took {ratio:.2f} times as long")


def _beside(good: Sequence[Endpoint], bad: Sequence[Endpoint], *, is_known: bool) -> float:
    """Waits first for what the round before has left, and makes the bad ones known or forgotten."""
    code = "IDLE" if is_known else ""
    Endpoint.objects.filter(pk__in=[each.pk for each in bad]).update(error_code=code, failures=int(is_known))
    took = _round(good, bad)
    if wait_for(lambda: not _active(bad), 600) is None:
        raise TimeoutError("the vendors that hang were not given up within ten minutes")
    return took


def _proportional_memory(pid: int) -> int:
    """Of a process and its children, with what they share counted once."""
    tree = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    sizes = [Path(f"/proc/{each}/smaps_rollup").read_text() for each in tree]
    return sum(int(re.findall(r"^Pss: +(\d+)", text, re.MULTILINE)[0]) for text in sizes) // 1024


def _vendor() -> Vendor:
    def slowly(number: int, page: dict[str, Any]) -> None:
        time.sleep(PAGE_SECONDS)

    vendor = Vendor(tools(200), page_size=20)
    vendor.script = slowly
    return vendor


def _endpoint(url: str) -> Endpoint:
    return make_endpoint(url=url, requests_per_second=1_000, is_paused=True)


def _worker(field: Field) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", *WORKER]
    with (Path(field.directory) / "worker.log").open("ab") as log:
        return subprocess.Popen(command, env=field.environment, stdout=log, stderr=log)


def _round(good: Sequence[Endpoint], bad: Sequence[Endpoint]) -> float:
    """Seconds until the last of the good ones was read; the bad ones were asked for first."""
    began = time.monotonic()
    for endpoint in (*bad, *good):
        enumeration.request_run(endpoint, trigger=Trigger.PERSON)
    if wait_for(lambda: not _active(good), 300, pause=0.02) is None:
        raise TimeoutError("the good vendors were not read within five minutes")
    return time.monotonic() - began


def _active(endpoints: Sequence[Endpoint]) -> bool:
    return Run.objects.filter(endpoint__in=endpoints, status__in=ACTIVE).exists()
