"""python -m benchmarks [NAME]...: all, or those named, each in a process and a database of its own."""

import base64
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path

import django
import psycopg
from django.core.management import call_command

import benchmarks
from benchmarks.frame import Figure
from pegboard.local.embedded import Embedded, own_directory

ALONE = "--alone"
MISSED = 3  # the exit status of a benchmark whose figures are there, not all of them as good as asked
# Runs only when it is named, with data that is not here.
ON_REQUEST = {"million", "train_fit", "train_ranker"}
# The data of these take half an hour to make, and are kept. Under /var/tmp, which is a disk where /tmp may be
# memory: the figures are those of a durable server.
KEPT = {"million"}
DATA = Path("/var/tmp")
NO_BENCHMARK = {"__main__", "bare", "frame", "million_rows", "procedure_labels", "rows", "vendor"}


def names() -> list[str]:
    return [
        module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in NO_BENCHMARK
    ]


def run_alone(name: str) -> int:
    """Run one benchmark in the child: the database is empty and migrated."""
    django.setup()
    call_command("migrate", "--noinput", verbosity=0)
    missed = 0
    for figure in importlib.import_module(f"benchmarks.{name}").main():
        print(figure, flush=True)
        missed += isinstance(figure, Figure) and not figure.is_met
    return MISSED if missed else 0


def environment(url: str, redis_url: str, search_directory: str) -> dict[str, str]:
    return {
        **os.environ,
        "DATABASE_URL": url,
        "REDIS_URL": redis_url,
        "DJANGO_SETTINGS_MODULE": "pegboard.settings",
        "PEGBOARD_SEARCH_DIRECTORY": search_directory,
        "PEGBOARD_SECRET_KEY": "benchmarks have no secrets, and this is none",
        "PEGBOARD_KEYS": "k1:" + base64.b64encode(bytes(32)).decode(),
        "PEGBOARD_OUTBOUND_ALLOW": "127.0.0.0/8",
        "PEGBOARD_CALLS_PER_MINUTE": "60000",
        "PEGBOARD_WRITES_PER_MINUTE": "60000",
    }


def run_all(chosen: list[str]) -> int:
    """Run these benchmarks and return how many have failed."""
    failed = 0
    if passing := [name for name in chosen if name not in KEPT]:
        with tempfile.TemporaryDirectory(prefix="pegboard-bench-", dir=DATA) as data:
            failed += run_in(Path(data), passing)
    for name in KEPT.intersection(chosen):
        failed += run_in(own_directory(DATA / f"pegboard-bench-{name}"), [name])
    return failed


def run_in(data: Path, chosen: list[str]) -> int:
    """Run these benchmarks on servers in a directory, each in a new database unless its own is kept."""
    servers = Embedded(data)
    servers.start()
    try:
        return sum(run(name, data, servers.urls) for name in chosen)
    finally:
        servers.stop()


def run(name: str, data: Path, urls: dict[str, str]) -> bool:
    """Run one benchmark in a child process; return whether it has failed."""
    with psycopg.connect(urls["DATABASE_URL"], autocommit=True) as connection:
        if name not in KEPT:
            connection.execute(f"drop database if exists bench_{name}")
        if not connection.execute(
            "select 1 from pg_database where datname = %s", [f"bench_{name}"]
        ).fetchone():
            connection.execute(f"create database bench_{name}")
    url = urls["DATABASE_URL"].replace("/pegboard?", f"/bench_{name}?")
    search_directory = data / f"search-{name}"
    variables = environment(url, urls["REDIS_URL"], str(search_directory))
    # Log lines are written as in production, because they cost time, but not between the figures.
    with tempfile.TemporaryFile(mode="w+") as log:
        command = [sys.executable, "-m", "benchmarks", ALONE, name]
        ended = subprocess.run(command, env=variables, stderr=log, check=False)
        if ended.returncode not in (0, MISSED):
            log.seek(0)
            print(*log.readlines()[-30:], f"The benchmark {name} broke off.", sep="", file=sys.stderr)
    return ended.returncode != 0


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == [ALONE]:
        return run_alone(arguments[1])
    if unknown := set(arguments) - set(names()):
        print(f"There is no benchmark {', '.join(sorted(unknown))}. There are: {', '.join(names())}.")
        return 2
    return min(run_all(arguments or sorted(set(names()) - ON_REQUEST)), 1)


if __name__ == "__main__":
    sys.exit(main())
