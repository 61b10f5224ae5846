"""The memory of an idle `make run`, with the demo vendors and without.

It is the sum of the proportional set sizes (PSS) of `manage.py up` and of all its descendants, PostgreSQL and
Valkey included: a page of memory that several processes share counts once. The product starts in an empty
directory and is left alone for three minutes; the figure is the largest sum of the last minute.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.frame import Figure

ROOT = Path(__file__).resolve().parent.parent
SETTLING_SECONDS = 120.0
MEASURED_SECONDS = 60.0
INTERVAL = 5.0
MAX_MB = {"1": 700, "0": 450}  # by DEMO
NAMES = {"1": "idle make run", "0": "idle make run DEMO=0"}


def main() -> Iterator[Figure]:
    for demo, name in NAMES.items():
        with running_product(demo) as product:
            time.sleep(SETTLING_SECONDS)
            megabytes = max(sizes(product))
        yield Figure(f"{name}, PSS", megabytes, "MB", target=MAX_MB[demo], less_is_better=True)


def sizes(product: psutil.Process) -> Iterator[float]:
    """Yield the megabytes of the process tree, every few seconds."""
    ends = time.monotonic() + MEASURED_SECONDS
    while time.monotonic() < ends:
        yield sum(map(pss, [product, *product.children(recursive=True)])) / 1_000_000
        time.sleep(INTERVAL)


def pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.ZombieProcess):  # it has ended meanwhile
        return 0


@contextmanager
def running_product(demo: str) -> Iterator[psutil.Process]:
    """Start the product, wait until it is ready, and stop it at the end."""
    # The variables of the benchmarks name their own server.
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DATABASE_URL", "REDIS_URL", "DJANGO_", "PEGBOARD_"))
    }
    with tempfile.TemporaryDirectory(prefix="pegboard-bench-", dir="/var/tmp") as data:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(free_port()), "--data", data],
            cwd=ROOT,
            env=variables | {"DEMO": demo},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            output = process.stdout or ()
            if not any(line.startswith("ready: ") for line in output):
                raise RuntimeError("the product does not start")
            yield psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
