"""Entries that were there before the chain get their places when an installation is upgraded."""

import pytest
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from people.audit import erasure, verify
from people.audit.erasure import Person
from people.models import AuditEntry, User

BEFORE = ("people", "0004_teams_and_what_is_chained")
# The newest that touches the trail.
AFTER = ("people", "0017_erase_users")


def migrate(target: tuple[str, str]) -> None:
    MigrationExecutor(connection).migrate([target])


@pytest.fixture
def empty_database(transactional_db, monkeypatch):
    """Beside the one of the other tests, which keeps its tables."""
    name = f"{connection.settings_dict['NAME']}_of_old"
    with connection.cursor() as cursor:
        # A run that was killed leaves it.
        cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    with monkeypatch.context() as other:
        other.setitem(connection.settings_dict, "NAME", name)
        yield
        connection.close()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


def test_old_entries_are_chained_in_their_order(empty_database):
    migrate(BEFORE)
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO people_auditentry (at, actor_name, action, kind, object_id, label, before, why,"
            " digest, previous, hash)"
            " VALUES (now(), %s, 'change', 'user', '1', 'Ada', %s, '', '', '', '')",
            [(f"Person {number}", '{"a": 1.50, "b": "x"}') for number in range(1_200)],
        )
    migrate(AFTER)
    found = verify.verify()
    assert (found.broken, found.good) == ("", 1_201)  # and one that notes their ids
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE people_auditentry SET id = -id WHERE position = 700")
        assert verify.verify().fault.code == "id_changed"
        cursor.execute("UPDATE people_auditentry SET id = -id WHERE position = 700")
        cursor.execute("DELETE FROM people_auditentry WHERE position = 1201")
        cursor.execute(
            "UPDATE people_audithead h SET position = 1200, hash = e.hash"
            " FROM people_auditentry e WHERE e.position = 1200"
        )
        assert verify.verify().fault.code == "end_removed"
        cursor.execute("SET session_replication_role = origin")
    assert list(AuditEntry.objects.order_by("position").values_list("pk")) == list(
        AuditEntry.objects.order_by("pk").values_list("pk")
    )
    with connection.cursor() as cursor, pytest.raises(Exception, match="never changes"):
        cursor.execute("DELETE FROM people_auditentry")


def test_names_are_erased_from_old_entries_too(empty_database):
    """Their digests do not cover their ids, which one entry notes."""
    migrate(BEFORE)
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO people_auditentry (at, actor_name, action, kind, object_id, label, before, why,"
            " digest, previous, hash)"
            " VALUES (now(), 'Pegboard', 'change', 'user', %s, 'Ada', '{}', '', '', '', '')",
            [(str(number % 2 + 1),) for number in range(20)],
        )
    migrate(AFTER)
    user = User.objects.create(pk=1, username="erased-1")
    person = Person(1, frozenset(), frozenset({"ada"}), frozenset({"ada"}), "erased-1")
    with transaction.atomic():
        assert erasure.erase(person, user=user, why="") == 10
    found = verify.verify()
    assert (found.broken, found.good, found.erased) == ("", 22, 10)
    assert AuditEntry.objects.filter(label="Ada").count() == 10
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE people_erasedentry SET entry = -entry WHERE entry = 2")
        cursor.execute("UPDATE people_auditentry SET id = -id WHERE id = 2")
        cursor.execute("SET session_replication_role = origin")
    assert verify.verify().broken
