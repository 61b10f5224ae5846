"""A pool process is killed while it holds a lock of its pool; what supervises the worker starts it again."""

import os
import signal

import pytest

from pegboard.local.processes import Service, Supervisor, spawn
from tests.faults.stand import wait_for
from tests.faults.stuck import start_once_stuck
from tests.faults.test_servers import BROKER_BACK, request, wait_for_success

pytestmark = pytest.mark.faults

INTERVAL = 0.2


def test_a_worker_whose_pool_process_is_killed_with_its_lock_is_started_again(stand):
    reports: list[str] = []
    supervisor = Supervisor(reports.append)
    try:
        service = supervisor.add(Service("worker", start_once_stuck(stand, interval=INTERVAL)))
        stuck = service.process.pid
        run = request(stand)
        wait_for(service.has_ended, 60, "the end of the worker that is stuck")
        assert service.process.returncode == -signal.SIGKILL
        assert "can take no more work" in stand.log("worker")
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
