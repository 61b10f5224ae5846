"""Empties every table after a test that committed.

Django truncates them, which makes new files for some two hundred tables and indexes and then fills in
permissions that nothing here asks for. Deleting the few rows of a test costs a twentieth of that.
"""

from functools import cache
from typing import Any

from django.db import connection, transaction
from django.test import TransactionTestCase

# As migrations left them; a test that changes these would have to put them back.
KEPT = {"django_content_type", "auth_permission"}
TEAMS = '"people_team"'

_truncated = TransactionTestCase._fixture_teardown


@cache
def _statement() -> str:
    """Waits for whoever still writes, as TRUNCATE does, and asks no trigger."""
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = [f'"{name}"' for name in names if name not in KEPT]
    steps = [
        "SET LOCAL session_replication_role = replica",
        f"LOCK {', '.join(tables)} IN EXCLUSIVE MODE",
        # The team of all users, which a migration makes: what runs later in the same process needs it.
        *(f"DELETE FROM {table}{' WHERE NOT is_everyone' * (table == TEAMS)}" for table in tables),
    ]
    return "; ".join(steps)


@cache
def _may_delete() -> bool:
    """Whoever runs the tests on a server of their own may be no superuser there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('is_superuser')")
        return cursor.fetchone() == ("on",)


def empty(case: Any = None) -> None:
    """Of a database whose tests migrate back and forth too: the triggers against TRUNCATE may be on again."""
    if not _may_delete():
        _truncated(case or TransactionTestCase())
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_statement())


def instead_of_truncating() -> None:
    TransactionTestCase._fixture_teardown = empty
