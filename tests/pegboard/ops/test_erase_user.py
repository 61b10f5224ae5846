"""A user is erased: nothing names the person any more, and the audit trail still verifies."""

import io

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from catalog.models import Call, Thread
from catalog.notifications import subscriptions
from catalog.notifications.models import Notice, Webhook
from designer.agents import agents
from designer.news import following
from designer.pins import pins
from designer.releases import publishing
from execution.calls import examples
from people import api_keys, audit, teams, users
from people.audit import verify
from people.audit.hash_chain import ERASE, digest_of, with_id
from people.models import (
    ApiKey,
    AuditEntry,
    ErasedEntry,
    FailedSignIn,
    Role,
    User,
)
from people.sso import accounts
from tests.factories import make_tool, make_user
from tests.people.audit.test_database_roles import as_role  # noqa: F401 - a fixture
from tests.people.audit.test_hash_chain import commit, tamper

CANARY = ("quetzal", "Quinta Zalewski", "subject-8c1f", "q.zalewski@example.com", "quetzalcoatl")


def texts_with_names():
    """Each table with a row that contains a name of the person, whatever the column."""
    texts_by_table = {}
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            table = model._meta.db_table
            condition = " OR ".join(["t::text ILIKE %s"] * len(CANARY))
            cursor.execute(
                f"SELECT t::text FROM {table} t WHERE {condition}", [f"%{name}%" for name in CANARY]
            )
            if rows := [row for (row,) in cursor.fetchall()]:
                texts_by_table[table] = rows
    return texts_by_table


def run(*options):
    out = io.StringIO()
    call_command("erase_user", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def person(db):
    """A user of whom every table knows something."""
    admin = make_user(Role.ADMIN, username="root")
    user = users.add_user(
        actor=admin, username="quetzalcoatl", password=None, name="Quinta Zalewski", role=Role.DESIGNER
    )
    User.objects.filter(pk=user.pk).update(username="quetzal")
    user.refresh_from_db()
    with transaction.atomic():
        audit.record(
            admin, "change person", user, before={"username": "quetzalcoatl"}, after={"username": "quetzal"}
        )
        accounts.link(user, actor=admin, issuer="https://id.example", subject="subject-8c1f")
    team = teams.create_team(actor=admin, name="Team")
    teams.add_member(team, user, actor=admin)
    other = teams.create_team(actor=admin, name="Other")
    teams.add_member(other, user, actor=admin)
    teams.remove_team(other, actor=admin)
    key, _ = api_keys.issue(user, name="quetzal laptop", scopes=["read"], actor=admin)
    subscriptions.choose(user, ["review.waiting"])
    subscriptions.set_address(user, "q.zalewski@example.com", 5)
    subscriptions.ask_to_confirm(user)
    agent = agents.create_agent(actor=user, name="Desk")
    tool = make_tool()
    pins.pin_tool(agent, actor=user, tool=tool)
    publishing.publish(agent, actor=user, channel="live", note="First")
    following.follow(user, agent, is_following=True)
    examples.store_example(tool, {"city": "Oslo"}, actor=user, name="One")
    moment = timezone.now()
    requester = {"requested_by": user, "requested_name": "Quinta Zalewski, key quetzal laptop"}
    call = Call.objects.create(
        tool=tool, version=tool.current, gives_up_at=moment, status="finished", outcome="ok", **requester
    )
    Thread.objects.create(tool=tool, version=tool.current, key=call.key, remote_id="1", **requester)
    FailedSignIn.objects.create(username="quetzal", address="127.0.0.1")
    Notice.objects.create(
        event="key.reported",
        subject=str(key.pk),
        title="The API key “x” was reported",
        says="Someone sent this key of Quinta Zalewski to Pegboard, so others may have it.",
        facts={"key": {"owner": "quetzal"}},
        path="/keys/",
    ).readers.add(user)
    Webhook.objects.create(
        name="Hook", owner=user, events=[], is_paused=True, paused_why="Quinta Zalewski paused it."
    )
    LogEntry.objects.create(
        user=admin,
        content_type=ContentType.objects.get_for_model(User),
        object_id=str(user.pk),
        object_repr="Quinta Zalewski",
        action_flag=CHANGE,
    )
    commit()
    return user


def test_nothing_in_the_database_names_an_erased_user(person):
    before = texts_with_names()
    assert len(before) >= 12, sorted(before)
    good = verify.verify().good
    head = verify.verify().head

    assert f"erased-{person.pk}" in run("quetzal", "--yes")
    commit()
    assert texts_with_names() == {}
    verification = verify.verify(head)
    assert (verification.broken, verification.passed) == ("", True), "a head from before lies in the chain"
    assert verification.good > good
    assert verification.erased == ErasedEntry.objects.count() > 10
    person.refresh_from_db()
    assert (person.username, person.name, person.is_active) == (f"erased-{person.pk}", "", False)
    assert not person.has_usable_password()
    assert not ApiKey.objects.filter(user=person, revoked_at=None).exists()
    entry = AuditEntry.objects.get(action=ERASE)
    assert (entry.label, entry.after["entries"]) == (f"erased-{person.pk}", verification.erased)
    # Objects that the user made stay, under the pseudonym.
    assert AuditEntry.objects.filter(action="publish", actor_name=f"erased-{person.pk}").count() == 1
    owners = AuditEntry.objects.filter(action="issue key").values_list("after__owner", flat=True)
    assert set(owners) == {f"erased-{person.pk}"}


def test_other_users_keep_their_names(person):
    other = make_user(Role.DESIGNER, username="quetzal2")
    key, _ = api_keys.issue(other, name="quetzal2 laptop", scopes=["read"], actor=other)
    commit()
    entries = list(AuditEntry.objects.filter(actor=other).values())
    run("quetzal", "--yes")
    assert list(AuditEntry.objects.filter(actor=other).values()) == entries
    key.refresh_from_db()
    assert key.name == "quetzal2 laptop"


def test_a_name_that_another_user_has_now_stays_with_that_user(person):
    other = make_user(Role.DESIGNER, username="quetzalcoatl")
    api_keys.issue(other, name="laptop", scopes=["read"], actor=other)
    commit()
    run("quetzal", "--yes")
    assert AuditEntry.objects.filter(after__owner="quetzalcoatl").count() == 1


def test_the_sessions_of_an_erased_user_end(person):
    browser = Client()
    browser.force_login(person)
    other = Client()
    other.force_login(User.objects.get(username="root"))
    assert browser.get("/tools/").status_code == 200
    run("quetzal", "--yes")
    assert browser.get("/tools/").status_code == 302
    assert other.get("/tools/").status_code == 200


def test_a_user_is_erased_only_when_it_is_confirmed(person):
    count = AuditEntry.objects.count()
    with pytest.raises(CommandError, match="--yes"):
        run("quetzal")
    with pytest.raises(CommandError, match="No user"):
        run("nobody", "--yes")
    assert AuditEntry.objects.count() == count
    assert User.objects.filter(username="quetzal").exists()


def test_the_last_administrator_is_not_erased(person):
    with pytest.raises(CommandError, match="administrator"):
        run("root", "--yes")
    assert User.objects.filter(username="root", is_active=True).exists()


def test_an_erased_user_is_erased_again_and_finds_what_came_late(person):
    run("quetzal", "--yes")
    erased = User.objects.get(pk=person.pk)
    with transaction.atomic():
        # A request that had begun before.
        person.username, person.name = "quetzal", "Quinta Zalewski"
        audit.record(person, "change", person, after={"name": "Quinta Zalewski"})
    run(erased.username, "--yes")
    commit()
    assert texts_with_names() == {}
    assert verify.verify().broken == ""


def test_an_entry_about_two_users_is_erased_twice(person):
    run("quetzal", "--yes")
    second = make_user(Role.ADMIN, username="second")
    commit()
    shared = set(ErasedEntry.objects.values_list("entry", flat=True))
    run("root", "--yes")
    commit()
    assert second.can_administer
    twice = ErasedEntry.objects.exclude(erasure=AuditEntry.objects.filter(action=ERASE).earliest("pk").pk)
    assert shared & set(twice.values_list("entry", flat=True))
    assert not AuditEntry.objects.filter(actor_name="root").exists()
    assert verify.verify().broken == ""


def test_the_digest_of_an_erased_entry_cannot_be_guessed_from_the_name(person):
    entry = AuditEntry.objects.filter(action="publish").get()
    assert entry.salt
    run("quetzal", "--yes")
    after = AuditEntry.objects.get(pk=entry.pk)
    assert (after.salt, after.digest, after.hash) == ("", entry.digest, entry.hash)
    after.actor_name = "Quinta Zalewski"
    content = digest_of(audit.content_of(after))
    assert after.digest not in (content, with_id(after.pk, content))


TAMPERED = {
    "an erased entry": "UPDATE people_auditentry SET label = 'x'"
    " WHERE id = (SELECT max(entry) FROM people_erasedentry)",
    "the erasure": "UPDATE people_auditentry SET label = 'x'"
    " WHERE id = (SELECT max(id) FROM people_auditentry)",
    "what is left": "UPDATE people_erasedentry SET digest = repeat('0', 64)",
    "whether ids count": "UPDATE people_erasedentry SET covers_id = NOT covers_id",
    "a row less": "DELETE FROM people_erasedentry WHERE entry = (SELECT max(entry) FROM people_erasedentry)",
    "all rows less": "DELETE FROM people_erasedentry",
    "another erasure": "UPDATE people_erasedentry SET erasure = erasure + 1000",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED)
def test_changes_past_an_erasure_are_found(person, statement):
    run("quetzal", "--yes")
    commit()
    assert verify.verify().broken == ""
    tamper(statement)
    assert verify.verify().broken != ""


def test_another_content_with_its_own_digest_is_found(person):
    """The erasure itself states its remaining rows, and is part of the chain."""
    run("quetzal", "--yes")
    commit()
    row = ErasedEntry.objects.latest("entry")
    entry = AuditEntry.objects.get(pk=row.entry)
    entry.label = "x"
    tamper("UPDATE people_auditentry SET label = 'x' WHERE id = %s", entry.pk)
    tamper(
        "UPDATE people_erasedentry SET digest = %s WHERE id = %s", digest_of(audit.content_of(entry)), row.pk
    )
    assert verify.verify().fault.code == "changed"


def test_the_trail_refuses_changes_outside_of_an_erasure(person):
    for variable in ("", "SET LOCAL pegboard.erases = 'on';"):
        with (
            pytest.raises(Exception, match="never changes"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(f"{variable} UPDATE people_auditentry SET action = 'x'")


def test_only_the_owner_of_the_tables_erases(as_role):  # noqa: F811
    make_user(Role.ADMIN, username="root")
    user = make_user(username="quetzal", name="Quinta Zalewski")
    with transaction.atomic():
        audit.record(user, "change", user, after={"name": "Quinta Zalewski"})
    head = verify.verify().head
    owner = connection.settings_dict["USER"]
    as_role()
    role = connection.settings_dict["USER"]
    assert role != owner
    with pytest.raises(CommandError, match="owner of the tables"):
        run("quetzal", "--yes")
    assert User.objects.filter(username="quetzal").exists()
    assert AuditEntry.objects.filter(actor_name="Quinta Zalewski").exists()

    connection.close()
    connection.settings_dict["USER"] = owner
    run("quetzal", "--yes")
    connection.close()
    connection.settings_dict["USER"] = role
    # The role that may only add to the trail verifies it and adds to it.
    make_user(username="next")
    with transaction.atomic():
        audit.record(None, "change", User.objects.get(username="next"), after={"name": "Next"})
    verification = verify.verify(head)
    assert (verification.broken, verification.passed, verification.good) == (
        "",
        True,
        AuditEntry.objects.count(),
    )
    assert texts_with_names() == {}
