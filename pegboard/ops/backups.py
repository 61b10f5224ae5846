"""A copy of the database in one file, and back: PostgreSQL's own pg_dump and pg_restore.

The embedded server brings both programs along, where they are on no path; so they are found here.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from django.core.management import call_command
from django.db import connection

from catalog import invariants
from core import encryption
from pegboard.local.embedded import EmbeddedError, embedded_programs
from pegboard.ops import newer_facts
from people.audit import verify

# Users sign in again after a restore.
LEFT_OUT = ("django_session",)


class BackupError(Exception):
    """Says what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What the backup contains; what was written after it; what is wrong with it, in sentences."""

    tools: int
    releases: int
    newer: tuple[str, ...]
    problems: tuple[str, ...]


def back_up(target: Path) -> int:
    """Write one moment of the database into a file that only its owner may read; return its size in bytes.

    A backup that fails leaves no file. Raises BackupError.
    """
    if target.exists():
        raise BackupError(f"{target} exists already. Choose another name, or move it away.")
    # A backup that was killed is never mistaken for a complete one: it has another name.
    partial = target.with_name(target.name + ".new")
    left_out = [f"--exclude-table-data={table}" for table in LEFT_OUT]
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _run(
                "pg_dump", "--format=custom", "--no-owner", "--no-privileges", *left_out, output=file.fileno()
            )
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return target.stat().st_size


def restore(source: Path, *, replaced: str = "", is_newest: bool = False) -> Restored:
    """Restore into an empty database, in one transaction; then migrate it and check its claims.

    replaced: address of the database that this one takes the place of, to find what the backup lacks.
    is_newest: nothing was written after the backup, so release numbers continue without a gap.
    Raises BackupError.
    """
    if not source.is_file():
        raise BackupError(f"There is no file {source}.")
    # Restoring over what is there would mix two installations.
    if tables := connection.introspection.table_names():
        raise BackupError(
            f"The database holds {len(tables)} tables already. Restore into an empty one: make it with "
            "createdb, and let DATABASE_URL name it."
        )
    connection.close()
    _run(
        "pg_restore",
        *("--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"),
        # Without --dbname, pg_restore writes to its output; the rest comes from the environment.
        f"--dbname={connection.settings_dict['NAME']}",
        str(source),
    )
    call_command("migrate", interactive=False, verbosity=0)
    with connection.cursor() as cursor:
        # A restored database knows nothing of its tables, and plans badly until it does.
        cursor.execute("ANALYZE")
        cursor.execute("SELECT (SELECT count(*) FROM catalog_tool), (SELECT count(*) FROM designer_release)")
        tools, releases = cursor.fetchone()
    newer = tuple(_newer(replaced, is_newest=is_newest))
    return Restored(tools, releases, newer, tuple(_problems()))


def _newer(replaced: str, *, is_newest: bool) -> Iterator[str]:
    last = newer_facts.newest_entry()
    if last:
        yield f"Its last audit entry is of {last:%Y-%m-%d %H:%M:%S} UTC."
    if is_newest:
        return
    if not replaced:
        newer_facts.reserve_numbers(None)
        yield (
            "What was written after that is not in this backup: releases, API keys, audit entries. Runtimes "
            "may use releases that are missing here, so the next release of each agent leaves a gap of "
            f"{newer_facts.GAP:,} numbers."
        )
        return
    try:
        facts = newer_facts.read_newer_facts(replaced)
    except psycopg.Error as error:
        newer_facts.reserve_numbers(None)
        yield f"The replaced database could not be read: {' '.join(str(error).split())}"
    else:
        newer_facts.reserve_numbers(facts.numbers)
        yield from facts.sentences()


def _problems() -> Iterator[str]:
    with connection.cursor() as cursor:
        # The limit is for pages; these look at every row.
        cursor.execute("SET statement_timeout = 0")
    try:
        ring = encryption.keyring()
    except encryption.KeyringError as exc:
        yield str(exc)
    else:
        for key_id, count in sorted(encryption.missing_keys(ring).items()):
            yield f"{count:,} secrets need the key “{key_id}”. Put it back into PEGBOARD_KEYS."
    # Told above already, with the keys by their names.
    wanted = [claim.name for claim in invariants.claims() if claim.name != "secret_keys"]
    yield from map(str, invariants.check(only=wanted))
    if broken := verify.verify().broken:
        yield f"The audit trail is broken. {broken}"


def _run(program: str, *arguments: str, output: int | None = None) -> None:
    # With the password in the environment, where other users of this machine do not see it.
    done = subprocess.run(  # noqa: S603 - PostgreSQL's own programs
        [str(_program(program)), *arguments],
        env=os.environ | _access(),
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = " ".join(done.stderr.strip().splitlines()[-3:]) or "it gives no reason."
        raise BackupError(f"{program} failed: {reason}")


def _program(name: str) -> Path:
    try:
        ours = embedded_programs() / name
    except EmbeddedError:
        ours = None
    found = ours if ours and ours.exists() else shutil.which(name)
    if found is None:
        raise BackupError(
            f"There is no {name} here. Install PostgreSQL's client programs, or set PEGBOARD_PG_BIN to where "
            "they lie."
        )
    return Path(found)


def _access() -> dict[str, str]:
    # How libpq's programs reach the database that Django reaches.
    here = connection.settings_dict
    names = {
        "HOST": "PGHOST",
        "PORT": "PGPORT",
        "USER": "PGUSER",
        "PASSWORD": "PGPASSWORD",
        "NAME": "PGDATABASE",
    }
    # In the environment and not as arguments, which every user of the machine can read.
    access = {variable: str(here[name]) for name, variable in names.items() if here[name]}
    stated = here["OPTIONS"].items()
    return access | {f"PG{name.upper()}": str(value) for name, value in stated if name.startswith("ssl")}
