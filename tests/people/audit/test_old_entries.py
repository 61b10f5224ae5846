"""Entries from before ids were hashed: one entry, which an upgrade wrote, records the ids of all of them."""

import hashlib

import pytest
from django.db import connection, transaction
from django.utils import timezone

from people.audit import erasure, verify
from people.audit.erasure import Person
from people.audit.hash_chain import CONTENT, GENESIS, NOTED_IDS, digest_of, hash_of
from people.models import AuditEntry, AuditHead, User

pytestmark = pytest.mark.django_db(transaction=True)


def content_of(entry):
    return {name: getattr(entry, "actor_id" if name == "actor" else name) for name in CONTENT}


def write_old_entries(entries):
    """Write entries whose digests cover their contents alone, and the entry that records their ids."""
    previous = GENESIS
    for position, entry in enumerate(entries, 1):
        entry.position, entry.previous, entry.digest = position, previous, digest_of(content_of(entry))
        entry.hash = previous = hash_of(position, previous, entry.digest)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        AuditEntry.objects.bulk_create(entries)
        AuditHead.objects.update_or_create(pk=1, defaults={"position": len(entries), "hash": previous})
    ids = "\n".join(f"{entry.position}:{entry.pk}" for entry in entries)
    note = AuditEntry(
        actor_name="Pegboard",
        action=NOTED_IDS,
        kind="auditentry",
        object_id=str(len(entries)),
        label="the audit trail",
        after={"entries": len(entries), "ids": hashlib.sha256(ids.encode()).hexdigest()},
    )
    note.digest = digest_of(content_of(note))
    note.save(force_insert=True)
    return entries


def make_entry(actor_name, object_id, before):
    return AuditEntry(
        at=timezone.now(),
        actor_name=actor_name,
        action="change",
        kind="user",
        object_id=object_id,
        label="Ada",
        before=before,
    )


def test_a_changed_id_of_an_old_entry_is_found():
    entries = write_old_entries(
        [make_entry(f"Person {number}", "1", {"a": 1.5, "b": "x"}) for number in range(1_200)]
    )
    assert (verify.verify().broken, verify.verify().good) == ("", 1_201)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE people_auditentry SET id = -id WHERE position = 700")
        assert verify.verify().fault.code == "id_changed"
        cursor.execute("UPDATE people_auditentry SET id = -id WHERE position = 700")
        cursor.execute("DELETE FROM people_auditentry WHERE position = 1201")
        AuditHead.objects.update(position=1_200, hash=entries[-1].hash)
        assert verify.verify().fault.code == "end_removed"
        cursor.execute("SET session_replication_role = origin")
    with connection.cursor() as cursor, pytest.raises(Exception, match="never changes"):
        cursor.execute("DELETE FROM people_auditentry")


def test_names_are_erased_from_old_entries_too():
    entries = write_old_entries([make_entry("Pegboard", str(number % 2 + 1), {}) for number in range(20)])
    user = User.objects.create(pk=1, username="erased-1")
    person = Person(1, frozenset(), frozenset({"ada"}), frozenset({"ada"}), "erased-1")
    with transaction.atomic():
        assert erasure.erase(person, user=user, why="") == 10
    result = verify.verify()
    assert (result.broken, result.good, result.erased) == ("", 22, 10)
    assert AuditEntry.objects.filter(label="Ada").count() == 10
    erased = entries[0].pk
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE people_erasedentry SET entry = -entry WHERE entry = %s", [erased])
        assert cursor.rowcount == 1
        cursor.execute("UPDATE people_auditentry SET id = -id WHERE id = %s", [erased])
        cursor.execute("SET session_replication_role = origin")
    assert verify.verify().broken
