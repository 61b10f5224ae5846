"""The limits that `migrate` has in place of those of pages."""

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import pre_migrate


@pytest.mark.django_db(transaction=True)
def test_a_busy_machine_may_compute_for_minutes_within_a_migration():
    limits = set()

    def read_limit(**_):
        with connection.cursor() as cursor:
            cursor.execute("SELECT setting::int FROM pg_settings WHERE name LIKE 'idle_in_transaction%'")
            limits.update(cursor.fetchone())

    pre_migrate.connect(read_limit)
    try:
        call_command("migrate", "--noinput", verbosity=0)
    finally:
        pre_migrate.disconnect(read_limit)
    (milliseconds,) = limits
    assert milliseconds >= 600_000
