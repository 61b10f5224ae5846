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

_truncated = TransactionTestCase._fixture_teardown
# The other rows that migrations made, such as the team of all users, as JSON by table.
_rows_of_tables: dict[str, str] = {}


@cache
def _tables() -> list[str]:
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return [f'"{name}"' for name in names if name not in KEPT]


def remember() -> None:
    """Return the rows that later tests in the process need. Read once, before the first test."""
    with connection.cursor() as cursor:
        for table in _tables():
            cursor.execute(f"SELECT jsonb_agg(made)::text FROM {table} made")
            if rows := cursor.fetchone()[0]:
                _rows_of_tables[table] = rows


@cache
def _statement() -> str:
    """Waits for transactions that still write, as TRUNCATE does, and fires no trigger."""
    steps = [
        "SET LOCAL session_replication_role = replica",
        f"LOCK {', '.join(_tables())} IN EXCLUSIVE MODE",
        *(f"DELETE FROM {table}" for table in _tables()),
    ]
    return "; ".join(steps)


@cache
def _may_delete() -> bool:
    """A developer's role on a server of their own may be no superuser."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('is_superuser')")
        return cursor.fetchone() == ("on",)


def empty(case: Any = None) -> None:
    """Empty the tables.

    The triggers against TRUNCATE may be on again, because some tests migrate back and forth.
    """
    if not _may_delete():
        _truncated(case or TransactionTestCase())
    with transaction.atomic(), connection.cursor() as cursor:
        if _may_delete():
            cursor.execute(_statement())
        for table, rows in _rows_of_tables.items():
            cursor.execute(
                f"INSERT INTO {table} SELECT * FROM jsonb_populate_recordset(NULL::{table}, %s)", [rows]
            )


def instead_of_truncating() -> None:
    TransactionTestCase._fixture_teardown = empty
