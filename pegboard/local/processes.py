"""Child processes that never outlive us: started, watched, started again after a crash, stopped in order."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, BinaryIO, Protocol

PR_SET_PDEATHSIG = 1
LOG_LIMIT = 10_000_000


class StartError(Exception):
    """A child cannot be started. The message states the reason and what to do."""


def die_with_parent(parent: int, how: signal.Signals) -> None:
    """Ask the kernel for `how` when our parent dies, so that even `kill -9` of it leaves no orphan.

    Runs between fork and exec. Only Linux offers this; elsewhere the next start clears orphans away.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(how), 0, 0, 0)
    if os.getppid() != parent:  # it died before we could ask
        os.kill(os.getpid(), how)


def spawn(
    argv: list[str],
    *,
    log: Path,
    env: dict[str, str],
    cwd: Path | str,
    how_to_end: signal.Signals = signal.SIGTERM,
    become: Callable[[], None] | None = None,
    pass_fds: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start a child that writes to `log`, in a session of its own, so that Ctrl-C does not reach it."""
    parent = os.getpid()

    def before_exec() -> None:
        if become:
            become()
        die_with_parent(parent, how_to_end)

    with open_log(log) as output:
        return subprocess.Popen(  # noqa: S603 - every caller passes its own program
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=before_exec,
            pass_fds=pass_fds,
        )


def open_log(path: Path) -> BinaryIO:
    """Open a log to append to, and put a long one aside."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.replace(path.with_suffix(".old.log"))
    return path.open("ab")


class ChildProcess(Protocol):
    """The part of `subprocess.Popen` that services use."""

    pid: int

    @property
    def returncode(self) -> Any: ...  # None while it runs
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


@dataclass
class Service:
    """One child process.

    start: creates it. ask: the signal that makes it end by itself within `patience`.
    is_foundation: it outlives the services that need it.
    heartbeat_file: the child touches it every few seconds once it works; None for a child that does not.
    """

    name: str
    start: Callable[[], ChildProcess]
    ask: signal.Signals = signal.SIGTERM
    patience: float = 20.0
    is_foundation: bool = False
    process: ChildProcess | None = None
    started_at: float = 0.0
    start_again_at: float = 0.0
    crashes: int = 0
    heartbeat_file: Path | None = None
    last_heartbeat: float = 0.0
    last_look: float = 0.0
    silent_seconds: float = 0.0

    STABLE_AFTER = 60.0
    MAX_PAUSE_SECONDS = 30.0
    # A scheduler touches its file between two pieces of work; each may wait until statements time out.
    MAX_SILENT_SECONDS = 180.0

    def begin(self) -> None:
        self.process = self.start()
        self.started_at = time.monotonic()
        self.silent_seconds = 0.0

    def has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def is_silent(self) -> bool:
        """Return whether the child has not touched its heartbeat file for too long.

        At most a second between two looks counts, because both processes may have been suspended.
        """
        now = time.monotonic()
        elapsed, self.last_look = min(now - self.last_look, 1.0), now
        try:
            heartbeat = self.heartbeat_file.stat().st_mtime if self.heartbeat_file else 0.0
        except FileNotFoundError:  # not ready yet
            return False
        is_alive = self.heartbeat_file is None or heartbeat != self.last_heartbeat
        self.last_heartbeat = heartbeat
        self.silent_seconds = 0.0 if is_alive else self.silent_seconds + elapsed
        return self.silent_seconds > self.MAX_SILENT_SECONDS

    def kill(self) -> None:
        """Kill the child and the processes that it started."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def note_crash(self) -> float:
        """Plan the next start and return the pause before it, which doubles with each crash in a row."""
        now = time.monotonic()
        self.crashes = 1 if now - self.started_at > self.STABLE_AFTER else self.crashes + 1
        pause = 0.0 if self.crashes == 1 else min(2.0 ** (self.crashes - 2), self.MAX_PAUSE_SECONDS)
        self.process, self.start_again_at = None, now + pause
        return pause

    def is_due(self) -> bool:
        return self.process is None and time.monotonic() >= self.start_again_at

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.ask)

    def wait(self) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Supervisor:
    """Keeps services running. `say` prints to the terminal."""

    say: Callable[[str], None]
    services: list[Service] = field(default_factory=list)

    def add(self, service: Service) -> Service:
        service.begin()
        self.services.append(service)
        return service

    def check(self) -> None:
        """Restart processes that have ended or do not answer. Call often."""
        for service in self.services:
            if service.process is not None and not service.has_ended() and service.is_silent():
                self.say(f"{service.name} does not answer")
                service.kill()
            if service.process is not None and service.has_ended():
                ending = how_it_ended(service.process.returncode)
                pause = service.note_crash()
                when = f"in {pause:.0f} s" if pause else "now"
                self.say(f"{service.name} {ending}; starting it again {when}")
            if service.is_due():
                # A start may fail for lack of memory or while the predecessor ends, and work a moment later.
                try:
                    service.begin()
                except (OSError, SubprocessError, StartError) as error:
                    service.started_at = time.monotonic()
                    pause = service.note_crash()
                    self.say(f"{service.name} does not start ({error}); trying again in {pause:.0f} s")

    def stop(self) -> None:
        for is_foundation in (False, True):
            ending = [service for service in self.services if service.is_foundation is is_foundation]
            for service in ending:
                service.end()
            for service in ending:
                service.wait()
        self.services.clear()
