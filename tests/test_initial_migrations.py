"""Each app has one initial migration, in place of the 144 with which the product was developed."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from core.migration_history import find_missing_replaced_migrations
from tests import schema_snapshot
from tests.databases import empty_database

# Digests of what the replaced migrations built on PostgreSQL 15 and 18, computed before they were deleted.
BUILT_BY_REPLACED_MIGRATIONS = {
    "extensions": "980ce6a5ce6a1ffe846ff86bde53dd03ec34b46e5e1f930162030056528e391e",
    "tables": "f7d77aed0cdaad5c3e8fc1defb26bfa477c784e94d5f2b9f710899a3a449c4ad",
    "columns": "da2d84c19755c00098e7a183ca9e32da5d857fc3f12382ff80d49ff955e3ff31",
    "indexes": "90bb437f4d6731a166bd8f3373a628981bd93e11008177db4e91ba1a711857a3",
    "constraints": "4cf57763fcbd3f74fab560723113dae23625187bfb9ee05a20a6c854c666745c",
    "triggers": "f17c33ee82ffb0823159849f133ec6e02462f9e10fedb67741896c811f01f84b",
    "functions": "ba44e4d175708b359c09b0b4c1260048e668628d2f68a290bea54973d8fe59d4",
    "rights": "60a33e6cf5151f2d52eddae9685cfa270426aa89d8dbc7dfb854606f1d1a40fe",
    "rows": "fa503f4f7849b50b04f0c05c4243d586abe9f23498d296eb3d8d4d94dc09f966",
}


def initial_migrations():
    loaded = MigrationLoader(None).disk_migrations
    return {key: migration for key, migration in loaded.items() if migration.replaces}


@pytest.mark.django_db(transaction=True)
def test_initial_migrations_build_what_the_replaced_ones_built(monkeypatch):
    with empty_database(monkeypatch, "initial"):
        MigrationExecutor(connection).migrate(list(initial_migrations()))
        with connection.cursor() as cursor:
            snapshot = schema_snapshot.take(cursor)
    assert schema_snapshot.digests(snapshot) == BUILT_BY_REPLACED_MIGRATIONS


@pytest.mark.django_db
def test_a_database_of_the_replaced_migrations_is_taken_over():
    initial = initial_migrations()
    replaced = {name for migration in initial.values() for name in migration.replaces}
    assert replaced <= MigrationRecorder(connection).applied_migrations().keys()
    for app, name in initial:
        MigrationRecorder(connection).record_unapplied(app, name)
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    call_command("migrate", verbosity=0)
    assert initial.keys() | replaced <= MigrationRecorder(connection).applied_migrations().keys()


# The newest ones alone, some in the middle, and all but the first.
OLDER = {
    "catalog": ["0080_picture_tools"],
    "designer": ["0037_protect_environments", "0038_written_for_versions"],
    "notifications": ["0005_say_run"],
    "people": [f"{number:04}" for number in range(2, 18)],
}


@pytest.mark.django_db
@pytest.mark.parametrize("app", OLDER)
def test_a_database_that_only_an_older_version_can_upgrade_is_refused(app):
    rows = MigrationRecorder.Migration.objects.filter(app=app)
    missing = [row for row in rows for start in OLDER[app] if row.name.startswith(start)]
    for row in missing:
        row.delete()
    for key in initial_migrations():
        MigrationRecorder(connection).record_unapplied(*key)
    before = sorted(MigrationRecorder(connection).applied_migrations())
    assert find_missing_replaced_migrations(connection) == sorted(f"{app} {row.name}" for row in missing)

    with pytest.raises(CommandError, match=rf"{app} {OLDER[app][0]}.*previous version of Pegboard"):
        call_command("migrate", verbosity=0)

    assert sorted(MigrationRecorder(connection).applied_migrations()) == before


@pytest.mark.django_db(transaction=True)
def test_an_initial_migration_is_recorded_in_its_transaction(monkeypatch):
    """A process that is killed leaves all tables of an app and the record of them, or neither."""
    atomic = []
    record = MigrationRecorder.record_applied

    def record_and_note(recorder, app, name):
        atomic.append(recorder.connection.in_atomic_block)
        record(recorder, app, name)

    (people,) = (key for key in initial_migrations() if key[0] == "people")
    with empty_database(monkeypatch, "recorded"):
        monkeypatch.setattr(MigrationRecorder, "record_applied", record_and_note)
        MigrationExecutor(connection).migrate([people])
    replaced = len(initial_migrations()[people].replaces)
    # Django adds the name of the initial migration itself at the end.
    assert atomic[:replaced] == [True] * replaced
