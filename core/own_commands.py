"""Commands as they are called in this installation, for messages that advise one."""

import os
import shlex
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def default_command(python: Path, root: Path) -> str:
    """Return `.venv/bin/python manage.py` for Python inside `root`, and the whole path for any other."""
    return f"{_relative_path(python, root)} manage.py"


def program_path(name: str) -> str:
    """Return the path of a program that was installed beside the Python that runs."""
    return _relative_path(Path(sys.executable).with_name(name), _ROOT)


def _relative_path(path: Path, root: Path) -> str:
    return shlex.quote(str(path.relative_to(root) if path.is_relative_to(root) else path))


# The words before the name of a management command.
MANAGE = os.environ.get("PEGBOARD_MANAGE") or default_command(Path(sys.executable), _ROOT)
