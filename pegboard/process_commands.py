"""The commands that start the processes, for `make run` and for messages.

docker-compose.yml, deploy/systemd/ and deploy/helm/ contain the same commands; tests compare them.
"""

import os
import shlex

from core.own_commands import program_path

GUNICORN = ("gunicorn", "-c", "python:pegboard.gunicorn")
# For the web processes of runtimes: a thread costs little while it waits for a vendor.
FOR_RUNTIMES = {"WEB_WORKERS": "2", "WEB_THREADS": "256"}
_WORKER = ("celery", "-A", "pegboard", "worker", "--loglevel", "INFO")
# Messages between workers, which one machine does not need and a large deployment should not have.
_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
# The number of processes follows the work; idle ones end after half a minute.
WORKER = (*_WORKER, "--queues", "enumeration", "--autoscale", "14,1", *_QUIET)
# Threads, because a call may take a day and costs little while it waits for its vendor.
_CALLS = ("--queues", "calls", "--hostname", "calls@%h", "--pool", "threads", "--concurrency", "64")
CALLER = (*_WORKER, *_CALLS, *_QUIET)
FOR_CALLS = {"PEGBOARD_DATABASE_CONNECTIONS": "12"}
SLOW = (*_WORKER, "--queues", "slow", "--hostname", "slow@%h", "--autoscale", "2,1", *_QUIET)
BEAT = ("celery", "-A", "pegboard", "beat", "--loglevel", "INFO")

_COMMANDS = {"worker": (WORKER, {}), "caller": (CALLER, FOR_CALLS), "slow": (SLOW, {}), "beat": (BEAT, {})}


def start_command(process: str) -> str:
    """Return the command that starts a process here: PEGBOARD_START, or the program with its options."""
    if template := os.environ.get("PEGBOARD_START"):
        return template.replace("{process}", process)
    (program, *arguments), variables = _COMMANDS[process]
    settings = "".join(f"{name}={value} " for name, value in variables.items())
    return f"{settings}{program_path(program)} {shlex.join(arguments)}"
