"""Databases beside that of the tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection


@contextmanager
def empty_database(monkeypatch: pytest.MonkeyPatch, suffix: str) -> Iterator[None]:
    """Connect to a new database, which is dropped afterwards. The test has no transaction of its own."""
    name = f"{connection.settings_dict['NAME']}_{suffix}"
    with connection.cursor() as cursor:
        # A run that was killed leaves it.
        cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    try:
        with monkeypatch.context() as patch:
            patch.setitem(connection.settings_dict, "NAME", name)
            yield
    finally:
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name}")
