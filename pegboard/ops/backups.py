"""A copy of the database in one file, and back: PostgreSQL's own pg_dump and pg_restore."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from catalog import invariants
from core import encryption
from pegboard import pooler
from pegboard.ops import newer_facts
from pegboard.ops.backup_files import PARTIAL_SUFFIX, BackupError, read_backup_file
from pegboard.ops.client_programs import (
    RestorePlan,
    choose_pg_dump,
    find_client_programs,
    plan_restore,
)
from pegboard.server_addresses import DatabaseAddress
from people.audit import verify

# Users sign in again after a restore.
LEFT_OUT = ("django_session",)
RESTORE_OPTIONS = ("--no-owner", "--no-privileges", "--exit-on-error")
# A line of pg_restore's SQL, before the first table, that servers older than PostgreSQL 17 refuse.
TRANSACTION_TIMEOUT = b"SET transaction_timeout = 0;\n"
UNREADABLE_TABLES = """
    SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'S') AND nspname = current_schema()
        AND NOT has_table_privilege(pg_class.oid, 'SELECT')
    ORDER BY relname
"""


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore: the content of the backup, the rows that were written after it, and its
    problems, in sentences.
    """

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
    pg_dump = choose_pg_dump(find_client_programs(), server=_server_version())
    _check_no_pooler()
    with connection.cursor() as cursor:
        cursor.execute(UNREADABLE_TABLES)
        tables = [name for (name,) in cursor.fetchall()]
        cursor.execute("SELECT current_user")
        (role,) = cursor.fetchone()
    connection.close()
    if tables:
        raise BackupError(
            f"The role {role} may not read {len(tables)} tables or sequences, such as {tables[0]}. "
            "Let DATABASE_URL name the role that owns the tables, with which migrations run."
        )
    # A backup that was killed is never mistaken for a complete one: it has another name.
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    left_out = [f"--exclude-table-data={table}" for table in LEFT_OUT]
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            options = ("--format=custom", "--no-owner", "--no-privileges", *left_out)
            _run_program(pg_dump, *options, output=file.fileno())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return target.stat().st_size


def restore(
    source: Path, *, replaced_database: DatabaseAddress | None = None, is_newest: bool = False
) -> RestoreResult:
    """Restore into an empty database, in one transaction; then migrate it and check its claims.

    replaced_database: the database that this one takes the place of, to find what the backup lacks.
    is_newest: nothing was written after the backup, so release numbers continue without a gap.
    Raises BackupError.
    """
    if not source.is_file():
        raise BackupError(f"There is no file {source}.")
    backup = read_backup_file(source)
    plan = plan_restore(find_client_programs(), backup, server=_server_version())
    _check_no_pooler()
    # Restoring over what is there would mix two installations.
    if tables := connection.introspection.table_names():
        raise BackupError(
            f"The database holds {len(tables)} tables already. Restore into an empty one: make it with "
            "createdb, and let DATABASE_URL name it."
        )
    connection.close()
    if plan.psql:
        _restore_through_psql(plan, plan.psql, source)
    else:
        # Without --dbname, pg_restore writes to its output; the rest comes from the environment.
        database = f"--dbname={connection.settings_dict['NAME']}"
        _run_program(plan.pg_restore, *RESTORE_OPTIONS, "--single-transaction", database, str(source))
    call_command("migrate", interactive=False, verbosity=0)
    with connection.cursor() as cursor:
        # A restored database knows nothing of its tables, and plans badly until it does.
        cursor.execute("ANALYZE")
        cursor.execute("SELECT (SELECT count(*) FROM catalog_tool), (SELECT count(*) FROM designer_release)")
        tools, releases = cursor.fetchone()
    newer = tuple(_newer_facts(replaced_database, is_newest=is_newest))
    return RestoreResult(tools, releases, newer, tuple(_find_problems()))


def _newer_facts(replaced_database: DatabaseAddress | None, *, is_newest: bool) -> Iterator[str]:
    last = newer_facts.newest_entry()
    if last:
        yield f"Its last audit entry is of {last:%Y-%m-%d %H:%M:%S} UTC."
    if is_newest:
        return
    if not replaced_database:
        newer_facts.reserve_numbers(None)
        yield (
            "What was written after that is not in this backup: releases, API keys, audit entries. Runtimes "
            "may use releases that are missing here, so the next release of each agent leaves a gap of "
            f"{newer_facts.GAP:,} numbers."
        )
        return
    try:
        facts = newer_facts.read_newer_facts(replaced_database)
    except psycopg.Error as error:
        newer_facts.reserve_numbers(None)
        yield f"The replaced database could not be read: {' '.join(str(error).split())}"
    else:
        newer_facts.reserve_numbers(facts.numbers)
        yield from facts.sentences()


def _find_problems() -> Iterator[str]:
    try:
        ring = encryption.keyring()
    except encryption.KeyringError as exc:
        yield str(exc)
    else:
        for key_id, count in sorted(encryption.missing_keys(ring).items()):
            yield f"{count:,} secrets need the key “{key_id}”. Put it back into PEGBOARD_KEYS."
    # The keys are listed above already, by their names.
    claim_names = [claim.name for claim in invariants.claims() if claim.name != "secret_keys"]
    with transaction.atomic(), connection.cursor() as cursor:
        # The limit is for pages; these look at every row.
        cursor.execute("SET LOCAL statement_timeout = 0")
        breaches = invariants.check(only=claim_names)
    yield from map(str, breaches)
    if broken := verify.verify().broken:
        yield f"The audit trail is broken. {broken}"


def _check_no_pooler() -> None:
    # pg_dump and pg_restore change settings of their session for every client that gets it afterwards.
    if pooler.is_pooled():
        raise BackupError(pooler.NEEDS_POSTGRESQL)


def _server_version() -> int:
    """Return the major version of the database's server."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('server_version_num')::int / 10000")
            return int(cursor.fetchone()[0])
    except DatabaseError as error:
        raise BackupError(f"The database does not answer: {' '.join(str(error).split())}") from error


def _run_program(program: Path, *arguments: str, output: int | None = None) -> None:
    done = subprocess.run(  # noqa: S603 - PostgreSQL's own programs
        [program, *arguments],
        env=os.environ | _libpq_environment(),
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BackupError(_describe_failure(program, done.stderr))


def _describe_failure(program: Path, errors: str) -> str:
    reason = " ".join(errors.strip().splitlines()[-3:]) or "it gives no reason."
    return f"{program.name} failed: {reason}"


def _restore_through_psql(plan: RestorePlan, psql: Path, source: Path) -> None:
    """Run the SQL of pg_restore in one transaction, without the line that the server refuses."""
    options = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "--file=-")
    with (
        tempfile.TemporaryFile("w+") as reader_errors,
        tempfile.TemporaryFile("w+") as writer_errors,
        subprocess.Popen(  # noqa: S603 - PostgreSQL's own programs
            [plan.pg_restore, *RESTORE_OPTIONS, "--file=-", source],
            stdout=subprocess.PIPE,
            stderr=reader_errors,
        ) as reader,
        subprocess.Popen(  # noqa: S603
            [psql, *options],
            env=os.environ | _libpq_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=writer_errors,
        ) as writer,
    ):
        if reader.stdout is None or writer.stdin is None:
            raise AssertionError("both are pipes")
        # psql that has stopped at an error reads no more.
        with suppress(BrokenPipeError):
            for line in reader.stdout:
                if line == TRANSACTION_TIMEOUT:
                    break
                writer.stdin.write(line)
            shutil.copyfileobj(reader.stdout, writer.stdin)
        reader.stdout.close()
        is_incomplete = reader.wait() != 0 and writer.poll() is None
        if is_incomplete:
            # Before its input ends: at the end it commits.
            writer.kill()
        with suppress(BrokenPipeError):
            writer.stdin.close()
        has_failed = writer.wait() != 0
        for errors in (reader_errors, writer_errors):
            errors.seek(0)
        if is_incomplete:
            raise BackupError(_describe_failure(plan.pg_restore, reader_errors.read()))
        if has_failed:
            raise BackupError(_describe_failure(psql, writer_errors.read()))


def _libpq_environment() -> dict[str, str]:
    """Return how libpq's programs reach the database that Django reaches."""
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
    options = ("ssl", "target_session_attrs")
    return access | {
        f"PG{name.upper().replace('_', '') if name == 'target_session_attrs' else name.upper()}": str(value)
        for name, value in stated
        if name.startswith(options)
    }
