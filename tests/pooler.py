"""A real PgBouncer between the product and its database."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from django.db import connection, connections

from pegboard.process_settings import process_settings
from tests.ports import free_port
from tests.wire_faults import Wire

# Debian installs it where only root looks.
PROGRAM = os.environ.get("PEGBOARD_PGBOUNCER") or shutil.which(
    "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"
)
needs_pgbouncer = pytest.mark.skipif(
    PROGRAM is None, reason="PgBouncer is not installed: apt-get install pgbouncer"
)


Result = TypeVar("Result")


def in_threads(count: int, work: Callable[[int], Result]) -> list[Result]:
    """The results of `work(number)`, each in a thread and with a connection of its own."""

    def work_and_close(number: int) -> Result:
        try:
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work_and_close, range(count)))


@contextmanager
def behind_pooler(mode: str = "transaction", size: int = 2) -> Iterator[None]:
    """Connections of all threads of this process go through a pooler, to the database of this test."""
    connection.close()
    address = connection.settings_dict
    url = f"postgresql://{address['USER']}@/{address['NAME']}?host={address['HOST']}"
    with pgbouncer(url, mode=mode, size=size) as pooled_url, pytest.MonkeyPatch.context() as patch:
        pooled = process_settings({"DATABASE_URL": pooled_url})["DATABASES"]["default"]
        for name in ("HOST", "PORT", "OPTIONS"):
            patch.setitem(address, name, pooled[name])
        try:
            yield
        finally:
            connection.close()


@contextmanager
def pgbouncer(
    database_url: str, *, mode: str = "transaction", size: int = 3, settings: Mapping[str, object] = {}
) -> Iterator[str]:
    """Yield the address of the same database behind a pooler with `size` server connections."""
    parts = urlsplit(database_url)
    query = parse_qs(parts.query)
    # PgBouncer refuses to be root, and only root's kin may enter the directory of the embedded server.
    wire = Wire(f"{query['host'][0]}/.s.PGSQL.{parts.port or 5432}")
    user = parts.username or pwd.getpwuid(os.getuid()).pw_name
    port = free_port()
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "trust",
        "pool_mode": mode,
        "default_pool_size": size,
        "max_client_conn": 500,
    } | settings
    with tempfile.TemporaryDirectory(prefix="pegboard-pooler-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "users").write_text(f'"{user}" ""\n')
        (directory / "ini").write_text(
            "\n".join(
                [
                    "[databases]",
                    f"* = host=127.0.0.1 port={wire.port}",
                    "[pgbouncer]",
                    f"auth_file = {directory / 'users'}",
                    *(f"{name} = {value}" for name, value in lines.items()),
                ]
            )
        )
        account = ["-u", "nobody"] if os.getuid() == 0 else []
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(PROGRAM), *account, str(directory / "ini")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            url = f"postgresql://{user}@127.0.0.1:{port}{parts.path}"
            _wait_for(url, process, directory / "log")
            yield url
        finally:
            process.terminate()
            process.wait(30)
            wire.close()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(200):
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text())
