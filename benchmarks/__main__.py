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
from pegboard.local.embedded import Embedded

ALONE = "--alone"
MISSED = 3  # the exit status of a benchmark whose figures are there, not all of them as good as asked
# Runs only when it is named, with data that is not here.
ON_REQUEST = {"train_fit", "train_ranker"}
NO_BENCHMARK = {"__main__", "bare", "frame", "procedure_labels", "rows", "vendor"}


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


def run_all(chosen: list[str], urls: dict[str, str]) -> int:
    failed = 0
    for name in chosen:
        with psycopg.connect(urls["DATABASE_URL"], autocommit=True) as connection:
            connection.execute(f"drop database if exists bench_{name}")
            connection.execute(f"create database bench_{name}")
        url = urls["DATABASE_URL"].replace("/pegboard?", f"/bench_{name}?")
        command = [sys.executable, "-m", "benchmarks", ALONE, name]
        # Log lines are written as in production, because they cost time, but not between the figures.
        with (
            tempfile.TemporaryFile(mode="w+") as log,
            tempfile.TemporaryDirectory(prefix="pegboard-bench-search-", dir="/var/tmp") as search_directory,
        ):
            variables = environment(url, urls["REDIS_URL"], search_directory)
            ended = subprocess.run(command, env=variables, stderr=log, check=False)
            if ended.returncode not in (0, MISSED):
                log.seek(0)
                print(*log.readlines()[-30:], f"The benchmark {name} broke off.", sep="", file=sys.stderr)
        failed += ended.returncode != 0
    return failed


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == [ALONE]:
        return run_alone(arguments[1])
    if unknown := set(arguments) - set(names()):
        print(f"There is no benchmark {', '.join(sorted(unknown))}. There are: {', '.join(names())}.")
        return 2
    # Under /var/tmp, which is a disk where /tmp may be memory: the figures are those of a durable server.
    with tempfile.TemporaryDirectory(prefix="pegboard-bench-", dir="/var/tmp") as data:
        servers = Embedded(Path(data))
        servers.start()
        try:
            return min(run_all(arguments or sorted(set(names()) - ON_REQUEST), servers.urls), 1)
        finally:
            servers.stop()


if __name__ == "__main__":
    sys.exit(main())
