"""Code of yesterday runs beside code of today during a deployment, on the schema of today.

So a migration may only add, and may not block any user. Each operation that could do otherwise is refused
here, unless it is in LISTED with the reason why it is harmless. CONTRIBUTING.md has them in words.
"""

import pytest
from django.contrib.postgres import operations as postgres_operations
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED

from core.migration_operations import (
    AddFieldIfMissing,
    AddIndexConcurrently,
    AddUniqueConstraintConcurrently,
    RemoveIndexConcurrently,
)

# Migration and operation, as the test names them: why it harms neither old code nor its users.
LISTED: dict[tuple[str, str], str] = {
    (
        "catalog.0083_log_changes_of_tools",
        "Raw SQL operation",
    ): "writers wait a second for the triggers; old code finds new tools by plain words until it ends",
    ("catalog.0084_credential_details", "Raw SQL operation"): (
        "a trigger on a table of some dozen rows, which keeps the columns of old code and the new one equal"
    ),
    ("catalog.0095_first_key_of_earlier_calls", "Raw Python operation"): (
        "it locks the few calls that one key started and another one continued; old code only reads them"
    ),
}

# Operations of migrations that are not atomic, beside those of core/migration_operations.py: why each may be
# repeated after a kill at any moment.
LISTED_AS_REPEATABLE: dict[tuple[str, str], str] = {}
REPEATABLE = (
    AddFieldIfMissing,
    AddIndexConcurrently,
    AddUniqueConstraintConcurrently,
    RemoveIndexConcurrently,
)

HARMLESS = (
    migrations.CreateModel,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.RemoveConstraint,
    migrations.RemoveIndex,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
)
TELLING = {
    migrations.RemoveField: "old code still reads the column",
    migrations.RenameField: "old code still reads the column under its old name",
    migrations.DeleteModel: "old code still reads the table",
    migrations.RenameModel: "old code still reads the table under its old name",
    migrations.AlterModelTable: "old code still reads the table under its old name",
    migrations.AddConstraint: "every row is checked under a lock, and old code may write what it refuses",
    migrations.AddIndex: "nobody writes while it is built; AddIndexConcurrently lets them",
    postgres_operations.AddIndexConcurrently: "it cannot be repeated after a kill: use that of core",
    postgres_operations.RemoveIndexConcurrently: "a lock that is not free ends it half-way: use that of core",
    AddUniqueConstraintConcurrently: "old code may write what it refuses",
    migrations.RunSQL: "nothing here can tell what it does",
    migrations.RunPython: "nothing here can tell what it does, nor how long it holds its locks",
}


def trouble_with(operation: Operation, app: str, before: ProjectState, *, is_new: bool) -> str:
    """Return the harm to old code or its users; empty when none. `is_new`: this migration makes the table."""
    if is_new or isinstance(operation, HARMLESS):
        return ""
    if isinstance(operation, migrations.AddField):
        return _of_a_new_column(operation.field)
    if isinstance(operation, migrations.AlterField):
        old = before.models[app, operation.model_name.lower()].get_field(operation.name)
        return _of_another_column(old, operation.field)
    return TELLING.get(type(operation), "it is not known to be harmless")


def _of_a_new_column(field: models.Field) -> str:
    if field.many_to_many:
        return ""
    if field.generated:
        return "the table is written anew under a lock"
    if not field.null and field.db_default is NOT_PROVIDED:
        return "old code cannot add rows: give the field db_default, or null=True"
    if field.unique or field.db_index:
        return "nobody writes while its index is built: add it with AddIndexConcurrently"
    return ""


def _of_another_column(old: models.Field, new: models.Field) -> str:
    if old.null and not new.null:
        return "old code may write NULL"
    if old.db_default is not NOT_PROVIDED and new.db_default is NOT_PROVIDED:
        return "old code may rely on the database's default"
    if _type(old) != _type(new):
        return "the table may be written anew under a lock, and old code reads another type"
    if (new.unique, new.db_index) > (old.unique, old.db_index):
        return "nobody writes while its index is built"
    return ""


def _type(field: models.Field) -> str | None:
    """The type in the database. A reference has the type of its target, which stays."""
    return field.get_internal_type() if field.is_relation else field.db_type(connection)


def operations(migration: migrations.Migration) -> list[Operation]:
    """Return the operations that reach the database."""
    flat: list[Operation] = []
    for operation in migration.operations:
        is_split = isinstance(operation, migrations.SeparateDatabaseAndState)
        flat += operation.database_operations if is_split else [operation]
    return flat


def troubles(migration: migrations.Migration, state: ProjectState) -> list[tuple[str, str]]:
    """Each operation that could do harm and what it could do; `state` is moved to after the migration."""
    tables, problems = set(), []
    for operation in operations(migration):
        table = (getattr(operation, "model_name", "") or getattr(operation, "name", "") or "").lower()
        if isinstance(operation, migrations.CreateModel):
            tables.add(table)
        if message := trouble_with(operation, migration.app_label, state, is_new=table in tables):
            problems.append((str(operation.describe()), message))
        operation.state_forwards(migration.app_label, state)
    return problems


def operations_not_repeatable(migration: migrations.Migration) -> list[str]:
    """Return the operations of a migration that is not atomic which cannot be repeated after a kill."""
    if migration.atomic:
        return []
    return [
        str(operation.describe())
        for operation in operations(migration)
        if not isinstance(operation, REPEATABLE)
    ]


def loaded() -> dict[tuple[str, str], migrations.Migration]:
    """Every migration of the product by its app and name."""
    every = MigrationLoader(None).disk_migrations
    return {
        key: migration for key, migration in every.items() if not migration.__module__.startswith("django.")
    }


def later() -> list[tuple[migrations.Migration, ProjectState]]:
    """Every migration after the initial ones, with the state that it starts from."""
    loader = MigrationLoader(None)
    return [
        (migration, loader.project_state(key, at_end=False))
        for key, migration in sorted(loaded().items())
        if not migration.replaces
    ]


def test_new_migrations_let_old_code_go_on():
    unlisted = [
        f"{migration.app_label}.{migration.name}: {what}: {problem}"
        for migration, state in later()
        for what, problem in troubles(migration, state)
        if not LISTED.get((f"{migration.app_label}.{migration.name}", what))
    ]
    assert unlisted == []


def test_new_migrations_may_be_killed_and_repeated():
    unlisted = [
        f"{migration.app_label}.{migration.name}: {operation}"
        for migration, _ in later()
        for operation in operations_not_repeatable(migration)
        if not LISTED_AS_REPEATABLE.get((f"{migration.app_label}.{migration.name}", operation))
    ]
    assert unlisted == []


def test_every_app_has_one_initial_migration():
    """No migration escapes the rules as another initial one, and no listed reason outlives its migration."""
    initial = [app for (app, _), migration in loaded().items() if migration.initial or migration.replaces]
    assert sorted(initial) == sorted({app for app, _ in loaded()})
    listed_names = {name for name, _ in (*LISTED, *LISTED_AS_REPEATABLE)}
    assert listed_names <= {f"{app}.{name}" for app, name in loaded()}


def _state() -> ProjectState:
    state = ProjectState()
    fields = [
        ("id", models.BigAutoField(primary_key=True)),
        ("word", models.CharField(max_length=10, null=True)),
        ("size", models.IntegerField(db_default=0)),
    ]
    migrations.CreateModel("Thing", fields).state_forwards("shop", state)
    return state


BREAKING = {
    "a column that old code does not fill": migrations.AddField("thing", "x", models.TextField(default="")),
    "a column that the database computes": migrations.AddField(
        "thing",
        "x",
        models.GeneratedField(
            expression=models.F("size"), output_field=models.IntegerField(), db_persist=True
        ),
    ),
    "a column with an index": migrations.AddField(
        "thing", "x", models.TextField(db_default="", db_index=True)
    ),
    "a column that is gone": migrations.RemoveField("thing", "word"),
    "a column of another name": migrations.RenameField("thing", "word", "text"),
    "a column that may not be empty any more": migrations.AlterField(
        "thing", "word", models.CharField(max_length=10)
    ),
    "a column of another type": migrations.AlterField("thing", "word", models.TextField(null=True)),
    "a default that is gone": migrations.AlterField("thing", "size", models.IntegerField(default=0)),
    "a table that is gone": migrations.DeleteModel("thing"),
    "a rule for rows that are there": migrations.AddConstraint(
        "thing", models.CheckConstraint(condition=models.Q(size__gt=0), name="big")
    ),
    "an index that locks": migrations.AddIndex("thing", models.Index(fields=["size"], name="by_size")),
    "an index whose build cannot be repeated": postgres_operations.AddIndexConcurrently(
        "thing", models.Index(fields=["size"], name="by_size")
    ),
    "a rule for what old code writes": AddUniqueConstraintConcurrently(
        "thing",
        models.UniqueConstraint(fields=["word"], condition=models.Q(size=1), name="one_word"),
    ),
    "anything in SQL": migrations.RunSQL("LOCK TABLE shop_thing"),
    "anything in Python": migrations.RunPython(migrations.RunPython.noop),
    "one that is hidden": migrations.SeparateDatabaseAndState([migrations.RemoveField("thing", "word")]),
}
ADDING = [
    migrations.CreateModel("Other", [("id", models.BigAutoField(primary_key=True))]),
    migrations.AddField("other", "x", models.TextField(default="")),
    migrations.AddField("thing", "x", models.TextField(db_default="")),
    migrations.AddField("thing", "y", models.TextField(null=True)),
    migrations.AlterField("thing", "size", models.IntegerField(db_default=0, help_text="In metres.")),
    AddIndexConcurrently("thing", models.Index(fields=["size"], name="by_size")),
    RemoveIndexConcurrently("thing", "by_size"),
]


def _migration(*steps: Operation, atomic: bool = True) -> migrations.Migration:
    migration = migrations.Migration("0001_of_a_test", "shop")
    migration.operations, migration.atomic = list(steps), atomic
    return migration


@pytest.mark.parametrize("what", BREAKING)
def test_what_would_break_old_code_is_found(what):
    assert len(troubles(_migration(BREAKING[what]), _state())) == 1


def test_what_only_adds_is_let_through():
    assert troubles(_migration(*ADDING), _state()) == []


def test_an_operation_that_cannot_be_repeated_is_found():
    column = migrations.AddField("thing", "y", models.TextField(null=True))
    assert operations_not_repeatable(_migration(column)) == []
    assert operations_not_repeatable(_migration(*ADDING[-2:], column, atomic=False)) == [
        "Add field y to thing"
    ]
    in_database = migrations.SeparateDatabaseAndState(
        [migrations.RunSQL("CREATE INDEX CONCURRENTLY a ON b (c)")]
    )
    assert len(operations_not_repeatable(_migration(in_database, atomic=False))) == 1
