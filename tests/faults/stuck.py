"""A worker of which one pool process dies while it holds a lock of its pool, at its first result."""

import sys
from collections.abc import Callable

from pegboard.local.processes import ChildProcess, spawn
from pegboard.process_commands import WORKER
from tests.faults.stand import ROOT, Stand

# The main process acquires the lock for each result, and its pool process reads its counter under it.
KILLED_WITH_THE_LOCK = """
import os
import sys
from billiard import pool, queues
from pegboard import watchdog
from pegboard.celery import app

watchdog.INTERVAL = {interval}
put = queues._SimpleQueue.put
after_fork = pool.Worker.after_fork

def put_and_die(self, message):
    put(self, message)
    if message[0] == pool.READY:
        os.kill(os.getpid(), 9)

def acquire(self):
    after_fork(self)
    self.on_ready_counter.get_lock().acquire()
    queues._SimpleQueue.put = put_and_die

pool.Worker.after_fork = acquire
app.worker_main(sys.argv[1:])
"""
ARGUMENTS = WORKER[WORKER.index("worker") :]


def start_once_stuck(stand: Stand, *, interval: float) -> Callable[[], ChildProcess]:
    """Return how a supervisor starts the worker: the first gets stuck, the others are as shipped.

    interval: seconds between two looks of the first worker's watchdog.
    """
    commands = [["-c", KILLED_WITH_THE_LOCK.format(interval=interval), *ARGUMENTS]]

    def start() -> ChildProcess:
        command = commands.pop() if commands else ["-m", *WORKER]
        log = stand.directory / "worker.log"
        return spawn([sys.executable, *command], log=log, env=stand.over_the_lines, cwd=ROOT)

    return start
