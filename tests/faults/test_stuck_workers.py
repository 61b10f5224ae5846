"""A pool process is killed while it holds a lock of its pool; what supervises the worker starts it again."""

import os
import signal
import sys

import pytest

from pegboard.local.processes import Service, Supervisor, spawn
from pegboard.local.product import WORKER
from tests.faults.stand import ROOT, wait_for
from tests.faults.test_servers import BROKER_BACK, request, wait_for_success

pytestmark = pytest.mark.faults

# The main process acquires the lock for each result, and its pool process reads its counter under it.
KILLED_WITH_THE_LOCK = """
import os
import sys
from billiard import pool, queues
from pegboard import watchdog
from pegboard.celery import app

watchdog.INTERVAL = 0.2
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


def test_a_worker_whose_pool_process_is_killed_with_its_lock_is_started_again(stand):
    commands = [["-c", KILLED_WITH_THE_LOCK, *ARGUMENTS]]
    log = stand.directory / "worker.log"
    reports: list[str] = []

    def start():
        command = commands.pop() if commands else ["-m", *WORKER]
        return spawn([sys.executable, *command], log=log, env=stand.over_the_lines, cwd=ROOT)

    supervisor = Supervisor(reports.append)
    try:
        service = supervisor.add(Service("worker", start))
        stuck = service.process.pid
        run = request(stand)
        wait_for(service.has_ended, 60, "the end of the worker that is stuck")
        assert service.process.returncode == -signal.SIGKILL
        assert "can take no more work" in log.read_text()
        supervisor.check()
        assert service.process.pid != stuck
        wait_for_success(stand, run, BROKER_BACK, "the run")
        assert reports == ["worker was killed by SIGKILL; starting it again now"]
    finally:
        supervisor.stop()


def test_a_child_that_does_not_touch_its_file_is_killed_and_started_again(tmp_path):
    heartbeat_file = tmp_path / "sleeper.ready"
    reports: list[str] = []

    def start():
        return spawn(["sleep", "60"], log=tmp_path / "log", env=dict(os.environ), cwd="/")

    supervisor = Supervisor(reports.append)
    service = supervisor.add(Service("sleeper", start, heartbeat_file=heartbeat_file))
    try:
        service.MAX_SILENT_SECONDS = 0.0
        silent = service.process.pid
        supervisor.check()  # not ready yet
        for seconds in (1, 2, 3):
            heartbeat_file.touch()
            os.utime(heartbeat_file, (seconds, seconds))
            supervisor.check()
        assert not reports
        supervisor.check()
        assert reports[0] == "sleeper does not answer"
        assert service.process.pid != silent
    finally:
        supervisor.stop()
