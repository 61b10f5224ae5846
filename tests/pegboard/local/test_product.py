import contextlib
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil
import psycopg
import pytest

from demo import VENDORS
from pegboard.local.product import (
    STOP_SIGNALS,
    LocalError,
    LocalOptions,
    LocalProduct,
    StoppedByUser,
    listen_for_demo,
    read_variables,
    stop_signals,
)
from tests.ports import free_port

pytestmark = pytest.mark.faults

ROOT = Path(__file__).resolve().parents[3]
OURS = ("DATABASE_URL", "REDIS_URL", "DJANGO_", "PEGBOARD_", "MAKE")
WAIT_SECONDS = 120
PROGRAM_NAMES = ("web", "runtimes", "worker", "caller", "slow", "beat")
# It may read what root may, for the interpreter may lie in root's home; in all else it is an ordinary user.
AS_NOBODY = [
    *("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
]


def clean_environment() -> dict[str, str]:
    """Return the environment without the variables that the test run set for itself."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


class Product:
    """`manage.py up` without demo vendors, as a user would start it."""

    def __init__(self, data: Path):
        self.data, self.port = data, free_port()
        self.environment = clean_environment() | {"DEMO": "0", "DATA": str(data), "PORT": str(self.port)}
        self.said = ""
        self.process = self.begin()

    def begin(self) -> subprocess.Popen:
        return subprocess.Popen(
            [*(AS_NOBODY if os.geteuid() == 0 else []), sys.executable, "manage.py", "up"],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for(self, words: str) -> None:
        for line in self.process.stdout:
            self.said += line
            if words in line:
                return
        pytest.fail(f"“{words}” was never said:\n{self.said}")

    def ready(self) -> "Product":
        self.wait_for(f"ready: http://127.0.0.1:{self.port}/")
        return self

    def status(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=WAIT_SECONDS) as answer:
            return answer.status

    def variables(self) -> dict[str, str]:
        return read_variables(self.data / "env")

    def query(self, sql: str):
        with psycopg.connect(self.variables()["DATABASE_URL"], autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else None

    def tree(self) -> list[psutil.Process]:
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def runs(self, name: str) -> bool:
        """A process that ends meanwhile counts as not running."""
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name() == name:
                    return True
        return False

    def child(self, name: str) -> psutil.Process:
        top = psutil.Process(self.process.pid)
        for child in top.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.name() == name:
                    return child
        pytest.fail(f"no child has the name {name}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        output, _ = self.process.communicate(timeout=WAIT_SECONDS)
        self.said += output
        return self.process.returncode


@pytest.mark.parametrize("vendor", [0, 3], ids=["first", "another"])
def test_demo_ports_that_another_program_has_are_not_used(tmp_path, monkeypatch, vendor):
    monkeypatch.setattr("pegboard.local.product.HANDOVER", 0.0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1] - VENDORS[vendor].port_offset - 101
        base, listeners = listen_for_demo(LocalOptions(tmp_path, port, demo=True))
    with contextlib.ExitStack() as closing:
        for listener in listeners:
            closing.enter_context(listener)
        assert base != port + 101
        ports = [listener.getsockname()[1] for listener in listeners]
        assert ports == [base + vendor.port_offset for vendor in VENDORS]
        # They are taken from now on, and the demo that inherits them needs not bind them.
        with pytest.raises(OSError, match="in use"), socket.socket() as thief:
            thief.bind(("127.0.0.1", base + VENDORS[0].port_offset))
        numbers = [str(listener.fileno()) for listener in listeners]
        command = [sys.executable, "-m", "demo", "--listeners", *numbers]
        demo = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[listener.fileno() for listener in listeners],
        )
        with demo:
            lines = [demo.stdout.readline() for _ in VENDORS]
            demo.terminate()
    assert all(f":{port}/" in line for port, line in zip(ports, lines, strict=True))


@pytest.fixture
def home_of_nobody():
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory(prefix="pegboard-test-", dir="/var/tmp") as home:
        if os.geteuid() == 0:
            os.chown(home, nobody.pw_uid, nobody.pw_gid)
        yield Path(home)


@pytest.fixture
def product():
    started = []

    def start(data: Path) -> Product:
        started.append(Product(data))
        return started[-1]

    yield start
    for service in started:
        if service.process.poll() is None:
            service.process.terminate()
        service.process.communicate(timeout=WAIT_SECONDS)


def eventually(claim) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_killed_product_starts_again_with_its_data_heals_and_ends_together(product, home_of_nobody):
    """One walk of an ordinary user, for a start takes ten seconds and more."""
    first = product(home_of_nobody / "data dir").ready()
    assert "/accounts/first/" in first.said
    # Where the next port was free; on any other one it is not given out.
    second_address = f"http://127.0.0.1:{first.port + 1}"
    is_beside = f"for runtimes: {second_address}/" in first.said
    assert first.variables().get("PEGBOARD_RUNTIMES_URL") == (second_address if is_beside else None)
    its_programs_work_and_all_is_well(first)
    its_processes_share_the_loaded_code_and_nothing_else(first)
    it_starts_once(first, product)
    subprocess.run(
        [sys.executable, "manage.py", "createsuperuser", "--noinput", "--username", "kept"],
        cwd=ROOT,
        env=first.environment | first.variables() | {"DJANGO_SUPERUSER_PASSWORD": "correct horse battery"},
        check=True,
        capture_output=True,
    )
    keys = first.variables()["PEGBOARD_KEYS"]
    it_leaves_nothing_behind_when_its_parent_is_killed(first)

    second = product(home_of_nobody / "data dir").ready()
    assert second.query("select username, role from people_user") == [("kept", "admin")]
    assert second.variables()["PEGBOARD_KEYS"] == keys
    assert "/accounts/first/" not in second.said
    what_is_killed_is_begun_again(second)

    tree = second.tree()
    assert second.stop() == 0
    assert "the data is kept" in second.said
    eventually(lambda: not any(process.is_running() for process in tree))


def its_programs_work_and_all_is_well(running):
    """Wait until it reports that it is ready."""
    logs = running.data / "log"
    for name in ("worker", "slow", "caller"):
        assert "Connected to" in (logs / f"{name}.log").read_text()
    assert "beat: Starting" in (logs / "beat.log").read_text()
    for name in ("env", "secrets"):
        assert (running.data / name).stat().st_mode & 0o777 == 0o600
    looked = subprocess.run(
        [sys.executable, "manage.py", "doctor"],
        cwd=ROOT,
        env=clean_environment() | running.variables(),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert looked.stdout.startswith("All is well"), looked.stdout + looked.stderr
    assert looked.returncode == 0


def its_processes_share_the_loaded_code_and_nothing_else(running):
    supervisor = psutil.Process(running.process.pid)
    assert supervisor.num_threads() == 1  # a lock that another thread holds would never be free in a fork
    code = supervisor.memory_full_info().rss
    for name in PROGRAM_NAMES:
        child = running.child(name)
        assert child.cmdline() == supervisor.cmdline()
        assert os.getpgid(child.pid) == child.pid
        assert child.memory_full_info().uss < code / 2
        open_files = {Path(file.path).name for file in child.open_files()}
        assert "lock" not in open_files
        assert f"{name}.log" in open_files
    listening = {connection.laddr.port for connection in running.child("beat").net_connections("inet")}
    assert running.port not in listening


def it_starts_once(running, product):
    second = product(running.data)
    output, _ = second.process.communicate(timeout=WAIT_SECONDS)
    assert second.process.returncode == 1
    assert "already runs" in output
    assert running.status() == 200


def it_leaves_nothing_behind_when_its_parent_is_killed(running):
    tree = running.tree()
    # The database, too, has no time to end well.
    for process in [tree[0], *(process for process in tree if process.name() == "postgres")]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    running.process.communicate()
    eventually(lambda: not any(process.is_running() for process in tree))


def what_is_killed_is_begun_again(running):
    running.child("worker").kill()
    running.wait_for("worker was killed by SIGKILL; starting it again now")
    eventually(lambda: "ready" in (running.data / "log" / "worker.log").read_text())
    web = running.child("web")
    for process in [web, *web.children()]:  # those who outlive it would answer in its place
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    running.wait_for("web was killed by SIGKILL; starting it again now")
    assert running.status() == 200
    running.child("postgres").kill()
    running.wait_for("postgres was killed by SIGKILL")
    eventually(lambda: running.runs("postgres"))


LOSES_THE_DATABASE_ONCE = """
import os, pathlib, signal
once = pathlib.Path(os.environ["ONCE"])
if not once.exists():
    once.touch()
    os.kill(int(os.environ["VICTIM"]), signal.SIGKILL)
    raise SystemExit(1)
"""


def test_a_start_survives_the_loss_of_the_database(tmp_path, monkeypatch):
    for name in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(name)
    starting = LocalProduct(LocalOptions(tmp_path / "data", free_port(), demo=False), print)
    starting._start_servers()
    try:
        postgres = next(service for service in starting.supervisor.services if service.name == "postgres")
        environment = {"ONCE": str(tmp_path / "once"), "VICTIM": str(postgres.process.pid)}
        starting._run_step("shell", "--no-imports", "-c", LOSES_THE_DATABASE_ONCE, env=environment)
        assert starting.embedded.answers()
        with pytest.raises(LocalError, match="ended with status 3"):
            starting._run_step("shell", "--no-imports", "-c", "raise SystemExit(3)")
    finally:
        starting.supervisor.stop()
        starting.embedded.clean_up()


def test_a_signal_that_gets_lost_around_a_fork_still_stops_everything(tmp_path):
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    starting = LocalProduct(LocalOptions(tmp_path / "data", free_port(), demo=False), print)
    try:
        with stop_signals() as starting._is_told_to_stop:
            starting._wait_unless_stopped(0)
            with contextlib.suppress(StoppedByUser):  # as Python does with what is raised there
                signal.raise_signal(signal.SIGTERM)
            with pytest.raises(StoppedByUser):
                starting._wait_unless_stopped(0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def refusal(**variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT,
        env=clean_environment() | variables,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    return done.stdout + done.stderr


def test_a_taken_port_is_said_before_anything_starts(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        message = refusal(DATA=str(tmp_path), PORT=str(listener.getsockname()[1]))
    assert "is taken" in message
    assert "make run PORT=" in message


def test_a_database_elsewhere_that_does_not_answer_is_named(tmp_path):
    url = f"postgresql://127.0.0.1:{free_port()}/pegboard"
    message = refusal(DATA=str(tmp_path), PORT=str(free_port()), DATABASE_URL=url)
    assert message.startswith("CommandError: DATABASE_URL")
    assert "Traceback" not in message
