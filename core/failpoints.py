"""Named points where a test can kill the process, to prove that a crash there loses nothing.

With `CRASHPOINT=name` and `DEBUG_CRASH=1` the process sends itself SIGKILL when it first reaches the point.
`name:n` means the n-th time, `name:n:SIGSTOP` another signal. Without both variables a failpoint costs one
comparison; `manage.py check --deploy` rejects them.
"""

import os
import signal

_name = ""
_remaining = 0
_signal = signal.SIGKILL


def arm(point: str) -> None:
    """Do what CRASHPOINT does in a process that already runs. Does nothing without DEBUG_CRASH=1."""
    global _name, _remaining, _signal
    if os.environ.get("DEBUG_CRASH") == "1":
        _name, count, signal_name = [*point.split(":"), "", ""][:3]
        _remaining, _signal = int(count or 1), signal.Signals[signal_name or "SIGKILL"]


def failpoint(name: str) -> None:
    global _remaining
    if name == _name:
        _remaining -= 1
        if _remaining == 0:
            os.kill(os.getpid(), _signal)


arm(os.environ.get("CRASHPOINT", ""))
