"""Named places where a test may kill the process, to prove that nothing is lost there.

`CRASHPOINT=name` together with `DEBUG_CRASH=1` makes the process kill itself with SIGKILL when it first
passes there. `name:n` stands for the n-th pass, `name:n:SIGSTOP` for another signal. Without both
variables a failpoint costs one comparison; `manage.py check --deploy` refuses them.
"""

import os
import signal

_name = ""
_left = 0
_how = signal.SIGKILL


def arm(point: str) -> None:
    """As CRASHPOINT does, for a process that is running already. Does nothing without DEBUG_CRASH=1."""
    global _name, _left, _how
    if os.environ.get("DEBUG_CRASH") == "1":
        _name, count, how = [*point.split(":"), "", ""][:3]
        _left, _how = int(count or 1), signal.Signals[how or "SIGKILL"]


def failpoint(name: str) -> None:
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), _how)


arm(os.environ.get("CRASHPOINT", ""))
