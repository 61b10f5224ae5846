"""Starts the process that compares meanings, and again when it has ended."""

import logging
import math
import os
import subprocess
import sys
import time
from pathlib import Path

from catalog.meaning.messages import SOCKET

logger = logging.getLogger(__name__)

# So long after its start a process that has ended is started again, twice as long each time that it ends
# soon, as without memory.
FIRST_RESTART_SECONDS, RESTART_SECONDS = 10.0, 60.0
# A process that starts anew without its model has no socket for a moment.
SOCKET_SECONDS = 10.0
# The model stays in memory for so long after a request.
IDLE_SECONDS = 60.0
# An address of a socket is at most 107 bytes long.
MAX_ADDRESS = 100


class MeaningProcess:
    """The process of this host, which ends with the process that started it."""

    def __init__(self, directory: Path, encoder: str, root: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        self._directory, self._encoder, self._root = directory, encoder, root
        self._idle_seconds = idle_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at, self._reachable_at = -math.inf, 0.0
        self._restart_seconds = 0.0

    def ensure_running(self) -> bool:
        """Start the process if it does not run, or if its socket was deleted; return whether it runs."""
        if self._process is not None and self._process.poll() is None:
            if (self._directory / SOCKET).exists():
                self._reachable_at = time.monotonic()
            if time.monotonic() - self._reachable_at < SOCKET_SECONDS:
                return True
            self._process.kill()
            self._process.communicate()
        now = time.monotonic()
        seconds = now - self._started_at
        if seconds < self._restart_seconds:
            return False
        longer = FIRST_RESTART_SECONDS if seconds > RESTART_SECONDS else 2 * self._restart_seconds
        self._restart_seconds = min(longer, RESTART_SECONDS)
        self._started_at = self._reachable_at = now
        if len(os.fsencode(self._directory / SOCKET)) > MAX_ADDRESS:
            logger.warning("Searches compare no meanings: PEGBOARD_SEARCH_DIRECTORY is too long a path")
            return False
        if self._process is not None:
            logger.warning("The process that compares meanings ended with %s", self._process.returncode)
        values = [str(self._directory), self._encoder, str(self._idle_seconds)]
        self._process = subprocess.Popen(  # noqa: S603 - a constant and settings
            [sys.executable, "-m", "catalog.meaning.server", *values],
            cwd=self._root,
            stdin=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        return True
