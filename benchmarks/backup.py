"""A backup of 100,000 tools and its restore with all checks, beside pg_dump and pg_restore alone."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from django.conf import settings

from benchmarks import rows
from benchmarks.frame import Figure, seconds
from pegboard.local.embedded import embedded_programs

TOOLS = 100_000
TEN_MINUTES = 600


def main() -> Iterator[Figure]:
    rows.fill(TOOLS)
    url = os.environ["DATABASE_URL"]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        copy, bare = Path(folder) / "copy", Path(folder) / "bare"
        backup = seconds(lambda: manage("backup", str(copy)))
        dumped = seconds(lambda: program("pg_dump", "-Fc", f"--file={bare}", f"--dbname={url}"))
        yield Figure("back up 100,000 tools", backup, "s", floor=dumped, target=2, less_is_better=True)
        restored = seconds(lambda: manage("restore", str(copy), url=fresh(url, "bench_restored")))
        bare_url = fresh(url, "bench_bare")
        loaded = seconds(lambda: program("pg_restore", "--no-owner", f"--dbname={bare_url}", str(bare)))
        yield Figure("restore and check", restored, "s", floor=loaded, less_is_better=True)
        yield Figure("restore, whole", restored, "s", target=TEN_MINUTES, less_is_better=True)


def fresh(url: str, name: str) -> str:
    """An empty database of this name on the same server."""
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        server.execute(f"CREATE DATABASE {name}".encode())
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def manage(*command: str, url: str = "") -> None:
    environment = os.environ | ({"DATABASE_URL": url} if url else {})
    subprocess.run(
        [sys.executable, "manage.py", *command], env=environment, cwd=settings.BASE_DIR, check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip


def program(name: str, *arguments: str) -> None:
    subprocess.run([str(embedded_programs() / name), *arguments], check=True)
