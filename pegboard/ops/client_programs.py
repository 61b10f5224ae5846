"""PostgreSQL's client programs on this machine, and which of them fit a server and a backup.

pg_dump writes, and pg_restore sets, what servers of its own version understand. A newer one may write or set
what an older server refuses.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pegboard.local.embedded import packaged_programs
from pegboard.ops.backup_files import BackupError, BackupFile, major_version

DEBIAN_PROGRAMS = Path("/usr/lib/postgresql")
# pg_restore sets transaction_timeout from this version on, and servers know it from this version on.
TRANSACTION_TIMEOUT_SINCE = 17


@dataclass(frozen=True, slots=True)
class ClientPrograms:
    """A directory with pg_dump and pg_restore, their major version, and psql where it is installed too."""

    directory: Path
    version: int
    psql: Path | None = None


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The pg_restore to use. With `psql` its SQL is run by that, without what the server does not know."""

    pg_restore: Path
    psql: Path | None = None


def find_client_programs() -> list[ClientPrograms]:
    """Return the programs of PEGBOARD_PG_BIN, of PATH, of Debian's packages and of Pegboard, in this
    order."""
    configured, package = os.environ.get("PEGBOARD_PG_BIN"), packaged_programs()
    directories = [Path(configured)] if configured else []
    directories += map(Path, filter(None, os.get_exec_path()))
    directories += sorted(DEBIAN_PROGRAMS.glob("*/bin"))
    directories += [package] if package else []
    programs = []
    for directory in dict.fromkeys(directories):
        if (directory / "pg_dump").exists() and (directory / "pg_restore").exists():
            version = subprocess.run(  # noqa: S603 - PostgreSQL's own program
                [directory / "pg_restore", "--version"], capture_output=True, text=True, check=False
            ).stdout
            if version.strip():
                psql = directory / "psql"
                number = major_version(version.split()[2])
                programs.append(ClientPrograms(directory, number, psql if psql.exists() else None))
    return programs


def choose_pg_dump(programs: Sequence[ClientPrograms], *, server: int) -> Path:
    """Return the pg_dump of the server's version. Raises BackupError."""
    for candidate in programs:
        if candidate.version == server:
            return candidate.directory / "pg_dump"
    raise BackupError(
        f"This server is PostgreSQL {server}, and {_list_versions('pg_dump', programs)}. "
        f"PostgreSQL {server} restores for certain only what its own pg_dump has written. "
        f"{_install_advice(server)}"
    )


def plan_restore(programs: Sequence[ClientPrograms], backup: BackupFile, *, server: int) -> RestorePlan:
    """Choose a pg_restore that reads the backup, and psql if the server refuses the settings of pg_restore.

    Raises BackupError.
    """
    if backup.server > server:
        raise BackupError(
            f"This backup comes from PostgreSQL {backup.server}. This server is PostgreSQL {server}, which "
            f"does not understand it. Restore it into PostgreSQL {backup.server} or newer."
        )
    readers = [candidate for candidate in programs if candidate.version >= backup.oldest_reader]
    if not readers:
        raise BackupError(
            f"This backup was written by pg_dump {backup.program}, and "
            f"{_list_versions('pg_restore', programs)}. {_install_advice(max(server, backup.oldest_reader))}"
        )
    reader = min(
        readers,
        key=lambda candidate: (_is_refused(candidate.version, server), abs(candidate.version - server)),
    )
    pg_restore = reader.directory / "pg_restore"
    if not _is_refused(reader.version, server):
        return RestorePlan(pg_restore)
    for candidate in (reader, *programs):
        if candidate.psql:
            return RestorePlan(pg_restore, candidate.psql)
    raise BackupError(
        f"PostgreSQL {server} refuses a setting of pg_restore {reader.version}, and no psql was found that "
        f"could leave it out. {_install_advice(server)}"
    )


def _is_refused(program: int, server: int) -> bool:
    return program >= TRANSACTION_TIMEOUT_SINCE > server


def _list_versions(program: str, programs: Sequence[ClientPrograms]) -> str:
    versions = sorted({candidate.version for candidate in programs})
    if not versions:
        return f"no {program} was found"
    return f"{program} was found in version {' and '.join(map(str, versions))} only"


def _install_advice(version: int) -> str:
    return (
        f"Install the client programs of PostgreSQL {version} (on Debian: postgresql-client-{version}), or "
        "set PEGBOARD_PG_BIN to the directory that contains them."
    )
