"""Operations for initial migrations (`CreateModels`), and for migrations that are not atomic (all others).

A migration that is not atomic is recorded when all of it is done. If it is killed, `migrate` repeats it from
its first operation, so an operation accepts its own result, complete or not. `tests/test_migration_rules.py`
requires these operations of every such migration.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.contrib.postgres import operations as postgres_operations
from django.contrib.postgres.operations import NotInTransactionMixin
from django.db import connections, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AddConstraint, AddField, CreateModel
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Model


class CreateModels(Operation):
    """Creates the tables of many models, in any order: a model may refer to a later one.

    After each `CreateModel`, Django renders the model and all models that are related to it. For the models
    of an initial migration that takes ten times as long as the statements. Here they are rendered once.
    """

    def __init__(self, models: Sequence[CreateModel]) -> None:
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        state.__dict__.pop("apps", None)  # the cached property, which is rendered again when it is next read
        for model in self.models:
            model.state_forwards(app_label, state)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        for model in self.models:
            model.database_forwards(app_label, schema_editor, from_state, to_state)
        # Django would add foreign keys and indexes after the last operation, and would then record the
        # migration outside its transaction.
        for statement in schema_editor.deferred_sql:
            schema_editor.execute(statement, params=None)
        schema_editor.deferred_sql.clear()

    def describe(self) -> str:
        return f"Create {len(self.models)} models"


class _RepeatableMixin:
    """Makes a migration operation repeatable: it calls `apply` in place of Django's own operation."""

    model_name: str

    def apply(
        self, editor: BaseDatabaseSchemaEditor, model: type[Model], forwards: Callable[[], None]
    ) -> None:
        """Bring the table of `model` into its new state. `forwards` runs Django's own operation."""
        raise NotImplementedError

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        forwards: Callable[..., None] = super().database_forwards  # type: ignore[misc]
        model = to_state.apps.get_model(app_label, self.model_name)
        self.apply(schema_editor, model, partial(forwards, app_label, schema_editor, from_state, to_state))


class AddFieldIfMissing(_RepeatableMixin, AddField):
    """Adds one column, in one statement; does nothing if the table has the column."""

    def apply(
        self, editor: BaseDatabaseSchemaEditor, model: type[Model], forwards: Callable[[], None]
    ) -> None:
        field: Any = model._meta.get_field(self.name)
        if not editor.collect_sql:
            with editor.connection.cursor() as cursor:
                table = model._meta.db_table
                columns = editor.connection.introspection.get_table_description(cursor, table)
            if field.column in {column.name for column in columns}:
                return
        forwards()


class AddIndexConcurrently(_RepeatableMixin, postgres_operations.AddIndexConcurrently):
    """Builds an index while others read and write the table.

    The build waits for every transaction that is older than itself, such as a backup. No limit ends it: such
    a wait holds up no reader and no writer.
    """

    def apply(
        self, editor: BaseDatabaseSchemaEditor, model: type[Model], forwards: Callable[[], None]
    ) -> None:
        self._ensure_not_in_transaction(editor)
        with _no_limits(editor):
            if _is_to_be_built(editor, model._meta.db_table, self.index.name):
                forwards()


class RemoveIndexConcurrently(_RepeatableMixin, postgres_operations.RemoveIndexConcurrently):
    """Drops an index while others read and write the table; does nothing if there is none."""

    def apply(
        self, editor: BaseDatabaseSchemaEditor, model: type[Model], forwards: Callable[[], None]
    ) -> None:
        self._ensure_not_in_transaction(editor)
        with _no_limits(editor):
            forwards()


class AddUniqueConstraintConcurrently(_RepeatableMixin, NotInTransactionMixin, AddConstraint):
    """Builds the unique index of a constraint with a condition while others read and write the table."""

    atomic = False

    def describe(self) -> str:
        return f"Concurrently create unique constraint {self.constraint.name} on model {self.model_name}"

    def apply(
        self, editor: BaseDatabaseSchemaEditor, model: type[Model], forwards: Callable[[], None]
    ) -> None:
        self._ensure_not_in_transaction(editor)
        statement: Any = self.constraint.create_sql(model, editor)
        # Without a condition PostgreSQL would check every row under a lock (ALTER TABLE … ADD CONSTRAINT).
        start = "CREATE UNIQUE INDEX "
        assert statement.template.startswith(start)  # noqa: S101
        statement.template = f"{start}CONCURRENTLY {statement.template.removeprefix(start)}"
        with _no_limits(editor):
            if _is_to_be_built(editor, model._meta.db_table, self.constraint.name):
                editor.execute(statement, params=None)


def _is_to_be_built(schema_editor: BaseDatabaseSchemaEditor, table: str, index: str) -> bool:
    """Return whether the table lacks the index, after dropping the invalid index of an interrupted build."""
    if schema_editor.collect_sql:
        return True
    quoted_index = schema_editor.quote_name(index)
    with transaction.atomic(using=schema_editor.connection.alias):
        # The server may still build for a process that was killed. One table has one such build at a time.
        schema_editor.execute(f"LOCK TABLE {schema_editor.quote_name(table)} IN SHARE UPDATE EXCLUSIVE MODE")
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [quoted_index])
        rows = cursor.fetchall()
    if rows == [(False,)]:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY {quoted_index}")
    is_complete: bool = rows == [(True,)]
    return not is_complete


@contextmanager
def _no_limits(schema_editor: BaseDatabaseSchemaEditor) -> Iterator[None]:
    # After an error `migrate` ends, or begins again on a new connection.
    connection = connections[schema_editor.connection.alias]
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
        limits = cursor.fetchone()
        cursor.execute("SET lock_timeout = 0; SET statement_timeout = 0")
    yield
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false)", limits
        )
