"""Backups as files: their names by time, and the PostgreSQL that each comes from.

The header of the file states it. Its layout is that of ReadHead() in PostgreSQL's
src/bin/pg_dump/pg_backup_archiver.c.
"""

import re
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

MAGIC = b"PGDMP"
CUSTOM_FORMAT = 1
# The first version of PostgreSQL whose pg_restore reads a version of the format.
FIRST_READERS = {(1, 14): 12, (1, 15): 16, (1, 16): 17}
# From this version of the format on, a byte names the algorithm of the compression in place of its level.
ALGORITHM_SINCE = (1, 15)
TIME_FIELDS = 7
NAME_FORMAT = "pegboard-%Y-%m-%dT%H-%M-%SZ"
# A backup is written under another name until it is complete.
PARTIAL_SUFFIX = ".new"
# Longer than any backup takes: what is older was interrupted.
INTERRUPTED_AFTER = timedelta(days=1)
MAX_TEXT_BYTES = 1024


class BackupError(Exception):
    """A backup cannot be made or restored. The message states the reason, and what to do."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """The origin of a backup, in major versions of PostgreSQL.

    server: the server that was backed up; program: the pg_dump that wrote the file.
    oldest_reader: the first version whose pg_restore reads the file.
    """

    server: int
    program: int
    oldest_reader: int


def read_backup_file(path: Path) -> BackupFile:
    """Read the header of a backup. Raises BackupError and OSError."""
    try:
        with path.open("rb") as file:
            magic, major, minor, _, size_of_int, _, archive_format = struct.unpack("5s6B", file.read(11))
            if (magic, archive_format) != (MAGIC, CUSTOM_FORMAT):
                raise ValueError(magic)
            if (major, minor) >= ALGORITHM_SINCE:
                file.read(1)
            else:
                _read_int(file, size_of_int)
            for _ in range(TIME_FIELDS):
                _read_int(file, size_of_int)
            texts = []
            for _ in range(3):
                length = _read_int(file, size_of_int)
                if not 0 <= length <= MAX_TEXT_BYTES:
                    raise ValueError(length)
                texts.append(file.read(length).decode())
            _, server, program = texts
            program_version = major_version(program)
            return BackupFile(
                server=major_version(server),
                program=program_version,
                oldest_reader=FIRST_READERS.get((major, minor), program_version),
            )
    except (ValueError, struct.error) as error:
        raise BackupError(
            f"{path} is no backup: only the command backup and pg_dump --format=custom write one."
        ) from error


def _read_int(file: IO[bytes], size: int) -> int:
    sign, *digits = file.read(1 + size)
    value = int.from_bytes(bytes(digits), "little")
    return -value if sign else value


def major_version(text: str) -> int:
    """Return 15 for “15.18 (Debian 15.18-0+deb12u1)” and 19 for “19beta1”. Raises ValueError."""
    digits = re.match(r"\d+", text)
    return int(digits[0] if digits else text)


def name_at(moment: datetime) -> str:
    """Return the name of a backup that begins at this moment."""
    return moment.astimezone(UTC).strftime(NAME_FORMAT)


def list_backups(directory: Path) -> list[Path]:
    """Return the backups that are named by their time, oldest first."""
    return sorted(path for path in directory.iterdir() if _time_in_name(path) is not None)


def time_of(path: Path) -> datetime:
    """Return when a backup was made: by its name, or else by the file's modification time. Raises OSError."""
    return _time_in_name(path) or datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _time_in_name(path: Path) -> datetime | None:
    try:
        return datetime.strptime(path.name, NAME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None


def delete_old_backups(directory: Path, *, keep: int, now: datetime) -> int:
    """Delete all but the newest `keep` backups, and the files of interrupted ones. Return the number of
    deleted files.
    """
    backups = list_backups(directory)
    interrupted = [
        path
        for path in directory.glob(f"pegboard-*{PARTIAL_SUFFIX}")
        if time_of(path) < now - INTERRUPTED_AFTER
    ]
    old = [*backups[: max(0, len(backups) - keep)], *interrupted]
    for path in old:
        path.unlink()
    return len(old)
