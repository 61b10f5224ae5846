import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from subprocess import SubprocessError

import psutil
import psycopg
import pytest

from pegboard.local.embedded import Embedded, EmbeddedError, lock
from pegboard.local.processes import Service, Supervisor, spawn
from pegboard.local.product import plain, read_variables, write_private

pytestmark = pytest.mark.faults


@pytest.fixture
def servers(tmp_path):
    started = []

    def start(data: Path = tmp_path / "data", **options: bool) -> Embedded:
        embedded = Embedded(data, **{"durable": False} | options)
        started.append(embedded)
        embedded.start()
        return embedded

    yield start
    for embedded in started:
        embedded.stop()


def query(embedded: Embedded, sql: str):
    with psycopg.connect(embedded.urls["DATABASE_URL"], autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchone() if cursor.description else None


def kill(embedded: Embedded) -> None:
    for service in embedded.services:
        tree = psutil.Process(service.process.pid)
        for process in [tree, *tree.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def test_data_outlives_a_kill_of_every_process(servers):
    first = servers(durable=True)
    query(first, "create table kept as select 42 as answer")
    kill(first)
    assert query(servers(durable=True), "select answer from kept") == (42,)


def test_a_pid_file_that_names_another_process_does_not_stop_the_start(servers):
    first = servers()
    pid_file = first.data / "postgres" / "postmaster.pid"
    text = pid_file.read_text()
    kill(first)
    pid_file.write_text(text.replace(text.split()[0], str(os.getpid()), 1))
    assert query(servers(), "select 1") == (1,)


def test_a_query_that_outlives_its_server_keeps_no_other_from_starting(servers):
    first = servers(valkey=False)
    with psycopg.connect(first.urls["DATABASE_URL"]) as connection:
        busy = connection.info.backend_pid
        stopped = psutil.Process(busy)
        stopped.suspend()  # notices as little as one that computes
        psutil.Process(first.services[0].process.pid).kill()
        assert query(servers(valkey=False), "select 1") == (1,)
        assert not stopped.is_running() or stopped.status() == psutil.STATUS_ZOMBIE


def test_a_shell_in_the_data_directory_does_not_stop_the_start(servers):
    first = servers(valkey=False)
    with subprocess.Popen(["sleep", "60"], cwd=first.data / "postgres") as shell:
        kill(first)
        assert query(servers(valkey=False), "select 1") == (1,)
        assert shell.poll() is None
        shell.kill()


def test_an_unfinished_first_start_is_begun_afresh(servers, tmp_path):
    half_done = tmp_path / "data" / "postgres.new"
    half_done.mkdir(parents=True)
    (half_done / "PG_VERSION").write_text("18")
    assert query(servers(), "select 1") == (1,)


def test_a_long_and_odd_path_is_no_obstacle(servers, tmp_path):
    data = tmp_path / ("long " * 20) / "ünïcode & more"
    assert query(servers(data, valkey=False), "select 1") == (1,)


def test_variables_of_another_postgresql_are_not_followed(servers, monkeypatch):
    for name, value in {"PGPORT": "1", "PGHOST": "/nowhere", "PGDATA": "/nowhere", "LC_ALL": "xx_XX"}.items():
        monkeypatch.setenv(name, value)
    assert query(servers(), "select 1") == (1,)


def test_one_data_directory_serves_one_product(tmp_path):
    with lock(tmp_path), pytest.raises(EmbeddedError, match="already runs"):
        lock(tmp_path)
    lock(tmp_path).close()


def test_a_directory_without_postgresql_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PEGBOARD_PG_BIN", str(tmp_path))
    with pytest.raises(EmbeddedError, match="has no initdb"):
        Embedded(tmp_path / "data")


def test_data_of_another_version_is_left_alone(servers, tmp_path):
    first = servers(valkey=False)
    first.stop()
    (first.data / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedError, match="written by PostgreSQL 9"):
        servers(valkey=False)


def test_a_server_that_cannot_start_says_where_its_log_is(servers, tmp_path):
    first = servers(valkey=False)
    first.stop()
    (first.data / "postgres" / "global" / "pg_control").unlink()
    with pytest.raises(EmbeddedError, match=r"postgres\.log"):
        servers(valkey=False)


def sleeper(log: Path, seconds: str = "60") -> Service:
    return Service("sleeper", lambda: spawn(["sleep", seconds], log=log, env=dict(os.environ), cwd="/"))


def test_a_killed_child_is_started_again_and_said_so(tmp_path):
    messages = []
    supervisor = Supervisor(messages.append)
    service = supervisor.add(sleeper(tmp_path / "log"))
    first = service.process
    first.kill()
    first.wait()
    supervisor.check()
    assert messages == ["sleeper was killed by SIGKILL; starting it again now"]
    assert service.process.poll() is None
    supervisor.stop()


@pytest.mark.parametrize("error", [OSError("no memory"), EmbeddedError("it lingers"), SubprocessError("odd")])
def test_a_child_that_cannot_start_again_is_tried_later(tmp_path, error):
    messages, starts = [], [sleeper(tmp_path / "log").start]

    def start() -> subprocess.Popen:
        if not starts:
            raise error
        return starts.pop()()

    supervisor = Supervisor(messages.append)
    service = supervisor.add(Service("sleeper", start))
    service.process.kill()
    service.process.wait()
    supervisor.check()
    assert messages[-1] == f"sleeper does not start ({error}); trying again in 1 s"
    supervisor.check()
    assert len(messages) == 2
    starts.append(sleeper(tmp_path / "log").start)
    service.start_again_at = 0.0
    supervisor.check()
    assert service.process.poll() is None
    supervisor.stop()


def test_a_child_that_keeps_crashing_is_started_ever_more_slowly(tmp_path):
    service = sleeper(tmp_path / "log")
    service.started_at = time.monotonic()
    pauses = [service.note_crash() for _ in range(8)]
    assert pauses == [0, 1, 2, 4, 8, 16, 30, 30]


def test_a_child_dies_with_its_parent(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from pegboard.local.processes import spawn;"
        "p = spawn(['sleep', '60'], log=Path(sys.argv[1]), env=dict(os.environ), cwd='/');"
        "print(p.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        cwd=Path.cwd(),
        check=False,
    )
    child = int(parent.stdout)
    deadline = time.monotonic() + 5
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_private_files_are_private_and_readable_by_a_shell(tmp_path):
    path = tmp_path / "env"
    write_private(path, f"URL={plain('postgresql://u@h/d?a=1&b=2')}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    shell_result = subprocess.run(
        ["sh", "-c", f". {path}; echo $URL"], capture_output=True, text=True, check=True
    )
    assert shell_result.stdout.strip() == "postgresql://u@h/d?a=1&b=2"
    assert read_variables(tmp_path / "nothing") == {}
