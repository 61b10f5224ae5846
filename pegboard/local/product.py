"""The whole product on one machine: servers, web, worker, scheduler and demo vendors as our children."""

import base64
import contextlib
import http.client
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

import psycopg

from demo import VENDORS
from pegboard.local.embedded import Embedded, EmbeddedError, lock, own_directory
from pegboard.local.forks import STOP_SIGNALS, fork_program, load_product
from pegboard.local.processes import ChildProcess, Service, Supervisor, how_it_ended, spawn
from pegboard.process_commands import BEAT, CALLER, FOR_CALLS, FOR_RUNTIMES, GUNICORN, SLOW, WORKER
from pegboard.server_addresses import parse_database_address

HOST = "127.0.0.1"
ROOT = Path(__file__).resolve().parent.parent.parent
# Migrations of a large database are part of it.
START_TIMEOUT = 120.0
# As files of earlier versions call them.
OLD_NAMES = {"PEGBOARD_CREDENTIAL_KEYS": "PEGBOARD_KEYS"}
HANDOVER = 3.0  # how long a predecessor that was killed may take to let go of its ports


class LocalError(Exception):
    """This machine is not ready. The message states the reason and what to do."""


class StoppedByUser(Exception):  # noqa: N818 - the person at the terminal stops it; not an error
    pass


@dataclass(frozen=True)
class LocalOptions:
    data: Path
    port: int
    demo: bool
    restore: Path | None = None


def listen_for_demo(options: LocalOptions) -> tuple[int, list[socket.socket]]:
    """Bind the demo vendors' ports and return the first, with a listening socket for each vendor.

    They are the same at every start, because endpoints contain these addresses. The demo inherits the
    sockets, so that no other program can take a port before the demo starts, or while it is started again.
    """
    path = options.data / "demo-ports"
    stored = int(path.read_text()) if path.exists() else options.port + 101
    deadline = time.monotonic() + HANDOVER
    listeners = _listen_on_all(stored)
    while not listeners and time.monotonic() < deadline:
        time.sleep(0.1)
        listeners = _listen_on_all(stored)
    base = stored
    for candidate in range(18_101, 60_000, 100):
        if listeners:
            break
        base, listeners = candidate, _listen_on_all(candidate)
    if not listeners:
        raise LocalError("No ports are free for the demo vendors. Start without them: make run DEMO=0")
    path.write_text(str(base))
    return base, listeners


def _listen_on_all(base: int) -> list[socket.socket]:
    """Return a listening socket for each demo vendor, or nothing where one of the ports is taken."""
    listeners: list[socket.socket] = []
    for vendor in VENDORS:
        try:
            listeners.append(_bind_socket(base + vendor.port_offset))
        except (OSError, OverflowError):
            for listener in listeners:
                listener.close()
            return []
    for listener in listeners:
        listener.listen(64)
    return listeners


def write_private(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def read_variables(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines if "=" in line)


def plain(value: str) -> str:
    """Quote the value only if a shell needs it, because other programs read such files too."""
    return value if re.fullmatch(r"[\w@%+=:,./?-]*", value, re.ASCII) else shlex.quote(value)


def keys(data: Path) -> dict[str, str]:
    """Return the secret keys, which are created once: without them sessions end and stored credentials are
    lost."""
    path = data / "secrets"
    stored = read_variables(path)
    variables = {OLD_NAMES.get(name, name): value for name, value in stored.items()} or {
        "PEGBOARD_SECRET_KEY": secrets.token_urlsafe(48),
        "PEGBOARD_KEYS": "k1:" + base64.b64encode(secrets.token_bytes(32)).decode(),
    }
    if variables != stored:
        write_private(path, "".join(f"{name}={value}\n" for name, value in variables.items()))
    if os.environ.get("PEGBOARD_KEYS_FILE"):
        del variables["PEGBOARD_KEYS"]
    return {name: os.environ.get(name, value) for name, value in variables.items()}


def demo_password(data: Path) -> str:
    path = data / "demo-password"
    stored = path.read_text().strip() if path.exists() else ""
    password = os.environ.get("PEGBOARD_DEMO_PASSWORD") or stored or secrets.token_urlsafe(9)
    if password != stored:
        write_private(path, password + "\n")
    return password


def listen(port: int) -> socket.socket:
    """Bind the port. The web server inherits the socket, so requests queue while it restarts."""
    deadline = time.monotonic() + HANDOVER
    while True:
        try:
            listener = _bind_socket(port)
        except (OSError, OverflowError) as error:
            if time.monotonic() > deadline:
                raise LocalError(
                    f"Port {port} is taken ({error}). Choose another: make run PORT={port + 1}"
                ) from error
            time.sleep(0.1)
        else:
            _answer_at_once(listener)
            listener.listen(1024)
            return listener


def _bind_socket(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except BaseException:
        listener.close()
        raise
    return listener


def listen_next_to(port: int) -> socket.socket:
    """Listen for runtimes on the port after this one, or on any that is free."""
    try:
        listener = _bind_socket(port + 1)
    except (OSError, OverflowError):
        listener = _bind_socket(0)
    listener.listen(1024)
    _answer_at_once(listener)
    return listener


def _answer_at_once(listener: socket.socket) -> None:
    # gunicorn sets it after the first connections have come, whose answers would each wait 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn them into `StoppedByUser`; explicitly, because a shell starts background jobs with SIGINT ignored.

    Around a fork Python drops what is raised, so a waiting caller also asks whether one has come.
    """
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        for signal_number in STOP_SIGNALS:
            signal.signal(signal_number, signal.SIG_IGN)
        raise StoppedByUser

    for number in STOP_SIGNALS:
        signal.signal(number, stop)
    try:
        yield lambda: bool(came)
    finally:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)


class LocalProduct:
    """Start everything in order, keep it running, stop it in reverse."""

    def __init__(self, options: LocalOptions, say: Callable[[str], None]) -> None:
        self.options, self.say = options, say
        self.data = own_directory(options.data.resolve())
        self.logs = self.data / "log"
        self.supervisor = Supervisor(say)
        self.embedded: Embedded | None = None
        # Kept as long as we run: the number that the web server inherits is free for others otherwise.
        self.listener: socket.socket | None = None
        self.runtimes: socket.socket | None = None
        self.environment = dict(os.environ)
        self.demo_listeners: list[socket.socket] = []
        self._is_told_to_stop: Callable[[], bool] = lambda: False

    def run(self) -> None:
        data_lock = lock(self.data)
        try:
            with stop_signals() as self._is_told_to_stop:
                self._start_all()
                while True:
                    self._wait_unless_stopped()
        except StoppedByUser:
            self.say("stopping ...")
        finally:
            self.supervisor.stop()
            if self.embedded:
                self.embedded.clean_up()
            for listener in (self.listener, self.runtimes, *self.demo_listeners):
                if listener:
                    listener.close()
            data_lock.close()
        self.say("stopped; the data is kept")

    def _start_all(self) -> None:
        began = time.monotonic()
        self.listener = listen(self.options.port)
        self.runtimes = listen_next_to(self.options.port)
        demo_port = 0
        if self.options.demo:
            demo_port, self.demo_listeners = listen_for_demo(self.options)
        self._start_servers()
        try:
            self._connect_database().close()
        except psycopg.Error as error:
            raise LocalError(f"DATABASE_URL names a database that cannot be used: {error}") from error
        if self.options.restore:
            self._run_step("restore", str(self.options.restore.resolve()))
        self._run_step("migrate", "--noinput", "-v0")
        if sys.platform == "linux":
            os.environ.update(self.environment)
            load_product()
        self._start_product(self.listener, self.runtimes)
        for name, listener in (("web", self.listener), ("runtimes", self.runtimes)):
            self._wait_for(name, partial(self._answers_requests, listener.getsockname()[1]))
        if self.options.demo:
            password = demo_password(self.data)
            self._run_step("demo", "--port-base", str(demo_port), env={"PEGBOARD_DEMO_PASSWORD": password})
            self.say(f"Sign in as admin, designer or viewer. Password of all three: {password}")
        elif not self._has_users():
            parts = [secrets.token_hex(2).upper() for _ in range(4)]
            self._run_step("first_code", env={"PEGBOARD_FIRST_CODE": "".join(parts)})
            self.say(
                "There is no user yet. Create the first administrator in the browser, within an hour:\n"
                f"  http://{HOST}:{self.options.port}/accounts/first/\n"
                f"  code {'-'.join(parts)}"
            )
        for name in HEARTS:
            self._wait_for(name, self._ready_file(name).exists)
        self.say(f"started in {time.monotonic() - began:.1f} s; logs in {self.logs}; Ctrl-C stops everything")
        self.say(f"for runtimes: http://{HOST}:{self.runtimes.getsockname()[1]}/")
        self.say(f"ready: http://{HOST}:{self.options.port}/")

    def _start_servers(self) -> None:
        # Those that the environment does not name.
        needed = {name: name not in os.environ for name in ("DATABASE_URL", "REDIS_URL")}
        self.embedded = Embedded(self.data, postgres=needed["DATABASE_URL"], valkey=needed["REDIS_URL"])
        for service in self.embedded.services:
            self.supervisor.add(service)
        self.embedded.wait()
        runtimes_url = os.environ.get("PEGBOARD_RUNTIMES_URL")
        port = self.runtimes.getsockname()[1] if self.runtimes else 0
        # The port may be taken at the next start; the processes of the pages answer runtimes, too. If
        # PEGBOARD_URL is set, there is a proxy in front.
        if not runtimes_url and port == self.options.port + 1 and "PEGBOARD_URL" not in os.environ:
            runtimes_url = f"http://{HOST}:{port}"
        here = {
            **{name: os.environ[name] for name, is_needed in needed.items() if not is_needed},
            **self.embedded.urls,
            **keys(self.data),
            "PEGBOARD_URL": os.environ.get("PEGBOARD_URL", f"http://{HOST}:{self.options.port}"),
            **({"PEGBOARD_RUNTIMES_URL": runtimes_url} if runtimes_url else {}),
            # For `manage.py doctor`: this product serves one person on one machine.
            "PEGBOARD_LOCAL": "1",
            "PEGBOARD_DATA": str(self.data),
            "PEGBOARD_SEARCH_DIRECTORY": os.environ.get(
                "PEGBOARD_SEARCH_DIRECTORY", str(self.data / "search")
            ),
            # One person on one machine may well connect what runs beside the product.
            "PEGBOARD_OUTBOUND_ALLOW": os.environ.get("PEGBOARD_OUTBOUND_ALLOW", f"{HOST}/32"),
            "PEGBOARD_CALLBACK_ALLOW": os.environ.get("PEGBOARD_CALLBACK_ALLOW", f"{HOST}/32"),
        }
        write_private(self.data / "env", "".join(f"{name}={plain(value)}\n" for name, value in here.items()))
        self.environment |= here

    def _start_product(self, pages: socket.socket, runtimes: socket.socket) -> None:
        # One process answers the runtimes of one machine; a second would cost 20 MB and do nothing.
        for_runtimes = {**FOR_RUNTIMES, "WEB_WORKERS": "1"}
        for name, listener, env in (("web", pages, {}), ("runtimes", runtimes, for_runtimes)):
            fd = listener.fileno()
            self._start_service(name, *GUNICORN, "-b", f"fd://{fd}", pass_fds=(fd,), env=env)
        self._start_service("worker", *WORKER)
        self._start_service("caller", *CALLER, env=FOR_CALLS)
        self._start_service("slow", *SLOW)
        self._start_service("beat", *BEAT)
        if self.options.demo:
            numbers = tuple(listener.fileno() for listener in self.demo_listeners)
            state = ("--state", str(self.data / "demo"))
            self._start_service("demo", "demo", *state, "--listeners", *map(str, numbers), pass_fds=numbers)

    def _ready_file(self, name: str) -> Path:
        return self.data / f"{name}.ready"

    def _start_service(
        self, name: str, *module: str, pass_fds: tuple[int, ...] = (), env: Mapping[str, str] | None = None
    ) -> None:
        ready, log = self._ready_file(name), self.logs / f"{name}.log"

        def start() -> ChildProcess:
            ready.unlink(missing_ok=True)
            variables = self.environment | {"PEGBOARD_READY_FILE": str(ready)} | dict(env or {})
            if sys.platform == "linux":
                return fork_program(name, module, log=log, env=variables, pass_fds=pass_fds)
            # macOS lets a forked process use few system libraries before it executes another program.
            command = [sys.executable, "-m", *module]
            return spawn(command, log=log, env=variables, cwd=ROOT, pass_fds=pass_fds)

        heartbeat_file = ready if name in HEARTS else None
        self.supervisor.add(Service(name, start, heartbeat_file=heartbeat_file))

    def _run_step(self, *command: str, env: dict[str, str] | None = None) -> None:
        while True:
            servers = self._foundation_servers()
            # What it prints goes to the terminal.
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "manage.py", *command],
                env=self.environment | (env or {}),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                while process.poll() is None:
                    self._wait_unless_stopped(0.05)
            except StoppedByUser:
                process.terminate()
                process.wait()
                raise
            if not process.returncode:
                return
            self._wait_unless_stopped()
            # It may have failed because a server was being started again; then it is run once more.
            if servers == self._foundation_servers():
                raise LocalError(f"“manage.py {command[0]}” {how_it_ended(process.returncode)}.")
            self._wait_for("postgres", lambda: self.embedded is None or self.embedded.answers())

    def _foundation_servers(self) -> list[ChildProcess | None]:
        return [service.process for service in self.supervisor.services if service.is_foundation]

    def _connect_database(self) -> psycopg.Connection:
        address = parse_database_address("DATABASE_URL", self.environment["DATABASE_URL"])
        return psycopg.connect(**address.parameters())

    def _has_users(self) -> bool:
        with self._connect_database() as connection:
            return connection.execute("select 1 from people_user").fetchone() is not None

    def _wait_for(self, waited_for: str, works: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        self.supervisor.check()  # what has ended since it worked does not work
        while not works():
            hopeless = [service.name for service in self.supervisor.services if service.crashes > 3]
            if hopeless or time.monotonic() > deadline:
                name = hopeless[0] if hopeless else waited_for
                raise LocalError(f"{name} does not start. Its log is {self.logs}/{name}.log")
            self._wait_unless_stopped(0.05)

    def _answers_requests(self, port: int) -> bool:
        connection = http.client.HTTPConnection(HOST, port, timeout=2)
        try:
            connection.request("GET", "/accounts/login/")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _wait_unless_stopped(self, seconds: float = 0.3) -> None:
        time.sleep(seconds)
        if self._is_told_to_stop():
            raise StoppedByUser
        self.supervisor.check()


# Must work before the product is ready, apart from the pages.
HEARTS = ("worker", "caller", "slow", "beat")

__all__ = ["EmbeddedError", "LocalError", "LocalOptions", "LocalProduct"]
