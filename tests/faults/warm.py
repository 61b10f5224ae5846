"""A process that has everything loaded and forks another for each deed: cheap enough to kill by the dozen.

Alone in its process it has no thread and no connection that a fork could tear. It reads one JSON object
a line: {"deed": "name", "arguments": [...], "crash": "point"} starts a child and answers {"pid": ...},
{"wait": pid, "seconds": ...} answers {"status": ..., "result": ...} once that child has ended.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.faults import tally

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """`status` is negative for a signal; `result` is what the deed returned."""

    status: int
    result: Any


@dataclass
class Child:
    warm: "Warm"
    pid: int

    def wait(self, seconds: float = 60) -> Ended:
        answer = self.warm.ask({"wait": self.pid, "seconds": seconds})
        assert answer, f"{self.pid} did not end within {seconds:g} s; it said: {self.warm.words()}"
        ended = Ended(**answer)
        if ended.status == -signal.SIGKILL:
            tally.fault("worker killed")
        return ended

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if how == signal.SIGCONT:
            tally.fault("worker asleep beyond its lease")
        os.kill(self.pid, how)

    def is_stopped(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Warm:
    """The handle of the warm process for the process that gives it orders."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, __file__],
                env=environment | {"PYTHONPATH": str(ROOT), "DEBUG_CRASH": "1"},
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def ask(self, order: dict[str, Any]) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(order), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, f"the warm process is gone: {self.words()}"
        return json.loads(line)

    def start(self, deed: str, *arguments: object, crash: str = "") -> Child:
        return Child(self, self.ask({"deed": deed, "arguments": arguments, "crash": crash})["pid"])

    def do(self, deed: str, *arguments: object, seconds: float = 60) -> Any:
        """Waits until the deed has ended, and returns its result."""
        ended = self.start(deed, *arguments).wait(seconds)
        assert ended.status == 0, f"{deed} ended with status {ended.status}: {self.words()}"
        return ended.result

    def stop(self) -> None:
        """Its children end with it."""
        self.process.kill()
        self.process.communicate()

    def words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def _fork(order: dict[str, Any]) -> tuple[int, IO[str]]:
    """The child's result comes through a file that has no name."""
    reader, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _live(order, write)
    os.close(write)
    return pid, os.fdopen(reader)


def _live(order: dict[str, Any], write: int) -> None:
    from core import failpoints
    from pegboard.local.processes import die_with_parent
    from tests.faults import deeds

    die_with_parent(os.getppid(), signal.SIGKILL)
    os.dup2(2, 1)
    status = 1
    try:
        failpoints.arm(order["crash"])
        result = getattr(deeds, order["deed"])(*order["arguments"])
        with os.fdopen(write, "w") as file:
            json.dump(result, file, default=str)
        status = 0
    except BaseException:  # noqa: BLE001 - the outermost frame of this process
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wait(pid: int, result: IO[str], seconds: float) -> dict[str, Any] | None:
    end = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            text = result.read()
            result.close()
            return {
                "status": os.waitstatus_to_exitcode(status),
                "result": json.loads(text) if text else None,
            }
        if time.monotonic() > end:
            return None
        time.sleep(0.005)


def main() -> None:
    import django

    django.setup()
    from tests.faults import deeds

    deeds.load()
    children: dict[int, IO[str]] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "deed" in order:
            pid, result = _fork(order)
            children[pid] = result
            answer: Any = {"pid": pid}
        else:
            pid = order["wait"]
            answer = _wait(pid, children[pid], order["seconds"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
