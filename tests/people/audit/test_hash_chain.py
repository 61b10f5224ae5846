"""The chain through the audit trail: whatever is done to a row is found and named."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from people import audit, teams, users
from people.audit import verify
from people.audit.hash_chain import GENESIS, digest_of, hash_of, with_id
from people.models import AuditEntry, AuditHead, Role
from tests.factories import make_user


def commit() -> None:
    """Complete the chain as a commit does, within a test that is rolled back."""
    connection.check_constraints()


def write(count: int = 6) -> list[AuditEntry]:
    actor = make_user(username="ada")
    for number in range(count):
        facts = {"text": f"Ünï “{number}”", "factor": 1e22, "half": 0.5, "whole": 100.0, "on": [True, None]}
        audit.record(actor, "change", actor, before={"text": ""}, after=facts, why="Because.", agent=number)
    commit()
    return list(AuditEntry.objects.order_by("pk"))


def tamper(statement: str, *values: object) -> None:
    """Change rows as a superuser of the database server, whom no trigger stops."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, values)
        cursor.execute("SET LOCAL session_replication_role = origin")


COPIED = "at, actor_name, action, kind, object_id, label, why, digest, position, previous, hash"


@pytest.mark.django_db
def test_an_untouched_trail_is_good_from_the_first_entry_to_the_head():
    rows = write()
    head = AuditHead.objects.get()
    assert verify.verify() == verify.Verification(6, f"6:{rows[-1].hash}", passed=True)
    assert (head.position, head.hash) == (6, rows[-1].hash)
    assert [row.position for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[0].previous == GENESIS
    assert all(row.digest == with_id(row.pk, digest_of(audit.content_of(row))) for row in rows)
    assert rows[3].hash == hash_of(4, rows[2].hash, rows[3].digest)


CHANGES = {
    "at": "at + interval '1 microsecond'",
    "actor_id": "NULL",
    "actor_name": "'Eve'",
    "action": "'nothing'",
    "kind": "'agent'",
    "object_id": "'0'",
    "label": "label || ' '",
    "agent": "agent + 1",
    "before": "'{}'",
    "after": "jsonb_set(after, '{half}', '0.25')",
    "why": "''",
    "digest": "repeat('0', 64)",
    "hash": "repeat('0', 64)",
}


@pytest.mark.django_db
@pytest.mark.parametrize("column", CHANGES)
def test_a_changed_row_is_named_whatever_was_changed(column):
    rows = write()
    tamper(f"UPDATE people_auditentry SET {column} = {CHANGES[column]} WHERE position = 3")
    verification = verify.verify()
    assert verification.good == 2
    assert verification.broken.startswith(f"Entry {rows[2].pk} ")
    assert verification.fault.code == "changed"


@pytest.mark.django_db
def test_a_row_with_another_id_is_found():
    rows = write()
    tamper("UPDATE people_auditentry SET id = id + 1000 WHERE position = 3")
    verification = verify.verify()
    assert (verification.good, verification.broken.startswith(f"Entry {rows[2].pk + 1000} ")) == (2, True)
    assert verification.fault.code == "changed"


@pytest.mark.django_db
def test_two_rows_that_changed_ids_are_found():
    write()
    tamper("UPDATE people_auditentry SET id = -id WHERE position IN (2, 3)")
    tamper(
        "UPDATE people_auditentry e SET id = -o.id FROM people_auditentry o"
        " WHERE e.position IN (2, 3) AND o.position = 5 - e.position"
    )
    assert verify.verify().good == 1


@pytest.mark.django_db
def test_a_row_that_was_changed_and_hashed_again_breaks_the_next_one():
    rows = write()
    row = rows[2]
    row.action = "nothing"
    digest = with_id(row.pk, digest_of(audit.content_of(row)))
    tamper(
        "UPDATE people_auditentry SET action = 'nothing', digest = %s, hash = %s WHERE position = 3",
        digest,
        hash_of(3, row.previous, digest),
    )
    verification = verify.verify()
    assert (verification.good, verification.broken.startswith(f"Entry {rows[3].pk} ")) == (3, True)


@pytest.mark.django_db
def test_a_row_that_was_hashed_again_without_its_id_is_found():
    """The row and all later ones are hashed by the rule for old entries, which does not cover the id."""
    rows = write()
    previous = rows[1].hash
    for row in rows[2:]:
        digest = digest_of(audit.content_of(row)) if row.position == 3 else row.digest
        changed = (digest, previous, hash_of(row.position, previous, digest))
        tamper(
            "UPDATE people_auditentry SET digest = %s, previous = %s, hash = %s WHERE position = %s",
            *changed,
            row.position,
        )
        previous = changed[2]
    tamper("UPDATE people_audithead SET hash = %s", previous)
    verification = verify.verify()
    assert (verification.good, verification.fault.code) == (2, "id_changed"), verification.broken


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("statement", "good", "code"),
    [
        ("DELETE FROM people_auditentry WHERE position = 3", 2, "removed"),
        ("DELETE FROM people_auditentry WHERE position = 1", 0, "removed"),
        ("DELETE FROM people_auditentry WHERE position > 4", 4, "end_removed"),
        ("DELETE FROM people_auditentry", 0, "end_removed"),
        ("UPDATE people_audithead SET hash = repeat('1', 64)", 6, "end_removed"),
        (
            "UPDATE people_auditentry SET position = 7 - position WHERE position IN (3, 4)",
            2,
            "moved",
        ),
        (
            f"INSERT INTO people_auditentry ({COPIED})"
            f" SELECT {COPIED} FROM people_auditentry WHERE position = 3",
            3,
            "inserted",
        ),
        (
            f"INSERT INTO people_auditentry ({COPIED})"
            " VALUES (now(), 'Eve', 'grant', 'user', '1', 'Eve', '', '', NULL, '', '')",
            6,
            "inserted",
        ),
    ],
    ids=[
        "removed",
        "first removed",
        "tail removed",
        "emptied",
        "other head",
        "reordered",
        "inserted",
        "inserted outside",
    ],
)
def test_what_was_removed_inserted_or_moved_is_named(statement, good, code):
    write()
    tamper(statement)
    verification = verify.verify()
    assert (verification.good, verification.fault.code) == (good, code), verification.broken


@pytest.mark.django_db
def test_a_chain_that_was_written_anew_does_not_hold_a_head_that_was_kept():
    rows = write(4)
    head = f"2:{rows[1].hash}"
    assert verify.verify(head).broken == ""
    tamper("DELETE FROM people_auditentry")
    tamper("UPDATE people_audithead SET position = 0, hash = repeat('0', 64)")
    audit.record(None, "change", make_user())
    commit()
    assert verify.verify().broken == ""
    assert verify.verify(head).fault.code == "rewritten"


@pytest.mark.django_db
def test_command_prints_the_head_and_ends_badly_when_something_is_broken():
    rows = write(3)
    out = io.StringIO()
    call_command("verify_audit", "--head", stdout=out)
    assert out.getvalue().strip() == f"3:{rows[-1].hash}"
    call_command("verify_audit", "--kept", out.getvalue().strip(), stdout=io.StringIO())
    tamper("UPDATE people_auditentry SET label = E'\\x1b[2J' WHERE position = 2")
    with pytest.raises(CommandError, match=r"One entry is good. Then: Entry .* was changed") as refused:
        call_command("verify_audit")
    assert "\x1b" not in str(refused.value)
    with pytest.raises(CommandError, match="POSITION:HASH"):
        call_command("verify_audit", "--kept", "nonsense")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE people_auditentry SET action = 'x'",
        "UPDATE people_auditentry SET position = NULL",
        "UPDATE people_auditentry SET hash = repeat('1', 64)",
        "DELETE FROM people_auditentry",
        "TRUNCATE people_auditentry",
    ],
)
def test_triggers_refuse_every_statement_that_changes_the_trail(statement):
    write(2)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE people_auditentry ENABLE TRIGGER people_auditentry_not_truncated")
        with pytest.raises(Exception, match="never changes"), transaction.atomic():
            cursor.execute(statement)


@pytest.mark.django_db(transaction=True)
def test_many_at_once_write_one_chain_and_none_waits_for_ever():
    """Transactions that take locks after their first row, some of which are taken back."""
    admin = make_user(Role.ADMIN)
    people = [make_user(Role.VIEWER) for _ in range(6)]
    rooms = [teams.create_team(actor=admin, name=f"Team {number}") for number in range(2)]

    def work(number: int) -> None:
        try:
            for turn in range(8):
                user, room = people[(number + turn) % 6], rooms[turn % 2]
                with transaction.atomic():
                    teams.add_member(room, user, actor=admin)
                    users.update_user(user, actor=admin, name=f"N{number} {turn}")
                    teams.remove_member(room, user, actor=admin)
                    if turn % 4 == 3:
                        transaction.set_rollback(True)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))

    count = AuditEntry.objects.count()
    verification = verify.verify()
    assert (verification.broken, verification.good) == ("", count)
    assert count >= 2 + 4 * 6  # at the very least the new names
    assert AuditHead.objects.get().position == count
