"""Ends a worker that can take no more work, so that its supervisor starts it again.

A pool process that is killed while it holds a lock of the pool leaves the worker's main process waiting for
that lock for ever: the process exists, and its tasks wait. A thread of the main process looks for this every
few seconds. While the broker is away the main loop waits for it; that is no reason to end the worker.
"""

import logging
import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any

from celery import bootsteps
from celery.worker import state

from core import redis_client

logger = logging.getLogger(__name__)

INTERVAL = 5.0  # seconds
# They are counted, because clocks jump and processes are suspended.
MAX_SILENT_INTERVALS = 12
# A busy machine may take a minute to start a process of the pool.
MAX_WAITING_INTERVALS = 36


class Watch:
    """The signs of life of one worker: its main loop calls `beat`, its watchdog thread `is_stuck`.

    capacity: how many tasks the pool runs at once.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.silent_intervals = 0
        self.connection_attempts = 0
        self.waiting_beats: dict[str, int] = {}  # by request id

    def beat(self, reserved_names: set[str], active: set[str]) -> None:
        """Note that the main loop runs; count the beats for which requests have waited for a free process."""
        self.silent_intervals = 0
        waiting = reserved_names - active if len(active) < self.capacity else set()
        self.waiting_beats = {request: self.waiting_beats.get(request, 0) + 1 for request in waiting}

    def is_stuck(self, *, broker_answers: bool, connection_attempts: int) -> bool:
        """Count an interval; return whether the main loop or the pool has not moved for too many."""
        is_connecting = connection_attempts != self.connection_attempts
        self.connection_attempts = connection_attempts
        self.silent_intervals = 0 if is_connecting or not broker_answers else self.silent_intervals + 1
        longest_wait = max(self.waiting_beats.values(), default=0)
        return self.silent_intervals > MAX_SILENT_INTERVALS or longest_wait > MAX_WAITING_INTERVALS


class Watchdog(bootsteps.StartStopStep):
    """Starts before the worker's consumer, which cancels later entries of the timer when it restarts."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    def __init__(self, worker: Any, **options: object) -> None:
        self.watch = Watch(worker.max_concurrency or worker.concurrency)

    def start(self, worker: Any) -> None:
        worker.timer.call_repeatedly(INTERVAL, self._beat)
        threading.Thread(target=self._end_when_stuck, args=[worker], name="watchdog", daemon=True).start()

    def stop(self, worker: Any) -> None:
        """Do nothing, because the thread ends with the process."""

    def _beat(self) -> None:
        reserved = {request.id for request in tuple(state.reserved_requests)}
        self.watch.beat(reserved, {request.id for request in tuple(state.active_requests)})

    def _end_when_stuck(self, worker: Any) -> None:
        while not self.watch.is_stuck(
            broker_answers=redis_client.is_up(), connection_attempts=worker.consumer.restart_count
        ):
            # It exists once the worker is ready. `manage.py up` and health checks look at its age.
            if path := os.environ.get("PEGBOARD_READY_FILE"):
                with suppress(FileNotFoundError):
                    os.utime(path)
            time.sleep(INTERVAL)
        if state.should_stop is not None or state.should_terminate is not None:
            return  # A worker that is stopping has a deadline of its own.
        logger.critical("this worker can take no more work; it ends, to be started again")
        os.kill(os.getpid(), signal.SIGKILL)  # its pool processes end with it
