"""An upgrade while others use the database, and one that is killed: every migration that is not atomic.

The app `tests.faults.shop` has one of each operation, so that they are tried while the product has none.
"""

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
from tests.databases import empty_database
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


@pytest.fixture
def shop(settings) -> None:
    """Add the app to this process."""
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "tests.faults.shop"]


def non_atomic_migrations() -> list[Migration]:
    """Return those of all apps, in the order in which they run."""
    loader = MigrationLoader(None)
    plan = [step for leaf in loader.graph.leaf_nodes() for step in loader.graph.forwards_plan(leaf)]
    every = [loader.graph.nodes[step] for step in dict.fromkeys(plan)]
    return [migration for migration in every if not migration.atomic]


def index_names(migrations: list[Migration]) -> set[str]:
    operations = [operation for migration in migrations for operation in migration.operations]
    added = [operation.index.name for operation in operations if isinstance(operation, AddIndexConcurrently)]
    return {
        *added,
        *(
            operation.constraint.name
            for operation in operations
            if isinstance(operation, AddUniqueConstraintConcurrently)
        ),
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
    settings = {"DATABASE_URL": address, "DJANGO_SETTINGS_MODULE": "tests.faults.shop.settings"}
    warm = Warm({**os.environ, **settings}, tmp_path / "log")
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


def test_an_upgrade_waits_for_a_backup_and_is_repeated_after_a_kill(shop, server, process):
    migrations = non_atomic_migrations()
    expected = index_names(migrations)
    # A kill takes seconds, and needs no second server.
    of_shop = index_names([migration for migration in migrations if migration.app_label == "shop"])
    to_kill = of_shop if server.is_embedded else set()
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
                older, backup = backup, Backup(server.address, "" if gave_up else "shop_article")
                older.end()
        backup.end()
        assert (killed, waited, gave_up) == (to_kill, expected, True)
        assert observer.execute(INVALID_INDEXES).fetchall() == []
    process.do("migrate", seconds=60)


@pytest.mark.django_db(transaction=True)
def test_every_operation_may_be_repeated(shop, monkeypatch):
    """A kill may fall between any two operations, and between the last one and its record."""
    with empty_database(monkeypatch, "repeated"):
        for migration in non_atomic_migrations():
            executor = MigrationExecutor(connection)
            # A dependency may be the name of a replaced migration.
            node = executor.loader.graph.node_map[migration.app_label, migration.name]
            needed = [parent.key for parent in node.parents]
            executor.migrate(needed)
            state = MigrationExecutor(connection).loader.project_state(needed)
            for operation in migration.operations:
                before = state.clone()
                operation.state_forwards(migration.app_label, state)
                for _ in range(2):
                    with connection.schema_editor(atomic=False) as editor:
                        operation.database_forwards(migration.app_label, editor, before, state)
            call_command("migrate", migration.app_label, migration.name, verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT conname FROM pg_constraint WHERE contype = 'u' AND conname LIKE 'shop_article_name%'"
            )
            assert cursor.fetchall() == []
            cursor.execute(INVALID_INDEXES)
            assert cursor.fetchall() == []
