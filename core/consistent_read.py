"""Several queries that see the database in one state."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def one_moment() -> Iterator[None]:
    """Let every query inside see the data that was committed when the first one ran. Writes fail."""
    # A page that reads ids first and then rows would otherwise show a mixture when a run is recorded in
    # between. Inside a transaction that has begun before, it changes nothing.
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
