"""The check after each storm: no message and no work waits for long once workers run again.

A storm may end with all its workers killed. New ones and a scheduler start on the same servers, perform
what the storm left, and stop.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from django.conf import settings

from catalog import waiting_work
from core import redis_client
from pegboard.process_commands import BEAT, CALLER, FOR_CALLS, SLOW, WORKER
from soak.frame import Field, wait_for

# A dead worker's lease of 40 s ends first. Then 10,000 tools may have to be inspected and indexed.
EMPTY_WITHIN = 180.0  # seconds
STOPS_WITHIN = 30.0
PROCESSES: tuple[tuple[tuple[str, ...], Mapping[str, str]], ...] = (
    (WORKER, {}),
    (SLOW, {}),
    (CALLER, FOR_CALLS),
    (BEAT, {}),
)


@dataclass(frozen=True)
class Backlog:
    """messages: how many no worker has received, by queue. seconds: the oldest waiting work, by kind."""

    messages: dict[str, int]
    seconds: dict[str, float]

    @property
    def is_empty(self) -> bool:
        return not any(self.messages.values()) and not any(self.seconds.values())

    def __str__(self) -> str:
        """Return "queue 0, waiting 0", or how many messages and which kinds of work wait for how long."""
        late = [f"{name} for {seconds:.0f} s" for name, seconds in self.seconds.items() if seconds]
        return f"queue {sum(self.messages.values()):,}, waiting {', '.join(late) or 0}"


def read_backlog() -> Backlog:
    broker = redis_client.client()
    messages = {queue.name: broker.llen(queue.name) for queue in settings.CELERY_TASK_QUEUES}
    return Backlog(messages, waiting_work.oldest_seconds())


def check_backlog_empties(field: Field) -> None:
    """Report how long the backlog of the storm takes to empty. Longer than the bound is a violation."""
    field.figure("backlog after the storm", str(read_backlog()))
    with ExitStack() as stack:
        if not read_backlog().is_empty:
            for command, variables in PROCESSES:
                stack.enter_context(_process(field, command, variables))
        seconds = wait_for(lambda: read_backlog().is_empty, EMPTY_WITHIN)
        if seconds is None:
            field.violation(f"{read_backlog()} after {EMPTY_WITHIN:g} s with workers")
        else:
            field.figure("queue 0, waiting 0 within", f"{seconds:.1f} s (limit {EMPTY_WITHIN:g} s)")


@contextmanager
def _process(field: Field, command: tuple[str, ...], variables: Mapping[str, str]) -> Iterator[None]:
    environment = field.environment | dict(variables)
    with (field.directory / "closing.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
