"""Entries that were there before the chain get their places when an installation is upgraded."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from people.audit import verify
from people.models import AuditEntry

BEFORE = [("people", "0004_teams_and_what_is_chained")]


def migrate(targets: list[tuple[str, str]]) -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(targets)


@pytest.mark.django_db(transaction=True)
def test_old_entries_are_chained_in_their_order():
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    migrate(BEFORE)
    try:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO people_auditentry (at, actor_name, action, kind, object_id, label, before, why,"
                " digest, previous, hash)"
                " VALUES (now(), %s, 'change', 'user', '1', 'Ada', %s, '', '', '', '')",
                [(f"Person {number}", '{"a": 1.50, "b": "x"}') for number in range(1_200)],
            )
    finally:
        migrate(latest)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE people_auditentry DISABLE TRIGGER people_auditentry_not_truncated")
    found = verify.verify()
    assert (found.broken, found.good) == ("", 1_201)  # and one that notes their ids
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE people_auditentry SET id = -id WHERE position = 700")
        assert "it has another id" in verify.verify().broken
        cursor.execute("UPDATE people_auditentry SET id = -id WHERE position = 700")
        cursor.execute("DELETE FROM people_auditentry WHERE position = 1201")
        cursor.execute(
            "UPDATE people_audithead h SET position = 1200, hash = e.hash"
            " FROM people_auditentry e WHERE e.position = 1200"
        )
        assert "noted nowhere" in verify.verify().broken
        cursor.execute("SET session_replication_role = origin")
    assert list(AuditEntry.objects.order_by("position").values_list("pk")) == list(
        AuditEntry.objects.order_by("pk").values_list("pk")
    )
    with connection.cursor() as cursor, pytest.raises(Exception, match="never changes"):
        cursor.execute("DELETE FROM people_auditentry")
