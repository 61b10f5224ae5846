"""Keeps this host's index current while a web server runs.

Each process of the web server has such a thread, and one of them works at a time. It indexes a few changes
itself. Many would take the interpreter from the requests of its process: a process of its own indexes them,
and ends.
"""

import fcntl
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection

from catalog.meaning.client import MeaningUnavailableError
from catalog.meaning.process import MeaningProcess
from catalog.search import changes, index, meanings
from catalog.search.engines import IndexUnusableError
from core.priority import NICENESS

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# After a failure, as of a full disk or a database that is away.
RETRY_SECONDS = 15.0
# A thread indexes so many within a tenth of a second.
FEW_CHANGES = 100


def start() -> None:
    threading.Thread(target=_follow, name="search index", daemon=True).start()


def _follow() -> None:
    with _only_follower_of_host():
        process, trouble = meanings.start_process(), ""
        while True:
            is_behind = False
            try:
                _catch_up()
                is_behind, trouble = _make_vectors(process, trouble) if process else (False, "")
            except (IndexUnusableError, DatabaseError, OSError):
                logger.warning("The search index could not be written; it is tried again", exc_info=True)
                time.sleep(RETRY_SECONDS)
            finally:
                connection.close()
            if not is_behind:
                time.sleep(POLL_SECONDS)


def _make_vectors(process: MeaningProcess, last_trouble: str) -> tuple[bool, str]:
    """Make vectors for a moment, after the index; return whether some are missing, and why none can be made.

    Logs the trouble when it begins, changes or ends.
    """
    is_behind, trouble = False, ""
    try:
        if not process.ensure_running():
            return False, last_trouble
        is_behind = meanings.follow(ends=time.monotonic() + POLL_SECONDS)
    except MeaningUnavailableError as error:
        trouble = str(error)
        if trouble != last_trouble:
            logger.warning("Meanings of tools are not compared for now: %s", trouble)
    if last_trouble and not trouble:
        logger.warning("Meanings of tools are compared again")
    return is_behind, trouble


@contextmanager
def _only_follower_of_host() -> Iterator[None]:
    """Wait until no other process of this host follows."""
    directory = Path(settings.SEARCH_DIRECTORY)
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(directory / "follower", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            break
        except OSError:
            logger.warning("PEGBOARD_SEARCH_DIRECTORY cannot be used", exc_info=True)
            time.sleep(RETRY_SECONDS)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _catch_up() -> None:
    state, moment = index.index_state(), changes.database_moment()
    if state is None or state.filled_through is not None or not changes.is_usable(state, moment):
        _run_command("--missing")
        return
    if state.recipe != index.current_recipe():
        # Searches use the former index until the new one is complete.
        _run_command()
        return
    change_count = changes.count_changes(state, FEW_CHANGES + 1)
    if change_count > FEW_CHANGES:
        _run_command("--missing")
    elif change_count or moment.time - state.written_at > index.REFRESH_SECONDS:
        index.index_pending(waits=False)


def _run_command(*options: str) -> None:
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "rebuild_search_index", *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:  # noqa: S603 - a constant
        os.setpriority(os.PRIO_PROCESS, process.pid, os.nice(0) + NICENESS)
    if process.returncode:
        raise IndexUnusableError(f"rebuild_search_index ended with {process.returncode}")
