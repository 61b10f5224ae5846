"""Backups between versions of PostgreSQL: Debian's 15 and the package's 18."""

import os
import subprocess
import uuid
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from pegboard.local.embedded import Embedded, packaged_programs
from pegboard.ops.backup_files import BackupError, BackupFile, major_version, read_backup_file
from pegboard.ops.client_programs import ClientPrograms, RestorePlan, choose_pg_dump, plan_restore
from tests import forked_python

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")


def programs(*versions, have_psql=False):
    return [
        ClientPrograms(Path(f"/pg/{version}"), version, Path(f"/pg/{version}/psql") if have_psql else None)
        for version in versions
    ]


@pytest.mark.parametrize(
    ("versions", "server", "directory"),
    [([18, 15], 15, "/pg/15"), ([18, 15], 18, "/pg/18"), ([18], 15, None), ([15], 18, None), ([], 15, None)],
)
def test_a_backup_is_written_by_a_program_of_the_servers_version(versions, server, directory):
    if directory:
        assert choose_pg_dump(programs(*versions), server=server) == Path(directory, "pg_dump")
        return
    with pytest.raises(BackupError, match=f"postgresql-client-{server}"):
        choose_pg_dump(programs(*versions), server=server)


# The server, the program and the oldest version that reads the file.
OF_15, OF_18, OF_15_BY_18 = BackupFile(15, 15, 12), BackupFile(18, 18, 17), BackupFile(15, 18, 17)


@pytest.mark.parametrize(
    ("backup", "versions", "server", "reader", "psql"),
    [
        (OF_15, [18, 15], 15, 15, None),
        (OF_15, [18, 15], 18, 18, None),
        (OF_15, [15], 18, 15, None),
        (OF_15, [18], 15, 18, 18),
        (OF_15, [17, 15], 16, 15, None),
        (OF_18, [18, 15], 18, 18, None),
        (OF_18, [17, 18], 19, 18, None),
        (OF_15_BY_18, [15, 18], 15, 18, 18),
        (OF_15_BY_18, [15, 18], 17, 18, None),
    ],
)
def test_a_restore_uses_programs_that_read_the_file_and_fit_the_server(
    backup, versions, server, reader, psql
):
    plan = plan_restore(programs(*versions, have_psql=True), backup, server=server)
    expected = Path(f"/pg/{psql}/psql") if psql else None
    assert plan == RestorePlan(Path(f"/pg/{reader}/pg_restore"), expected)


@pytest.mark.parametrize(
    ("backup", "versions", "server", "advice"),
    [
        (OF_18, [15, 18], 15, "into PostgreSQL 18"),
        (OF_18, [15], 18, "postgresql-client-18"),
        (OF_15_BY_18, [15], 15, "postgresql-client-17"),
        (OF_15_BY_18, [18], 15, "postgresql-client-15"),
        (OF_15, [], 15, "postgresql-client-15"),
    ],
)
def test_a_restore_that_cannot_work_says_what_is_needed(backup, versions, server, advice):
    with pytest.raises(BackupError, match=advice):
        plan_restore(programs(*versions), backup, server=server)


@pytest.mark.parametrize(
    ("text", "version"), [("15.18 (Debian 15.18-0+deb12u1)", 15), ("18.6", 18), ("19beta1", 19)]
)
def test_versions_are_read_as_postgresql_writes_them(text, version):
    assert major_version(text) == version


@pytest.mark.parametrize("length", [0, 4, 11, 20, 60])
def test_a_file_that_ends_within_its_header_is_no_backup(tmp_path, length):
    header = b"PGDMP\x01\x10\x00\x04\x08\x01\x01" + bytes(5) * 7 + b"\x00\xff\xff\xff\x7f"
    (tmp_path / "copy").write_bytes(header[:length])
    with pytest.raises(BackupError):
        read_backup_file(tmp_path / "copy")


def manage(url, *command, **variables):
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "pegboard.settings",
        **variables,
    }
    return forked_python.run("manage.py", *command, env=environment, timeout=200)


@contextmanager
def database_on(url):
    """The address of an empty database on the same server."""
    name = f"restored_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def server_15(tmp_path, monkeypatch):
    """The address of an empty database on Debian's PostgreSQL 15."""
    if not (DEBIAN_15 / "postgres").exists():
        pytest.skip("Debian's PostgreSQL 15 is not installed")
    with monkeypatch.context() as patch:
        patch.setenv("PEGBOARD_PG_BIN", str(DEBIAN_15))
        servers = Embedded(tmp_path / "postgres-15", valkey=False, durable=False)
    servers.start()
    yield servers.urls["DATABASE_URL"]
    servers.stop()


@pytest.fixture
def postgres_15(server_15):
    """The same, migrated."""
    assert manage(server_15, "migrate", "--noinput", "--verbosity=0").returncode == 0
    return server_15


def tables_in(url):
    with psycopg.connect(url) as connection:
        query = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        return connection.execute(query).fetchone()[0]


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
def test_backups_move_between_versions_of_postgresql(postgres_15, process_environment, tmp_path):
    postgres_18 = process_environment["DATABASE_URL"]
    of_15, of_18, of_15_by_18 = (tmp_path / name for name in ("of-15", "of-18", "of-15-by-18"))

    for url, file, version in ((postgres_15, of_15, 15), (postgres_18, of_18, 18)):
        backed_up = manage(url, "backup", str(file))
        assert backed_up.returncode == 0, backed_up.stderr
        assert (read_backup_file(file).server, read_backup_file(file).program) == (version, version)

    # As `manage.py backup` wrote them before it chose a program by the server's version.
    pg_dump = packaged_programs() / "pg_dump"
    options = ("--format=custom", "--no-owner", "--no-privileges", f"--file={of_15_by_18}")
    subprocess.run([pg_dump, *options, postgres_15], check=True)
    assert read_backup_file(of_15_by_18) == OF_15_BY_18

    for source, target in ((of_15, postgres_15), (of_15, postgres_18), (of_15_by_18, postgres_15)):
        with database_on(target) as restored:
            done = manage(restored, "restore", str(source), "--newest")
            assert done.returncode == 0, done.stdout + done.stderr

    with database_on(postgres_15) as restored:
        refused = manage(restored, "restore", str(of_18))
        assert refused.returncode == 1
        assert "PostgreSQL 18 or newer" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert tables_in(restored) == 0


@pytest.mark.faults
def test_a_damaged_backup_restores_nothing_through_psql(server_15, tmp_path):
    with psycopg.connect(server_15) as connection:
        connection.execute("CREATE TABLE rows AS SELECT md5(n::text) FROM generate_series(1, 9000) AS n")
    damaged = tmp_path / "damaged"
    options = ("--format=custom", "--no-owner", f"--file={damaged}")
    subprocess.run([packaged_programs() / "pg_dump", *options, server_15], check=True)
    content = damaged.read_bytes()
    damaged.write_bytes(content[: len(content) - 2_000])
    with database_on(server_15) as restored:
        done = manage(restored, "restore", str(damaged))
        assert done.returncode == 1
        assert "pg_restore failed" in done.stderr
        assert tables_in(restored) == 0


@pytest.mark.django_db(transaction=True)
def test_a_role_that_may_not_read_every_table_is_told_to_back_up_as_the_owner(process_environment, tmp_path):
    role = f"reader_{uuid.uuid4().hex[:12]}"
    parts = urlsplit(process_environment["DATABASE_URL"])
    with psycopg.connect(parts.geturl(), autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        url = parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()
        try:
            done = manage(url, "backup", str(tmp_path / "copy"))
        finally:
            owner.execute(f"DROP ROLE {role}")
    assert done.returncode == 1
    assert f"The role {role} may not read" in done.stderr
    assert list(tmp_path.iterdir()) == []
