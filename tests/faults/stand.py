"""The whole product on servers of its own, which it reaches over lines that a test can spoil."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import redis

from pegboard.local.embedded import SOCKET, Embedded
from pegboard.process_commands import BEAT, CALLER, FOR_CALLS, WORKER
from tests.factories import PASSWORD
from tests.faults import tally
from tests.faults.warm import ROOT, Warm
from tests.vendor import Vendor
from tests.wire_faults import Wire

KILLED = {"postgres": "database killed", "valkey": "broker killed"}
# A test asks more often than a person.
NO_LIMITS = {"PEGBOARD_CALLS_PER_MINUTE": "100000", "PEGBOARD_WRITES_PER_MINUTE": "100000"}


@dataclass(frozen=True)
class Answer:
    """`status` is 0 when there was no answer at all; `seconds` is how long it took."""

    status: int
    body: bytes
    headers: dict[str, str]
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


class Stand:
    """`environment` names the servers themselves; the processes of the product are given the lines."""

    def __init__(self, servers: Embedded, environment: dict[str, str], directory: Path) -> None:
        self.servers, self.environment, self.directory = servers, environment, directory
        self.database = Wire(str(servers.run / ".s.PGSQL.5432"))
        self.broker = Wire(str(servers.run / SOCKET))
        self.url = urllib.parse.urlsplit(environment["DATABASE_URL"])
        self.over_the_lines = environment | {
            "DATABASE_URL": f"postgresql://postgres@127.0.0.1:{self.database.port}{self.url.path}",
            "REDIS_URL": f"redis://127.0.0.1:{self.broker.port}/0",
            "WEB_WORKERS": "1",
            "WEB_THREADS": "8",
        }
        # Handed down, so that requests wait while one web server follows another.
        self.door = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self.door.getsockname()[1]
        self.warm = Warm(environment, directory / "warm.log")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.vendor: Vendor
        self.code = ROOT  # whose processes begin: another tree holds another version of the product
        self.token, self.endpoint, self.ada = "", 0, 0

    def set_up(self) -> None:
        facts = self.warm.do("create_rows", self.vendor.url)
        self.token, self.endpoint, self.ada = facts["token"], facts["endpoint"], facts["ada"]

    def begin(self, name: str, *module: str, **variables: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *module],
                env=self.over_the_lines | variables,
                cwd=self.code,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[self.door.fileno()] if name.startswith("web") else [],
            )
        return self.processes[name]

    def begin_web(self, name: str = "web") -> None:
        self.begin(name, "gunicorn", "-c", "python:pegboard.gunicorn", "-b", f"fd://{self.door.fileno()}")

    def begin_worker(self, name: str = "worker", *, processes: int = 0, **variables: str) -> None:
        """Start a worker as in production, or with fewer processes, and for slow runs too."""
        fewer = ("--autoscale", f"{processes},1") if processes else ()
        self.begin(name, *WORKER, "--queues", "enumeration,slow", *fewer, **variables)

    def begin_caller(self, name: str = "caller") -> None:
        self.begin(name, *CALLER, **FOR_CALLS)

    def begin_beat(self, name: str = "beat", **variables: str) -> None:
        self.begin(name, *BEAT, **variables)

    def end(self, name: str, how: signal.Signals = signal.SIGTERM, patience: float = 60) -> None:
        process = self.processes.pop(name)
        if process.poll() is None:
            if how == signal.SIGKILL:
                os.killpg(process.pid, how)
            else:
                process.send_signal(how)
        process.wait(patience)

    def stop(self) -> None:
        for name in list(self.processes):
            self.end(name, signal.SIGKILL)
        self.door.close()
        self.warm.stop()
        self.database.close()
        self.broker.close()

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")[-6000:]

    # Requests of a client.

    def ask(
        self, path: str, body: object = None, *, method: str = "", patience: float = 30, key: str = ""
    ) -> Answer:
        """`key` is sent as the Idempotency-Key."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= {"Idempotency-Key": key} if key else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data,
            headers | {"Content-Type": "application/json"},
            method=method or None,
        )
        began = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=patience) as reply:
                status, content, heads = reply.status, reply.read(), dict(reply.headers)
        except urllib.error.HTTPError as error:
            with error:
                status, content, heads = error.code, error.read(), dict(error.headers)
        except (OSError, urllib.error.URLError):
            status, content, heads = 0, b"", {}
        return Answer(status, content, heads, time.monotonic() - began)

    def sign_in(self) -> int:
        """Sign in as a browser does; return the status of the page after the form."""
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        address = f"http://127.0.0.1:{self.port}/accounts/login/"
        try:
            with browser.open(address, timeout=30) as page:
                token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.read().decode())
            assert token
            form = {"username": "ada", "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
            with browser.open(address, urllib.parse.urlencode(form).encode(), timeout=30) as page:
                signed_in = "/accounts/login/" not in page.url
                return page.status if signed_in else 401
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    # Faults of the servers.

    def service(self, name: str) -> Any:
        return next(service for service in self.servers.services if service.name == name)

    def kill(self, name: str) -> None:
        """The main process; PostgreSQL's others end by themselves when they notice."""
        tally.fault(KILLED[name])
        process = self.service(name).process
        process.kill()
        process.wait()

    def begin_again(self, name: str) -> float:
        """Seconds until it answers."""
        began = time.monotonic()
        self.service(name).begin()
        self.servers.wait()
        took = time.monotonic() - began
        tally.recovery(KILLED[name], took)
        return took

    def limit_files(self, size: int) -> None:
        """Let no file of PostgreSQL grow beyond `size` bytes, as on a full disk."""
        if size >= 0:
            tally.fault("disk full")
        top = psutil.Process(self.service("postgres").process.pid)
        for process in [top, *top.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.rlimit(psutil.RLIMIT_FSIZE, (size, -1))

    def valkey(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.servers.run / SOCKET))


def wait_for(is_so: Callable[[], object], seconds: float, what: str = "it") -> float:
    """Wait, and return the seconds that it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.05)
    return time.monotonic() - began


def lose_the_worker(stand: Stand) -> int:
    """The run that it was reading when it was killed."""
    dead = threading.Event()

    def script(number: int, document: object) -> None:
        if number == 2:
            stand.vendor.script = None
            tally.fault("worker killed")
            stand.end("worker", signal.SIGKILL)
            dead.set()

    stand.vendor.script = script
    run: int = stand.ask(f"/api/v1/endpoints/{stand.endpoint}/enumerate/", {}).json()["run"]
    assert dead.wait(30), "the worker was not killed"
    return run


class Clients:
    """Writers that each make agents one after the other and remember which were acknowledged."""

    def __init__(self, stand: Stand, count: int) -> None:
        self.stand = stand
        self.acknowledged: list[str] = []
        self.others: list[tuple[float, Answer]] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(count)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, who: int) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            slug = f"agent-{who}-{number}"
            answer = self.stand.ask("/api/v1/agents/", {"name": slug, "slug": slug})
            if answer.status == 201:
                self.acknowledged.append(slug)
            else:
                self.others.append((time.monotonic(), answer))
                self._over.wait(0.1)
