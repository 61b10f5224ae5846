"""Management commands as they are called in this installation, for messages that advise one."""

import os
import shlex
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def default_command(python: Path, root: Path) -> str:
    """Return `.venv/bin/python manage.py` for Python inside `root`, and the whole path for any other."""
    path = python.relative_to(root) if python.is_relative_to(root) else python
    return f"{shlex.quote(str(path))} manage.py"


# The words before the name of a management command.
MANAGE = os.environ.get("PEGBOARD_MANAGE") or default_command(Path(sys.executable), _ROOT)
