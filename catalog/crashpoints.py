"""Named places where a test may kill the process, to prove that nothing is lost there.

`CRASHPOINT=name` (or `name:n` for the n-th pass) together with `DEBUG_CRASH=1` makes the process kill
itself with SIGKILL. Without both variables a crash point costs one comparison; `manage.py check
--deploy` refuses them.
"""

import os
import signal

_armed = os.environ.get("CRASHPOINT", "") if os.environ.get("DEBUG_CRASH") == "1" else ""
_name, _, _count = _armed.partition(":")
_left = int(_count or 1)


def crashpoint(name: str) -> None:
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
