"""Four vendors of twenty hang, each in its own way: the other sixteen are read almost as if none did.

With the workers as they are shipped. Rounds take turns, so that whatever else the machine does meets all
kinds alike: the sixteen alone, with four that hang for the first time, alone again, and with the four known
to hang. Medians are compared; the smallest and the largest are printed beside them.
"""

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Run
from catalog.models.runs import ACTIVE, Trigger
from pegboard.process_commands import SLOW, WORKER
from soak.frame import Field, wait_for
from tests.factories import make_endpoint
from tests.hostile_vendor import BEHAVIOURS, HostileVendor
from tests.vendor import Vendor, serving, tools

GOOD, MAY_DELAY = 16, 1.5
HANGS = ("accepts and is silent", "drips its headers", "drips its body", "sends endless interim replies")
KINDS = {"hang for the first time": "", "hang again": "IDLE"}
PAGE_SECONDS = 0.05
MIN_PAGES = 5


def storm(field: Field) -> None:
    with ExitStack() as stack:
        good = [_endpoint(stack.enter_context(serving(_vendor(number))).url) for number in range(GOOD)]
        bad = [
            _endpoint(stack.enter_context(HostileVendor(BEHAVIOURS[behaviour])).url) for behaviour in HANGS
        ]
        workers = {
            name: _worker(field, command) for name, command in {"worker": WORKER, "slow": SLOW}.items()
        }
        for worker in workers.values():
            stack.callback(worker.wait, 30)
            stack.callback(worker.terminate)
        _round(good, [])  # the worker's processes have started, and every list is known
        took: dict[str, list[float]] = {"alone": [], **{kind: [] for kind in KINDS}}
        for _ in range(field.times(short=3, long=9)):
            for kind, code in KINDS.items():
                took["alone"].append(_round(good, []))
                took[kind].append(_time_with_hanging(good, bad, code))
                for behaviour in HANGS:
                    field.fault(kind, behaviour)
        for name, worker in workers.items():
            field.figure(f"memory of {name}, MB", _proportional_memory(worker.pid))
        _compare(field, took)


def _compare(field: Field, took: dict[str, list[float]]) -> None:
    alone = statistics.median(took["alone"])
    field.figure("sixteen alone, s", _spread(took["alone"]))
    for kind in KINDS:
        ratio = statistics.median(took[kind]) / alone
        field.figure(f"sixteen beside four that {kind}, s", _spread(took[kind]))
        field.figure(f"ratio where they {kind}", round(ratio, 2))
        field.expect(ratio <= MAY_DELAY, f"{kind}: the others took {ratio:.2f} times as long")


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f}, n={len(seconds)})"


def _time_with_hanging(good: Sequence[Endpoint], bad: Sequence[Endpoint], code: str) -> float:
    """`code` is what the bad ones ended in last time. Waits until they are given up this time."""
    hanging_rows = Endpoint.objects.filter(pk__in=[endpoint.pk for endpoint in bad])
    hanging_rows.update(error_code=code, failures=int(bool(code)))
    took = _round(good, bad)
    if wait_for(lambda: not _active(bad), 600) is None:
        raise TimeoutError("the vendors that hang were not given up within ten minutes")
    return took


def _proportional_memory(pid: int) -> int:
    """Of a process and its children, with what they share counted once."""
    tree = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    sizes = [Path(f"/proc/{process}/smaps_rollup").read_text() for process in tree]
    return sum(int(re.findall(r"^Pss: +(\d+)", text, re.MULTILINE)[0]) for text in sizes) // 1024


def _vendor(number: int) -> Vendor:
    """Each lists longer than the one before, so that the sixteen do not end in step."""

    def slowly(page: int, document: dict[str, Any]) -> None:
        time.sleep(PAGE_SECONDS)

    vendor = Vendor(tools(20 * (MIN_PAGES + number)), page_size=20)
    vendor.script = slowly
    return vendor


def _endpoint(url: str) -> Endpoint:
    return make_endpoint(url=url, requests_per_second=1_000, is_paused=True)


def _worker(field: Field, module: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", *module]
    with (Path(field.directory) / "worker.log").open("ab") as log:
        return subprocess.Popen(command, env=field.environment, stdout=log, stderr=log)


def _round(good: Sequence[Endpoint], bad: Sequence[Endpoint]) -> float:
    """Seconds until the last of the good ones was read; the bad ones were asked for first."""
    began = time.monotonic()
    for endpoint in (*bad, *good):
        enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    if wait_for(lambda: not _active(good), 300, pause=0.02) is None:
        raise TimeoutError("the good vendors were not read within five minutes")
    return time.monotonic() - began


def _active(endpoints: Sequence[Endpoint]) -> bool:
    return Run.objects.filter(endpoint__in=endpoints, status__in=ACTIVE).exists()
