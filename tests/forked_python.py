"""Runs commands of the product in processes that are forked from one that has everything loaded.

To start Python and import the product takes longer than most commands that tests run. `run` is used as
`subprocess.run` is. A fork has the environment, the streams and the end of a process of its own; it runs in
the directory of the repository, with nothing on its standard input. For an environment whose settings
differ, another process is started.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# The other variables are read when the product is imported.
READ_BY_A_FORK = {"DATABASE_URL", "REPLACED_DATABASE_URL", "CRASHPOINT", "DEBUG_CRASH", "PYTEST_CURRENT_TEST"}
PROCESSES = 3

_processes: dict[frozenset[tuple[str, str]], subprocess.Popen[str]] = {}


def run(*arguments: str, env: dict[str, str], timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run `manage.py` with its arguments, or `-c` with code and its arguments.

    Raises subprocess.TimeoutExpired after killing a process that takes longer than `timeout` seconds.
    """
    process = _process_for(env)
    with tempfile.TemporaryDirectory() as directory:
        streams = [str(Path(directory, name)) for name in ("stdout", "stderr")]
        order = {"arguments": arguments, "environment": env, "streams": streams, "timeout": timeout}
        print(json.dumps(order), file=process.stdin, flush=True)
        line = process.stdout.readline()
        assert line, f"the process that forks has ended: {process.wait()}"
        if (status := json.loads(line)) is None:
            raise subprocess.TimeoutExpired(arguments, timeout)
        return subprocess.CompletedProcess(arguments, status, *(Path(name).read_text() for name in streams))


def stop() -> None:
    """End the processes. A fork has ended before."""
    while _processes:
        _stop_oldest()


def _process_for(env: dict[str, str]) -> subprocess.Popen[str]:
    """Return the process of an environment. The one that was used last is the last one to be stopped."""
    variables = {name: value for name, value in env.items() if name not in READ_BY_A_FORK}
    key = frozenset(variables.items())
    if key in _processes:
        _processes[key] = _processes.pop(key)
        return _processes[key]
    if len(_processes) == PROCESSES:
        _stop_oldest()
    _processes[key] = subprocess.Popen(
        [sys.executable, "-m", "tests.forked_python"],
        cwd=ROOT,
        env=variables | {"DATABASE_URL": env["DATABASE_URL"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return _processes[key]


def _stop_oldest() -> None:
    process = _processes.pop(next(iter(_processes)))
    process.communicate()


def _fork(order: dict[str, Any]) -> int | None:
    """Return the status of the fork, as `subprocess` has it; None for one that was killed for its time."""
    import signal
    import time

    if (pid := os.fork()) == 0:
        _become(order)
    end = time.monotonic() + order["timeout"]
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.005)


def _become(order: dict[str, Any]) -> None:
    """Run the command in this process, and end it."""
    import traceback

    for number, (name, mode) in enumerate(
        [(os.devnull, os.O_RDONLY), *((name, os.O_WRONLY | os.O_CREAT) for name in order["streams"])]
    ):
        os.dup2(os.open(name, mode), number)
    status = 1
    try:
        _execute(order["arguments"], order["environment"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201 - as Python does
    except BaseException:  # noqa: BLE001 - the outermost frame of this process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _execute(arguments: list[str], environment: dict[str, str]) -> None:
    from django.core.management import execute_from_command_line

    from core import failpoints
    from pegboard import forked_settings

    os.environ.clear()
    os.environ.update(environment)
    forked_settings.read_again()
    failpoints.arm(environment.get("CRASHPOINT", ""))
    if arguments[0] == "-c":
        _, code, *rest = arguments
        sys.argv = ["-c", *rest]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        execute_from_command_line(arguments)


def main() -> None:
    import threading
    from importlib import import_module

    import django
    from django.conf import settings

    django.setup()
    # Every command checks the addresses of pages, and most of them use what the pages do.
    import_module(settings.ROOT_URLCONF)
    assert threading.active_count() == 1, "a fork would lack the other threads"
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_fork(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
