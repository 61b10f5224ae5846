"""`doctor --restore`: restores a backup into a scratch database, and compares that with this one."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
from django.conf import settings
from django.db import connection
from django.utils import timezone
from psycopg import sql

from core.own_commands import MANAGE
from pegboard.ops.backup_files import list_backups, time_of
from pegboard.ops.doctor.frame import CheckResult, DoctorCheck, Trouble
from pegboard.server_addresses import DatabaseAddress, parse_database_address

# A backup each night may be late by another night.
MAX_AGE = timedelta(days=2)
RELEASES = "SELECT agent_id, number, digest FROM designer_release"
AUDIT_HEAD = "SELECT position, hash FROM people_audithead WHERE id = 1"
AUDIT_ENTRY = "SELECT hash FROM people_auditentry WHERE position = %s"
TOOLS = "SELECT count(*) FROM catalog_tool"


@dataclass(frozen=True, slots=True)
class RestoreComparison:
    """Rows of the restored database beside those of this one.

    releases: digests by agent and number. position and hash: the last audit entry of the backup.
    here_position: the last audit entry of this database. here_hash: its entry at `position`, "" for none.
    """

    restored_releases: Mapping[tuple[int, int], str]
    here_releases: Mapping[tuple[int, int], str]
    restored_tools: int
    here_tools: int
    position: int
    hash: str
    here_position: int
    here_hash: str


def try_restore(file: Path | None) -> CheckResult:
    """Try the given backup, or the newest one in PEGBOARD_BACKUPS."""
    facts: list[str] = []
    troubles = tuple(_find_troubles(file, facts))
    return CheckResult(
        DoctorCheck("restore", "the newest backup restores", lambda limits: iter(())),
        troubles,
        facts=tuple(facts),
    )


def _find_troubles(file: Path | None, facts: list[str]) -> Iterator[Trouble]:
    directory = Path(settings.BACKUPS) if settings.BACKUPS else None
    backups = list_backups(directory) if directory and directory.is_dir() else []
    backup = file or next(reversed(backups), None)
    if backup is None or not backup.is_file():
        yield Trouble(
            f"There is no backup {backup}."
            if backup
            else "PEGBOARD_BACKUPS names no directory with a backup.",
            "What is lost with the database cannot be restored.",
            f"Run {MANAGE} backup, or name a file: {MANAGE} doctor --restore FILE.",
        )
        return
    made_at = time_of(backup)
    facts.append(f"{backup} was made {describe_age(made_at, timezone.now())}.")
    if timezone.now() - made_at > MAX_AGE:
        yield Trouble(
            f"The newest backup was made {describe_age(made_at, timezone.now())}.",
            "What was written since cannot be restored.",
            "See why no backup is made each night.",
        )
    name = f"pegboard_trial_{uuid.uuid4().hex[:12]}"
    url = os.environ.get("DATABASE_URL", "postgresql://127.0.0.1/pegboard")
    address = parse_database_address("DATABASE_URL", url)
    here = replace(address, name=str(connection.settings_dict["NAME"]))
    scratch = replace(address, name=name)
    try:
        with closing(psycopg.connect(**here.parameters(), autocommit=True)) as server:
            server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            try:
                yield from _restore_and_compare(backup, scratch, here, facts)
            finally:
                server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    except psycopg.errors.InsufficientPrivilege:
        yield Trouble(
            "The role of DATABASE_URL may not create a database, so the backup was not tried.",
            "Only a restore shows that a backup is good.",
            "Let DATABASE_URL name the owner of the tables, and give that role CREATEDB.",
        )
    except psycopg.Error as error:
        yield Trouble(
            f"The backup was not tried: {' '.join(str(error).split())}",
            "Only a restore shows that a backup is good.",
            "Start PostgreSQL, and see whether DATABASE_URL names it and not a pooler.",
        )


def _restore_and_compare(
    backup: Path, scratch: DatabaseAddress, here: DatabaseAddress, facts: list[str]
) -> Iterator[Trouble]:
    variables = {name: value for name, value in os.environ.items() if name != "REPLACED_DATABASE_URL"}
    # Nothing is written into the trial: --newest leaves no gap in the numbers.
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "manage.py", "restore", str(backup), "--newest"],
        cwd=settings.BASE_DIR,
        env=variables | {"DATABASE_URL": scratch.url()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = " ".join(done.stderr.split()).removeprefix("CommandError: ")
        yield Trouble(
            f"{backup} does not restore: {reason[-600:]}",
            "It would not help if the database were lost.",
            "Make another backup and try that; keep this one until it is known to be good.",
        )
        return
    comparison = _read_comparison(scratch, here)
    facts.append(
        "It restores, every claim about its data holds, and its audit trail is whole: "
        f"{len(comparison.restored_releases):,} of now {len(comparison.here_releases):,} releases, "
        f"{comparison.restored_tools:,} of now {comparison.here_tools:,} tools, "
        f"{comparison.position:,} of now {comparison.here_position:,} audit entries."
    )
    yield from compare(comparison)


def _read_comparison(scratch: DatabaseAddress, here: DatabaseAddress) -> RestoreComparison:
    with (
        closing(psycopg.connect(**scratch.parameters())) as restored,
        closing(psycopg.connect(**here.parameters())) as current,
    ):
        position, head = restored.execute(AUDIT_HEAD).fetchone() or (0, "")
        entry = current.execute(AUDIT_ENTRY, [position]).fetchone()
        return RestoreComparison(
            restored_releases=_read_releases(restored),
            here_releases=_read_releases(current),
            restored_tools=(restored.execute(TOOLS).fetchone() or (0,))[0],
            here_tools=(current.execute(TOOLS).fetchone() or (0,))[0],
            position=position,
            hash=head,
            here_position=(current.execute(AUDIT_HEAD).fetchone() or (0, ""))[0],
            here_hash=entry[0] if entry else "",
        )


def _read_releases(database: psycopg.Connection) -> dict[tuple[int, int], str]:
    return {(agent, number): digest for agent, number, digest in database.execute(RELEASES)}


def compare(comparison: RestoreComparison) -> Iterator[Trouble]:
    """Yield a problem if the backup has releases or audit entries that this database lacks or has changed."""
    here = comparison.here_releases
    different = [key for key, digest in comparison.restored_releases.items() if here.get(key) != digest]
    if different:
        yield Trouble(
            f"{len(different):,} releases of the backup are missing here, or have another digest.",
            "The backup is not of this database, or releases were changed after it was made.",
            f"Run {MANAGE} verify_audit, and see which database is backed up.",
        )
    if comparison.position and comparison.hash != comparison.here_hash:
        yield Trouble(
            f"Audit entry {comparison.position:,} of the backup is not in the audit trail of this database.",
            "The backup is not of this database, or the trail was changed after it was made.",
            f"Run {MANAGE} verify_audit, and see which database is backed up.",
        )


def describe_age(made_at: datetime, now: datetime) -> str:
    """Return “2 hours ago” with the time."""
    hours = int((now - made_at).total_seconds() // 3600)
    number, unit = (hours // 24, "day") if hours >= 48 else (hours, "hour")
    return f"{number} {unit}{'' if number == 1 else 's'} ago, at {made_at:%Y-%m-%d %H:%M} UTC"
