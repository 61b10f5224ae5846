"""Migrates once for all workers of a parallel run, while they collect: each of them copies the result.

Only on servers of the run's own, whose first database has no other user. If migrating fails, each worker
continues from where it ended and logs why.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from django.db import connection

_ROOT = Path(__file__).resolve().parent.parent


def _lock() -> Path:
    return Path(os.environ["PEGBOARD_TEST_DATA"], "migrating")


def begin() -> subprocess.Popen[bytes]:
    """The process holds the lock until it ends."""
    with _lock().open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return subprocess.Popen(
            [sys.executable, "manage.py", "migrate", "--noinput", "--verbosity=0"],
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": str(_ROOT / "tests" / "children")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[lock.fileno()],
        )


def copy_what_was_made() -> bool:
    """Wait for the result. Return True if there is one to copy: a run in one process migrates by itself."""
    if "PEGBOARD_TEST_DATA" not in os.environ or not _lock().exists():
        return False
    with _lock().open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    connection.settings_dict["TEST"]["TEMPLATE"] = _template()
    return True


def copy_rights() -> None:
    """Copy the rights on the database itself, which copying a database leaves behind."""
    with connection.cursor() as cursor:
        cursor.execute("SET allow_system_table_mods = on")
        cursor.execute(
            "UPDATE pg_database SET datacl = made.datacl FROM pg_database made"
            " WHERE made.datname = %s AND pg_database.datname = current_database()",
            [_template()],
        )
        cursor.execute("RESET allow_system_table_mods")


def _template() -> str:
    return urlsplit(os.environ["DATABASE_URL"]).path.removeprefix("/")
