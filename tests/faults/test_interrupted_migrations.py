"""An upgrade while others use the database, and one that is killed: every migration that is not atomic."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from core.migration_operations import AddIndexConcurrently, AddUniqueConstraintConcurrently
from pegboard.local.embedded import Embedded
from tests.faults.stand import wait_for
from tests.faults.warm import Child, Warm

pytestmark = pytest.mark.faults

DEBIAN_PROGRAMS = Path("/usr/lib/postgresql/15/bin")
# The product's own default, of which an index build must not die.
SHORT_LIMIT = "-c lock_timeout=100ms"
# A build, or a removal, of which the index has no name here, that waits for older transactions.
WAITS = (
    "SELECT pid, index_relid::regclass::text FROM pg_stat_activity LEFT JOIN pg_stat_progress_create_index"
    " USING (pid) WHERE wait_event_type = 'Lock' AND wait_event = 'virtualxid'"
)
HEAVY_LOCKS = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
INVALID_INDEXES = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"


def non_atomic_migrations() -> list[Migration]:
    """Those of the product, in the order in which they run."""
    loader = MigrationLoader(None)
    plan = [step for leaf in loader.graph.leaf_nodes() for step in loader.graph.forwards_plan(leaf)]
    every = [loader.graph.nodes[step] for step in dict.fromkeys(plan)]
    return [migration for migration in every if not migration.atomic]


def index_names(migrations: list[Migration]) -> set[str]:
    operations = [operation for migration in migrations for operation in migration.operations]
    added = [each.index.name for each in operations if isinstance(each, AddIndexConcurrently)]
    return {
        *added,
        *(each.constraint.name for each in operations if isinstance(each, AddUniqueConstraintConcurrently)),
    }


@dataclass(frozen=True)
class Server:
    """The address of an empty database, on the embedded server or on Debian's PostgreSQL 15."""

    address: str
    is_embedded: bool


@pytest.fixture(params=["embedded", "debian"])
def server(request, tmp_path, monkeypatch) -> Iterator[Server]:
    if request.param == "debian":
        if not DEBIAN_PROGRAMS.is_dir():
            pytest.skip(f"PostgreSQL 15 is not installed in {DEBIAN_PROGRAMS}.")
        monkeypatch.setenv("PEGBOARD_PG_BIN", str(DEBIAN_PROGRAMS))
    servers = Embedded(tmp_path / "data", valkey=False, durable=False)
    servers.start()
    yield Server(servers.urls["DATABASE_URL"], is_embedded=request.param == "embedded")
    servers.stop()


@pytest.fixture
def process(server, tmp_path) -> Iterator[Warm]:
    """Runs `migrate` on that database, in processes that may be killed."""
    address = f"{server.address}&options={SHORT_LIMIT.replace(' ', '%20')}"
    environment = {**os.environ, "DATABASE_URL": address, "DJANGO_SETTINGS_MODULE": "pegboard.settings"}
    warm = Warm(environment, tmp_path / "log")
    yield warm
    warm.stop()


class Backup:
    """A transaction that has a snapshot, and reads a table, until it is ended."""

    def __init__(self, address: str, table: str = "") -> None:
        self.connection = psycopg.connect(address)
        self.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self.connection.execute("SELECT 1")
        if table and self.connection.execute("SELECT to_regclass(%s)", [table]).fetchone() != (None,):
            self.connection.execute(f"SELECT FROM {table}")

    def end(self) -> None:
        self.connection.close()


def has_ended(child: Child) -> bool:
    ended = child.warm.ask({"wait": child.pid, "seconds": 0.02})
    assert ended is None or ended["status"] == 0, child.warm.words()
    return ended is not None


def test_an_upgrade_waits_for_a_backup_and_is_repeated_after_a_kill(server, process):
    expected = index_names(non_atomic_migrations())
    # Kills need no second server, and take two minutes.
    to_kill = expected if server.is_embedded else set()
    killed, waited, gave_up = set(), set(), False
    orphans = set()  # processes of the server whose client was killed
    with closing(psycopg.connect(server.address, autocommit=True)) as observer:
        backup = Backup(server.address)
        child = process.start("migrate")
        while not has_ended(child):
            if not gave_up and observer.execute(HEAVY_LOCKS).fetchone():
                # Readers and writers of the table are held up meanwhile, so it gives up by itself.
                wait_for(lambda: not observer.execute(HEAVY_LOCKS).fetchone(), 30, "the end of the wait")
                backup.end()
                backup, gave_up = Backup(server.address), True
            waits = [row for row in observer.execute(WAITS).fetchall() if row[0] not in orphans]
            for server_process, index in waits:
                if index in to_kill - killed:
                    child.kill()
                    child.wait()
                    orphans.add(server_process)
                    killed.add(index)
                    child = process.start("migrate")
                    continue
                waited |= {index} - {None}
                older, backup = backup, Backup(server.address, "" if gave_up else "catalog_thread")
                older.end()
        backup.end()
        assert (killed, waited, gave_up) == (to_kill, expected, True)
        assert observer.execute(INVALID_INDEXES).fetchall() == []
    process.do("migrate", seconds=60)


@pytest.fixture
def empty_database(transactional_db, monkeypatch) -> Iterator[None]:
    """Beside that of the other tests, which keeps its tables."""
    name = f"{connection.settings_dict['NAME']}_repeated"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    with monkeypatch.context() as other:
        other.setitem(connection.settings_dict, "NAME", name)
        yield
        connection.close()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


def test_every_operation_may_be_repeated(empty_database):
    """As after a kill between any two operations, and between the last one and the record of it."""
    for migration in non_atomic_migrations():
        for needed in migration.dependencies:
            MigrationExecutor(connection).migrate([needed])
        state = MigrationExecutor(connection).loader.project_state(migration.dependencies)
        for operation in migration.operations:
            before = state.clone()
            operation.state_forwards(migration.app_label, state)
            for _ in range(2):
                with connection.schema_editor(atomic=False) as editor:
                    operation.database_forwards(migration.app_label, editor, before, state)
        call_command("migrate", migration.app_label, migration.name, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT conname FROM pg_constraint WHERE conname LIKE 'catalog_thread_key%uniq'")
        assert cursor.fetchall() == []
        cursor.execute(INVALID_INDEXES)
        assert cursor.fetchall() == []
