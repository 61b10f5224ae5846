"""Child processes that share the memory of the code that this process has loaded.

The code of the product takes more than a hundred megabytes and seconds to import. This process imports it
once; each child is a fork of it, which has memory of its own only for what it writes.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import TimeoutExpired
from typing import cast

import celery.__main__
import django
from django.urls import reverse
from gunicorn.app import wsgiapp

from core.forked_memory import freeze_memory
from pegboard import forked_settings, startup_checks
from pegboard.celery import app, import_task_modules
from pegboard.local.processes import die_with_parent, open_log

PR_SET_NAME = 15
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_SECONDS = 0.02
# A program by its name in `python -m`. It reads sys.argv.
PROGRAMS: dict[str, Callable[[], None]] = {
    "celery": celery.__main__.main,
    "demo": lambda: import_module("demo.__main__").main(),  # most products run without it
    "gunicorn": wsgiapp.run,
}
# Modules that these programs import when they start.
STARTED_MODULES = (
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.contrib.django.task",
    "celery.events.receiver",
    "celery.worker.autoscale",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "billiard.popen_fork",
    "billiard.sharedctypes",
    "gunicorn.arbiter",
    "kombu.transport.redis",
    "pegboard.autoscaler",
    "pegboard.beat",
    "pegboard.web.buffering_worker",
)


def load_product() -> None:
    """Import what pages and workers need, and check their settings. Raises SystemExit with the problem.

    The environment has to be complete, because this reads the settings, and the database migrated.
    """
    django.setup()
    import_task_modules()  # also runs Django's checks, which read all models
    app.finalize()
    reverse("healthz")  # imports all views
    for name in STARTED_MODULES:
        import_module(name)
    from catalog.search import job_words, word_lists  # noqa: PLC0415 - models are loaded by now

    # Or web processes and workers would each read them for themselves.
    word_lists.load()
    job_words.shipped_job_words()
    startup_checks.refuse_with_problems()
    startup_checks.has_passed = True
    freeze_memory()


class ForkedProcess:
    """A child of this process, with the part of `subprocess.Popen` that services use."""

    def __init__(self, process: BaseProcess) -> None:
        self.pid = cast("int", process.pid)  # it has been started
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raises TimeoutExpired."""
        # `join` with a time-out waits for a pipe, which is open until the child's own children have ended.
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutExpired(self._process.name, timeout or 0.0)
            time.sleep(POLL_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_program(
    name: str, command: Sequence[str], *, log: Path, env: dict[str, str], pass_fds: Sequence[int] = ()
) -> ForkedProcess:
    """Run a program of PROGRAMS with its arguments in a child, in a session of its own, writing to `log`."""
    parent = os.getpid()
    with open_log(log) as output:

        def run() -> None:
            os.setsid()
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            # `ps -o comm` and `top` show it. The command line remains that of the parent.
            ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
            die_with_parent(parent, signal.SIGTERM)
            for target in (1, 2):
                os.dup2(output.fileno(), target)
            # The lock of the data directory and the sockets of other children would stay open otherwise.
            for descriptor in map(int, os.listdir("/proc/self/fd")):
                if descriptor > 2 and descriptor not in pass_fds:
                    with suppress(OSError):  # the directory's own, closed by now
                        os.close(descriptor)
            os.environ.clear()
            os.environ.update(env)
            os.environ["CELERY_SKIP_CHECKS"] = "1"  # `load_product` has run them
            forked_settings.read_again()
            sys.argv = list(command)
            PROGRAMS[command[0]]()

        # A signal that comes before the child has dropped this process's handlers would be handled twice.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            process = multiprocessing.get_context("fork").Process(target=run, name=name)
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return ForkedProcess(process)
