"""python -m soak [--short] [--seed N] [--out DIRECTORY] [NAME]...: all storms, or those named.

Prints for each the faults injected, the recovery times and the violations, at the end all of them in one
table, and writes them into `faults.json` in DIRECTORY. Ends with status 1 if there was a violation, and with
2 if a storm could not be played here or was interrupted: Ctrl-C ends the one that runs, which then reports.
"""

import argparse
import base64
import importlib
import json
import logging
import os
import pkgutil
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command
from django.db import connection

import soak
from pegboard.local.embedded import Embedded
from soak import _summary
from soak.frame import Field

NO_STORM = {"__main__", "frame"}


def names() -> list[str]:
    """Modules of this package that hold a storm; those with an underscore in front help the others."""
    module_names = [module.name for module in pkgutil.iter_modules(soak.__path__)]
    return [name for name in module_names if name not in NO_STORM and not name.startswith("_")]


def environment(servers: Embedded) -> dict[str, str]:
    own_prefixes = ("DATABASE_URL", "REDIS_URL", "DJANGO_", "PEGBOARD_", "CRASHPOINT", "DEBUG_CRASH")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(own_prefixes)}
    key = "k1:" + base64.b64encode(secrets.token_bytes(32)).decode()
    return inherited | {
        **servers.urls,
        "DJANGO_SETTINGS_MODULE": "pegboard.settings",
        "PEGBOARD_SECRET_KEY": secrets.token_urlsafe(48),
        "PEGBOARD_KEYS": key,
        "PEGBOARD_OUTBOUND_ALLOW": "127.0.0.0/8",
        "PEGBOARD_HOSTS": "127.0.0.1 localhost testserver",
        "PEGBOARD_CALLS_PER_MINUTE": "60000",
        "PEGBOARD_WRITES_PER_MINUTE": "60000",
    }


def interrupt(*_: object) -> None:
    """Interrupt once: a terminal signals parent and child together, and nothing may stop the clean-up."""
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_IGN)
    raise KeyboardInterrupt


def handle_interruptions() -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, interrupt)


def run_alone(name: str, options: argparse.Namespace) -> int:
    """Run the storm in this child process. An exception of the storm is a violation, too."""
    with tempfile.TemporaryDirectory(prefix=f"pegboard-soak-{name}-", dir="/var/tmp") as directory:
        servers = Embedded(Path(directory) / "data")
        servers.start()
        field = Field(name, options.short, options.seed, servers, environment(servers), Path(directory))
        began = time.monotonic()
        handle_interruptions()
        try:
            os.environ |= field.environment
            django.setup()
            logging.disable(logging.INFO)  # thousands of readings that ended well
            call_command("migrate", "--noinput", verbosity=0)
            importlib.import_module(f"soak.{name}").storm(field)
            connection.close()  # The storm may have killed the server.
            if not field.not_run:
                importlib.import_module("soak._closing").check_backlog_empties(field)
            check_invariants(field)
        except KeyboardInterrupt:
            field.is_interrupted = True
        except Exception as exc:  # noqa: BLE001 - the outermost loop: the other storms go on
            traceback.print_exc()
            field.violation(f"the storm broke off: {type(exc).__name__}: {exc}")
        finally:
            servers.stop()
        field.figure("seconds", round(time.monotonic() - began, 1))
    print(field, flush=True)
    Path(options.alone).write_text(json.dumps(field.report(), default=str))
    return min(len(field.violations), 1)


def check_invariants(field: Field) -> None:
    """Report each rule of the database that the storm has broken."""
    for breach in importlib.import_module("catalog.invariants").check():
        field.violation(str(breach))


def run_child(name: str, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / "report.json"
        words = ["--alone", str(result), "--seed", str(options.seed), *(["--short"] if options.short else [])]
        with subprocess.Popen([sys.executable, "-m", "soak", *words, name]) as child:
            try:
                child.wait()
            except KeyboardInterrupt:
                child.terminate()
                child.wait()
        if result.exists():
            report: dict[str, Any] = json.loads(result.read_text())
            return report
    return {
        "storm": name,
        "seed": options.seed,
        "faults": [],
        "violations": [f"the storm's process ended with status {child.returncode} and no report"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description="Faults by the hundred.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))
    parser.add_argument("--short", action="store_true", help="a few faults of each kind")
    parser.add_argument("--seed", type=int, default=int.from_bytes(secrets.token_bytes(3), "big"))
    parser.add_argument("--out", type=Path, help="the directory that gets faults.json")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.names) - set(names()):
        parser.error(f"no storm {', '.join(sorted(unknown))}; there are: {', '.join(names())}")
    if options.alone:
        return run_alone(options.names[0], options)
    print(f"seed {options.seed} (the same faults again: --seed {options.seed})", flush=True)
    handle_interruptions()
    reports: list[dict[str, Any]] = []
    for name in options.names or names():
        reports.append(run_child(name, options))
        if reports[-1].get("interrupted"):
            break
    print(_summary.table(reports))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        head = {"seed": options.seed, "short": options.short, **_summary.totals(reports)}
        (options.out / "faults.json").write_text(json.dumps(head | {"storms": reports}, indent=1) + "\n")
    return _summary.status(reports)


if __name__ == "__main__":
    sys.exit(main())
