"""Recognition of databases that are too old for this version of the product.

An initial migration replaces all migrations of its app up to a certain one. Django marks it as applied in a
database where each of those has run. A database where only some have run needs the files of the others, which
an older version of the product has.
"""

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def find_missing_replaced_migrations(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the replaced migrations that have not run in a database where others of the same app have.

    Each as "app name". An empty list means that `migrate` can continue from the state of the database.
    """
    applied = MigrationRecorder(connection).applied_migrations().keys()
    return [
        f"{app} {name}"
        for migration in MigrationLoader(None).disk_migrations.values()
        if applied & set(migration.replaces)
        for app, name in migration.replaces
        if (app, name) not in applied
    ]


def describe_outdated_database(missing: list[str]) -> str:
    names = f"{missing[0]}{' and others' if len(missing) > 1 else ''}"
    return (
        "This database is older than the oldest version that can be upgraded directly: the migration "
        f"{names} has not run. Install the previous version of Pegboard and run its migrate; then install "
        "this version and run migrate again."
    )
