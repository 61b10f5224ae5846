"""A copy of the database in one file, and back: PostgreSQL's own pg_dump and pg_restore.

The embedded server brings both programs along, where they are on no path; so they are found here.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.core.management import call_command
from django.db import connection

from catalog import invariants
from core import encryption
from pegboard.local.embedded import EmbeddedError, embedded_programs
from people.audit import verify

# Users sign in again after a restore.
LEFT_OUT = ("django_session",)


class BackupError(Exception):
    """Says what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What the copy holds, and what is wrong with it: sentences, none where all is well."""

    tools: int
    releases: int
    problems: tuple[str, ...]


def back_up(target: Path) -> int:
    """Into a file that its owner alone may read; its size in bytes. One moment of the database."""
    if target.exists():
        raise BackupError(f"{target} exists already. Choose another name, or move it away.")
    # Written beside and renamed, so that a copy that was interrupted is never taken for a whole one.
    fresh = target.with_name(target.name + ".new")
    left_out = [f"--exclude-table-data={table}" for table in LEFT_OUT]
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", *left_out, output=file.fileno())
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(target)
    return target.stat().st_size


def restore(source: Path) -> Restored:
    """Into an empty database, in one transaction; then newer migrations, and a look at what is there."""
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
    return Restored(tools, releases, tuple(_problems()))


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
