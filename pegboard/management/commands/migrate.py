"""Django's `migrate`, with limits of its own, that begins again when a lock is not free.

A statement that waits for a heavy lock holds up every later one of the same table, so it gives up before the
product does, and the whole command is repeated: what is done is recorded, and the rest may be repeated
(core/migration_operations.py). A database that an older version has to upgrade first is refused
(core/migration_history.py).
"""

import time
from itertools import chain, repeat
from typing import Any

import psycopg
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections

from core.migration_history import describe_outdated_database, find_missing_replaced_migrations
from core.server_session import session_of
from pegboard import pooler

LIMITS = {
    # Pages wait for a lock for two seconds: they get theirs after this one has given up.
    "lock_timeout": "1s",
    # An index of a large table takes minutes. The rules for migrations bound how long a lock is held.
    "statement_timeout": "0",
    # Between two statements of the first migrations a busy machine computes for half a minute and more.
    "idle_in_transaction_session_timeout": "10min",
    # When this process is killed, the server ends what it does for it.
    "client_connection_check_interval": "2s",
}
NOT_NOW = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
PAUSES = (1.0, 2.0, 4.0)
MAX_PAUSE = 8.0
MAX_WAIT_SECONDS = 3600.0  # a backup of a large installation takes less


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        for pause in chain(PAUSES, repeat(MAX_PAUSE)):
            try:
                connection.ensure_connection()
                if session_of(connection.connection).is_pooled:
                    # These limits are of a session, and other clients would get it with them.
                    raise CommandError(pooler.NEEDS_POSTGRESQL)
                with connection.cursor() as cursor:
                    for name, value in LIMITS.items():
                        cursor.execute("SELECT set_config(%s, %s, false)", [name, value])
                if missing := find_missing_replaced_migrations(connection):
                    raise CommandError(describe_outdated_database(missing))
                super().handle(*args, **options)
            except OperationalError as error:
                if connection.in_atomic_block or not isinstance(error.__cause__, NOT_NOW):
                    raise
                if time.monotonic() > deadline:
                    raise CommandError(
                        "A table has been in use by other transactions for an hour. pg_stat_activity lists "
                        "them. Run migrate again: it continues where it ended."
                    ) from error
                self.stderr.write(
                    "A table is in use by another transaction, such as a backup. "
                    f"Trying again in {pause:.0f} s."
                )
            else:
                return
            finally:
                # The limits end with the connection. One that a transaction of the caller needs stays open.
                if not connection.in_atomic_block:
                    connection.close()
            time.sleep(pause)
