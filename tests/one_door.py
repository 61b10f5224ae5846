"""Fails the run for every connection out of the product that core/outbound/connection.py has not made.

A hook of the interpreter sees each connect and each lookup of a name, from any library. The caller is
read from the stack: the innermost line of this repository. Allowed are

- core/outbound/connection.py, the door, and that only outside of a transaction;
- the servers of this run, PostgreSQL and the broker, and files that are sockets; the mail server;
- the command line over REST, which runs where its user is, not where Pegboard is;
- tests and demo vendors, and the test runner itself: they are the other side.

A thread without a line of the repository in its stack (a library that calls home) is none of these, unless a
test declares it as its own: `with other_side()`. Child processes get the same hook from
tests/children/sitecustomize.py and report into a file.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

ROOT = f"{Path(__file__).resolve().parent.parent}{os.sep}"
REPORT = "PEGBOARD_ONE_DOOR"
EVENTS = {
    "socket.connect",
    "socket.sendto",
    "socket.sendmsg",
    "socket.getaddrinfo",
    "socket.gethostbyname",
}
DOOR = {("core/outbound/connection.py", "_dial_one"), ("core/outbound/connection.py", "system_resolver")}
# “make run” looks whether its own page answers.
ITSELF = {("pegboard/local/product.py", "_page_answers")}
# The deployment names its mail server, as it does its database: no person can lead it elsewhere.
MAIL_SERVER = {("core/mail_backend.py", "open")}
# The command line that a developer runs elsewhere: it asks the Pegboard that its user names.
CLIENT = {("pegboard/client.py", "request_bytes")}
OTHER_SIDE = ("tests/", "demo/", "benchmarks/")
NOT_OURS = (".venv/", ".data/", ".cache/")
NOT_ASKING = {"tests/one_door.py", "tests/children/sitecustomize.py", "tests/forked_python.py"}
# The code on a child process's command line was written by a test.
COMMAND_LINE = "<string>"
# Of a plug-in that pytest asks by itself.
RUNNER = "tests/ runner"

rules_broken: list[str] = []
_expected: list[list[str]] = []
_lent: list[bool] = []
_watching: list[bool] = []


class SecondDoorError(RuntimeError):
    """Raised in the caller, so that nothing leaves."""


def watch() -> None:
    """Once for each process; a hook cannot be taken out again."""
    if not _watching:
        _watching.append(True)
        sys.addaudithook(_look)


def judge() -> list[str]:
    """Return the violations since the last call, here and in child processes."""
    faults = rules_broken.copy()
    rules_broken.clear()
    report = Path(os.environ.get(REPORT, os.devnull))
    if report.is_file() and report.stat().st_size:
        faults += report.read_text().splitlines()
        report.write_text("")
    return faults


@contextmanager
def expected() -> Iterator[list[str]]:
    """Collect connections instead of failing the run, for tests of this module."""
    faults: list[str] = []
    _expected.append(faults)
    try:
        yield faults
    finally:
        _expected.remove(faults)
        faults += judge()


@contextmanager
def other_side() -> Iterator[None]:
    """Allow a test's own client, whose threads do not show to whom they belong."""
    _lent.append(True)
    try:
        yield
    finally:
        _lent.pop()


def _look(event: str, args: tuple[Any, ...]) -> None:
    if event in EVENTS and (fault := _fault(event, args, sys._getframe(1))):
        (_expected[-1] if _expected else rules_broken).append(fault)
        if _is_child():
            with open(os.environ[REPORT], "a") as report:
                report.write(fault + "\n")
        raise SecondDoorError(fault)


def _is_child() -> bool:
    return __name__ == "one_door_of_a_child"


def _fault(event: str, args: tuple[Any, ...], frame: FrameType) -> str:
    is_connection = not event.startswith("socket.get")
    if is_connection and args[0].family == getattr(socket, "AF_UNIX", None):
        return ""
    target = args[1] if is_connection else args[:2]
    if tuple(target[:2]) in _servers():
        return ""
    file, function = _asker(frame)
    if (file, function) in DOOR:
        return _fault_in_transaction(target) if event == "socket.connect" else ""
    if (
        (file, function) in ITSELF | MAIL_SERVER | CLIENT
        or file.startswith(OTHER_SIDE)
        or file == COMMAND_LINE
    ):
        return ""
    if not file and _lent:
        return ""
    who = f"{file}, {function}" if file else "A thread without a line of ours"
    return f"{who}: {event} to {target!r} went past core/outbound/connection.py, the only way out."


def _asker(frame: FrameType | None) -> tuple[str, str]:
    """The innermost line of this repository: file and function; of the test runner if there is none."""
    is_runner = False
    while frame is not None:
        path = frame.f_code.co_filename
        if path == COMMAND_LINE and _is_child():
            return COMMAND_LINE, ""
        if path.startswith(ROOT) and not path.startswith(NOT_OURS, len(ROOT)):
            inside = path[len(ROOT) :].replace(os.sep, "/")
            if inside not in NOT_ASKING:
                return inside, frame.f_code.co_name
        is_runner |= f"{os.sep}_pytest{os.sep}" in path
        frame = frame.f_back
    return (RUNNER, "") if is_runner else ("", "")


def _servers() -> Iterator[tuple[str, int]]:
    for name in ("DATABASE_URL", "REDIS_URL"):
        url = urlsplit(os.environ.get(name, ""))
        if url.hostname and not url.scheme.endswith(("+socket", "unix")):
            yield url.hostname, url.port or (5432 if name == "DATABASE_URL" else 6379)


def _fault_in_transaction(target: object) -> str:
    from django.apps import apps
    from django.db import connections

    if not apps.ready:
        return ""
    for connection in connections.all(initialized_only=True):
        if any(not block._from_testcase for block in connection.atomic_blocks):
            return f"A vendor at {target!r} was dialled while a database transaction was open."
    return ""
