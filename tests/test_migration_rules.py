"""Code of yesterday runs beside code of today during a deployment, on the schema of today.

So a migration may only add, and may not hold up anybody. Each operation that could do otherwise is refused
here, unless it stands in LISTED with the reason why it is harmless. CONTRIBUTING.md has them in words.
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

# The newest of each app when the rules were made. Nobody had a release then: before an upgrade from a
# checkout that is older than these, all of the old processes are ended.
BEFORE_THE_RULES = {"catalog": 21, "designer": 4, "notifications": 1, "people": 6}

# Migration and operation, as the test names them: why it harms neither old code nor its users.
LISTED: dict[tuple[str, str], str] = {
    (
        "notifications.0003_encrypt_addresses",
        "Add field url_key_id to webhook",
    ): "there are at most 50 webhooks, so the table is written anew in a moment",
    (
        "notifications.0007_tell_of_releases",
        "Add field owner to webhook",
    ): "there are at most 50 webhooks, so their index is built in a moment",
    (
        "catalog.0064_mark_own_vendor",
        "Create constraint one_home_of_definitions on model vendor",
    ): "there are few vendors, and old code makes none that the index looks at",
    (
        "catalog.0071_pin_callees",
        "Raw SQL operation",
    ): "fills a table that the same migration makes, which old code does not know",
    (
        "catalog.0078_keep_waiting_decisions",
        "Raw SQL operation",
    ): "fills a table that the same migration makes; writers of findings wait a second for the triggers",
    (
        "catalog.0080_picture_tools",
        "Raw SQL operation",
    ): "fills a table that the same migration makes, which old code does not know",
    (
        "catalog.0073_unknown_outcomes",
        "Create not valid constraint call_outcome_known on model call",
    ): "no row is looked at, and what old code writes fits: there is one more outcome",
    (
        "catalog.0072_own_keys_of_calls",
        "Concurrently create unique constraint one_thread_per_key_in_agent on model thread",
    ): "what old code writes fits into it",
    (
        "catalog.0072_own_keys_of_calls",
        "Concurrently create unique constraint one_tried_thread_per_key on model thread",
    ): "as above",
    (
        "designer.0036_bind_activity_versions",
        "Raw SQL operation",
    ): "fills a column and a table that the same migration makes, which old code does not know",
    (
        "designer.0036_bind_activity_versions",
        "Add field activity_version to binding",
    ): "an agent has few bindings, so their index is built in a moment",
    (
        "catalog.0023_look_a_second_time",
        "Raw SQL operation",
    ): "triggers on a table that the same migration makes, which old code does not know",
    (
        "designer.0008_show_tuned_words",
        "Raw Python operation",
    ): "marks the few tools that were tuned by hand, in a column that old code does not know",
    (
        "people.0009_fix_search_path_of_the_chain",
        "Raw Python operation",
    ): "the trigger does the same as before, under a search path of its own",
    (
        "people.0011_chain_ids",
        "Raw Python operation",
    ): "old code adds entries as before; they wait while ids are noted, a second for a million of them",
    (
        "people.0017_erase_users",
        "Raw Python operation",
    ): "the trigger does the same as before for old code, which sets no variable of its own",
    (
        "designer.0009_hold_addresses",
        "Raw SQL operation",
    ): "fills a table that the same migration makes, which old code does not know",
    (
        "designer.0013_procedures",
        "Raw SQL operation",
    ): "triggers on a table that the same migration makes, which old code does not know",
    (
        "designer.0015_transfers",
        "Raw Python operation",
    ): "fills a table that the same migration makes, which old code does not know",
    (
        "designer.0017_widen_tunings",
        "Raw Python operation",
    ): "fills a column that old code does not know, in the tools and pins that were tuned by hand",
    (
        "designer.0006_prove_publishing",
        "Raw Python operation",
    ): "under a role that does not own the tables, old code publishes nothing until it is ended: what it"
    " cannot prove is refused, and is published again a minute later; reading goes on",
    (
        "designer.0012_channels",
        "Raw SQL operation",
    ): "triggers on and rows of tables that the same migration makes, which old code does not know",
    (
        "designer.0016_sign_and_note_fetches",
        "Raw SQL operation",
    ): "triggers on a table that the same migration makes, which old code does not know",
    (
        "designer.0024_number_effective_signatures",
        "Raw SQL operation",
    ): "triggers on a table that the same migration makes, which old code does not know",
    (
        "designer.0025_mend_addresses",
        "Raw Python operation",
    ): "one agent at most gets another address, by which old code finds it too, and addresses are held that"
    " old code would hold at the next publishing",
    (
        "designer.0023_count_what_is_written",
        "Raw Python operation",
    ): "writes figures that only lists show, a thousand tools at a time",
    (
        "catalog.0028_count_rewrites",
        "Raw SQL operation",
    ): "fills a column that old code does not know, in the few rows of versions that were rewritten in place",
    (
        "designer.0022_name_parts_of_releases",
        "Alter field format on export",
    ): "a longer varchar is no other type to old code, and the server changes its catalog alone",
    (
        "designer.0022_name_parts_of_releases",
        "Alter field surface on receipt",
    ): "as above",
    (
        "catalog.0049_call_in_background",
        "Create not valid constraint call_outcome_known on model call",
    ): "no row is looked at, and what old code writes fits: there is one more outcome",
    (
        "catalog.0062_activities",
        "Raw SQL operation",
    ): "a trigger on a table that the same migration makes, which old code does not know",
    (
        "catalog.0062_activities",
        "Create not valid constraint call_outcome_known on model call",
    ): "no row is looked at, and what old code writes fits: there is one more outcome",
    (
        "catalog.0052_widen_grants",
        "Alter field scopes on usergrant",
    ): "text is no other type to old code than varchar, and the server changes its catalog alone",
    (
        "catalog.0069_queue_tools_for_the_index",
        "Raw SQL operation",
    ): "triggers that fill a table of the same migration; old code writes tools as before",
    (
        "catalog.0070_queue_what_is_not_indexed",
        "Raw SQL operation",
    ): "fills a table that old code does not know, and locks no row that old code writes",
    (
        "people.0012_say_api_key",
        "Alter constraint one_user_per_name on user",
    ): "only the sentence of its refusal is another; the database is sent nothing",
}

# Operations of migrations that are not atomic, beside those of core/migration_operations.py: why each may be
# repeated after a kill at any moment.
LISTED_AS_REPEATABLE: dict[tuple[str, str], str] = {
    (
        "catalog.0072_own_keys_of_calls",
        "Alter field key on thread",
    ): "drops a constraint in one statement, and finds none the next time",
    (
        "designer.0023_count_what_is_written",
        "Raw Python operation",
    ): "each portion is counted anew, whatever was stored before",
}
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
    """What old code or its users could meet; empty when nothing. `is_new`: this migration makes the table."""
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
    """As the database knows it. A reference has the type of what it leads to, which stays."""
    return field.get_internal_type() if field.is_relation else field.db_type(connection)


def operations(migration: migrations.Migration) -> list[Operation]:
    """Those that reach the database."""
    flat: list[Operation] = []
    for each in migration.operations:
        is_split = isinstance(each, migrations.SeparateDatabaseAndState)
        flat += each.database_operations if is_split else [each]
    return flat


def troubles(migration: migrations.Migration, state: ProjectState) -> list[tuple[str, str]]:
    """Each operation that could do harm and what it could do; `state` is moved to after the migration."""
    made, found = set(), []
    for each in operations(migration):
        table = (getattr(each, "model_name", "") or getattr(each, "name", "") or "").lower()
        if isinstance(each, migrations.CreateModel):
            made.add(table)
        if says := trouble_with(each, migration.app_label, state, is_new=table in made):
            found.append((str(each.describe()), says))
        each.state_forwards(migration.app_label, state)
    return found


def operations_not_repeatable(migration: migrations.Migration) -> list[str]:
    """Return the operations of a migration that is not atomic which cannot be repeated after a kill."""
    if migration.atomic:
        return []
    return [
        str(operation.describe())
        for operation in operations(migration)
        if not isinstance(operation, REPEATABLE)
    ]


def number(migration: migrations.Migration) -> int:
    return int(migration.name.partition("_")[0])


def ours() -> list[tuple[migrations.Migration, ProjectState]]:
    """Every migration that came after the rules, with the state that it starts from."""
    loader = MigrationLoader(None)
    new = [
        each
        for (app, _), each in loader.disk_migrations.items()
        if app in BEFORE_THE_RULES and number(each) > BEFORE_THE_RULES[app]
    ]
    return [
        (each, loader.project_state((each.app_label, each.name), at_end=False))
        for each in sorted(new, key=lambda each: (each.app_label, each.name))
    ]


def test_new_migrations_let_old_code_go_on():
    unlisted = [
        f"{migration.app_label}.{migration.name}: {what}: {says}"
        for migration, state in ours()
        for what, says in troubles(migration, state)
        if not LISTED.get((f"{migration.app_label}.{migration.name}", what))
    ]
    assert unlisted == []


def test_new_migrations_may_be_killed_and_repeated():
    unlisted = [
        f"{migration.app_label}.{migration.name}: {operation}"
        for migration, _ in ours()
        for operation in operations_not_repeatable(migration)
        if not LISTED_AS_REPEATABLE.get((f"{migration.app_label}.{migration.name}", operation))
    ]
    assert unlisted == []


def test_every_app_of_ours_is_read():
    """An app with migrations of its own cannot be forgotten, and no listed reason outlives its migration."""
    disk = MigrationLoader(None).disk_migrations
    modules = {app for (app, _), each in disk.items() if not each.__module__.startswith("django.")}
    assert modules == set(BEFORE_THE_RULES)
    listed = {name for name, _ in (*LISTED, *LISTED_AS_REPEATABLE)}
    assert listed <= {f"{app}.{name}" for app, name in disk}


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
    made = migrations.Migration("0001_of_a_test", "shop")
    made.operations, made.atomic = list(steps), atomic
    return made


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
