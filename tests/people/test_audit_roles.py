"""The product on a PostgreSQL role of its own, which may add to what is sealed and never change it."""

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, connections, transaction

from catalog import enumeration, holds
from catalog.models import ToolVersion
from catalog.models.runs import RunStatus, Trigger
from designer import agents, pins, releases
from people import verification
from people.models import AuditEntry
from tests.factories import make_endpoint, make_tool, make_user
from tests.vendor import Vendor, serving, tools

FROZEN = ("people_auditentry", "catalog_toolversion", "designer_release", "designer_export")
TRIES = [
    *(f"UPDATE {table} SET id = id + 1000" for table in FROZEN),
    *(f"DELETE FROM {table}" for table in FROZEN),
    *(f"TRUNCATE {table} CASCADE" for table in FROZEN),
    *(f"ALTER TABLE {table} DISABLE TRIGGER ALL" for table in FROZEN),
    *(f"DROP TABLE {table} CASCADE" for table in FROZEN),
    "UPDATE catalog_toolversion SET signature = '{}'",
    "UPDATE catalog_toolversion SET digest = repeat('0', 64)",
    "UPDATE designer_release SET document = '{}'",
    "UPDATE designer_export SET body = ''",
    "UPDATE people_auditentry SET label = 'x'",
    "UPDATE people_audithead SET position = 0",
    "DELETE FROM people_audithead",
    "INSERT INTO people_audithead VALUES (2, 1, '')",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION pegboard_refuse_change() RETURNS trigger"
    " LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "DROP FUNCTION pegboard_audit_link() CASCADE",
    "CREATE TABLE mine (id int)",
    "SELECT pegboard_audit_link()",
    "INSERT INTO django_migrations (app, name, applied) VALUES ('people', 'x', now())",
]


@pytest.fixture
def as_role(transactional_db):
    """Everything from here on runs as the role, on connections of its own."""
    owner = connection.settings_dict["USER"]
    made = []

    def become(*options: str) -> None:
        name = f"role_of_{connection.settings_dict['NAME']}"
        made.append(name)
        call_command("database_role", name, *options, verbosity=0)
        connections.close_all()
        connection.settings_dict["USER"] = name

    yield become
    connections.close_all()
    connection.settings_dict["USER"] = owner
    with connection.cursor() as cursor:
        for name in made:
            cursor.execute(f"DROP OWNED BY {name}")
            cursor.execute(f"DROP ROLE {name}")


def test_the_role_runs_the_product_and_changes_nothing_that_was_sealed(as_role):
    as_role()
    actor = make_user()
    agent = agents.create_agent(actor=actor, name="Desk")
    pin = pins.pin_tool(agent, actor=actor, tool=make_tool())
    releases.publish(agent, actor=actor)
    pins.remove_pin(pin, actor=actor)
    with serving(Vendor(tools(2))) as vendor:
        run = enumeration.request_run(make_endpoint(url=vendor.url), trigger=Trigger.COMMAND, actor=actor)
        assert enumeration.perform(run.pk).status == RunStatus.SUCCEEDED
    assert ToolVersion.objects.count() == 3

    for statement in TRIES:
        refusal = pytest.raises(DatabaseError, match=r"permission denied|must be owner")
        with refusal, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    found = verification.verify()
    assert (found.broken, found.good) == ("", AuditEntry.objects.count())


def test_a_role_for_workers_reads_a_vendor_and_cannot_touch_what_people_decided(as_role):
    actor = make_user()
    agent = agents.create_agent(actor=actor, name="Desk")
    with serving(Vendor(tools(2))) as vendor:
        endpoint = make_endpoint(url=vendor.url)
        as_role("--read-only", "designer", "--read-only", "people")
        run = enumeration.request_run(endpoint, trigger=Trigger.SCHEDULE)
        assert enumeration.perform(run.pk).status == RunStatus.SUCCEEDED
    assert AuditEntry.objects.filter(action="read", actor=None).count() == 1
    assert holds.standings(ToolVersion.objects.all()) == {}
    for change in (
        lambda: pins.pin_tool(agent, actor=actor, tool=ToolVersion.objects.first().tool),
        lambda: make_user(),
        lambda: agents.create_agent(actor=actor, name="Another"),
    ):
        with pytest.raises(DatabaseError, match="permission denied"):
            change()


@pytest.mark.django_db
def test_the_owner_is_not_made_into_the_role():
    with pytest.raises(CommandError, match="Choose another name"):
        call_command("database_role", connection.settings_dict["USER"])
