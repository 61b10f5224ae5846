"""The product on a PostgreSQL role of its own, which may add to append-only tables and never change them."""

import base64

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, connections, transaction

from catalog.credentials import rotation
from catalog.enumeration import runs as enumeration_runs
from catalog.models import ToolVersion
from catalog.models.runs import RunStatus, Trigger
from catalog.review import holds
from core.errors import DomainError
from designer.agents import agents
from designer.pins import pins
from designer.releases import channels, publishing, release_access
from people.audit import verify
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_tool, make_user
from tests.vendor import Vendor, serving, tools

FROZEN = (
    "people_auditentry",
    "catalog_toolversion",
    "people_erasedentry",
    "designer_release",
    "designer_export",
    "designer_channelmove",
    "designer_releasesignature",
    "designer_effectiveversion",
)
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
    "SET LOCAL pegboard.erases = 'on'; UPDATE people_auditentry SET label = 'x'",
    "INSERT INTO people_erasedentry (entry, erasure, digest, covers_id) VALUES (1, 2, '', true)",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION pegboard_refuse_change() RETURNS trigger"
    " LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "DROP FUNCTION pegboard_audit_link() CASCADE",
    "CREATE TABLE mine (id int)",
    "SELECT pegboard_audit_link()",
    "SELECT * FROM designer_publishingcheck",
    "UPDATE designer_publishingcheck SET inner_key = '', outer_key = ''",
    "DELETE FROM designer_publishingcheck",
    "CREATE TEMP TABLE mine (id int);"
    "CREATE TRIGGER t BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION pegboard_check_proof()",
    "INSERT INTO django_migrations (app, name, applied) VALUES ('people', 'x', now())",
]


@pytest.fixture
def as_role(transactional_db):
    """Run the statements from here on as the role, on separate connections."""
    owner = connection.settings_dict["USER"]
    names = set()

    def become(*options: str) -> None:
        name = f"role_of_{connection.settings_dict['NAME']}"
        names.add(name)
        connections.close_all()
        connection.settings_dict["USER"] = owner
        call_command("database_role", name, *options, verbosity=0)
        connections.close_all()
        connection.settings_dict["USER"] = name

    yield become
    connections.close_all()
    connection.settings_dict["USER"] = owner
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"DROP OWNED BY {name}")
            cursor.execute(f"DROP ROLE {name}")


def test_the_role_runs_the_product_and_changes_nothing_that_is_append_only(as_role):
    as_role()
    actor = make_user(Role.DESIGNER)
    agent = agents.create_agent(actor=actor, name="Desk")
    pin = pins.pin_tool(agent, actor=actor, tool=make_tool())
    publishing.publish(agent, actor=actor)
    pins.remove_pin(pin, actor=actor)
    with serving(Vendor(tools(2))) as vendor:
        run = enumeration_runs.request_run(
            make_endpoint(url=vendor.url), trigger=Trigger.COMMAND, actor=actor
        )
        assert enumeration_runs.perform(run.pk).status == RunStatus.SUCCEEDED
    assert ToolVersion.objects.count() == 3

    for statement in TRIES:
        refusal = pytest.raises(DatabaseError, match=r"permission denied|must be owner")
        with refusal, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    verification = verify.verify()
    assert (verification.broken, verification.good) == ("", AuditEntry.objects.count())


SHADOW = """
CREATE TEMP TABLE people_audithead (id int PRIMARY KEY, position bigint, hash text);
INSERT INTO people_audithead VALUES (1, 0, repeat('0', 64));
GRANT ALL ON people_audithead TO PUBLIC;
CREATE FUNCTION pg_temp.rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    ALTER TABLE public.designer_release DISABLE TRIGGER USER;
    UPDATE public.designer_release SET note = 'rewritten';
    RETURN NEW;
END $$;
CREATE TRIGGER rewrite BEFORE UPDATE ON people_audithead FOR EACH ROW EXECUTE FUNCTION pg_temp.rewrite();
"""


def test_a_temporary_table_of_the_roles_own_does_not_make_it_the_owner(as_role):
    as_role()
    actor = make_user(Role.DESIGNER)
    agent = agents.create_agent(actor=actor, name="Desk")
    pins.pin_tool(agent, actor=actor, tool=make_tool())
    release = publishing.publish(agent, actor=actor)
    with connection.cursor() as cursor:
        cursor.execute(SHADOW)
    agents.create_agent(actor=actor, name="Another")
    connection.close()  # and with it the table that shadows the real one
    release.refresh_from_db()
    assert release.note == ""
    verification = verify.verify()
    assert (verification.broken, verification.good) == ("", AuditEntry.objects.count())


FORGED = {
    "a release": "INSERT INTO designer_release"
    " (agent_id, number, digest, document, tool_count, note, created_by_id, created_at, proof)"
    " SELECT agent_id, number + 1, encode(sha256(convert_to(d, 'UTF8')), 'hex'), d, tool_count, note,"
    " created_by_id, created_at, proof FROM designer_release, replace(document, 'weather', 'gossip') d",
    "a release with the digest of another": "INSERT INTO designer_release"
    " (agent_id, number, digest, document, tool_count, note, created_by_id, created_at, proof)"
    " SELECT agent_id, number, digest, '{}', tool_count, note, created_by_id, created_at, proof"
    " FROM designer_release",
    "a format": "INSERT INTO designer_export (release_id, format, body, proof)"
    " SELECT release_id, 'another', 'x', proof FROM designer_export LIMIT 1",
    "a format without a proof": "INSERT INTO designer_export (release_id, format, body)"
    " SELECT id, 'another', 'x' FROM designer_release",
}


def test_the_role_cannot_put_in_what_was_not_published(as_role):
    as_role()
    actor = make_user(Role.DESIGNER)
    agent = agents.create_agent(actor=actor, name="Desk")
    pin = pins.pin_tool(agent, actor=actor, tool=make_tool())
    release = publishing.publish(agent, actor=actor, channel="live")
    for what, statement in FORGED.items():
        refusal = pytest.raises(DatabaseError, match=r"come from publishing alone|the digest of its document")
        with refusal, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
            pytest.fail(f"The role put in {what}.")
    assert release_access.find_release(agent.slug, channels.LIVE, actor).digest == release.digest

    pins.set_alias(pin, actor=actor, alias="forecast")
    assert publishing.publish(agent, actor=actor, channel="live").number == 2
    assert release_access.find_release(agent.slug, channels.LIVE, actor).number == 2


def test_a_role_whose_publishing_key_was_given_up_publishes_once_the_owner_made_another(as_role, settings):
    as_role()
    actor = make_user(Role.DESIGNER)
    agent = agents.create_agent(actor=actor, name="Desk")
    pin = pins.pin_tool(agent, actor=actor, tool=make_tool())
    publishing.publish(agent, actor=actor)
    key_name, _, _ = settings.KEYS[0].partition(":")
    settings.KEYS = ["k9:" + base64.b64encode(bytes(32)).decode()]
    assert rotation.forget(key_name) >= 1
    pins.set_alias(pin, actor=actor, alias="forecast")
    with pytest.raises(DomainError, match=r"manage\.py database_role"):
        publishing.publish(agent, actor=actor)

    as_role()
    assert publishing.publish(agent, actor=actor).number == 2


@pytest.mark.django_db
def test_what_runs_as_its_owner_looks_for_names_where_no_caller_can_put_any():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT proname, coalesce(array_to_string(proconfig, ';'), ''),"
            " has_function_privilege('public', oid, 'execute') FROM pg_proc"
            " WHERE prosecdef AND pronamespace <> 'pg_catalog'::regnamespace"
        )
        rows = cursor.fetchall()
    assert rows
    safe = ("search_path=pg_catalog, public, pg_temp", False)
    assert [name for name, *others in rows if tuple(others) != safe] == []


@pytest.mark.django_db
def test_a_role_that_was_given_nothing_makes_no_temporary_tables():
    with connection.cursor() as cursor:
        cursor.execute("SELECT has_database_privilege('public', current_database(), 'TEMPORARY')")
        assert cursor.fetchone() == (False,)


def test_a_role_for_workers_reads_a_vendor_and_cannot_touch_what_people_decided(as_role):
    actor = make_user(Role.DESIGNER)
    agent = agents.create_agent(actor=actor, name="Desk")
    with serving(Vendor(tools(2))) as vendor:
        endpoint = make_endpoint(url=vendor.url)
        as_role("--read-only", "designer", "--read-only", "people")
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.SCHEDULE)
        assert enumeration_runs.perform(run.pk).status == RunStatus.SUCCEEDED
    assert AuditEntry.objects.filter(action="read", actor=None).count() == 1
    assert holds.review_states(ToolVersion.objects.all()) == {}
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


@pytest.fixture
def plain_owner(db):
    """The tables and the database belong to a role without rights of its own, until the test ends."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE plain_owner LOGIN")
        name = connection.settings_dict["NAME"]
        cursor.execute(f"ALTER DATABASE {name} OWNER TO plain_owner")
        cursor.execute(
            """
            SELECT format('ALTER TABLE %s OWNER TO plain_owner', oid::regclass) FROM pg_class
            WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
            UNION ALL
            SELECT format('ALTER FUNCTION %s OWNER TO plain_owner', oid::regprocedure) FROM pg_proc
            WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'pegboard%'
            """
        )
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)
        yield cursor


def test_an_owner_without_rights_over_roles_uses_a_role_that_exists(plain_owner):
    plain_owner.execute(
        "CREATE ROLE made_by_another LOGIN PASSWORD 'x'; CREATE VIEW of_an_extension AS SELECT 1;"
        "SET LOCAL ROLE plain_owner"
    )
    call_command("database_role", "made_by_another", verbosity=0)
    plain_owner.execute(
        "SELECT has_table_privilege('made_by_another', 'catalog_tool', 'INSERT'),"
        " has_table_privilege('made_by_another', 'people_auditentry', 'UPDATE'),"
        " has_schema_privilege('made_by_another', current_schema(), 'CREATE'),"
        " has_database_privilege('public', current_database(), 'TEMPORARY')"
    )
    assert plain_owner.fetchone() == (True, False, False, False)


def test_an_owner_of_the_tables_alone_is_referred_to_the_owner_of_the_database(plain_owner):
    name = connection.settings_dict["NAME"]
    plain_owner.execute(
        f"ALTER DATABASE {name} OWNER TO CURRENT_USER; REVOKE ALL ON DATABASE {name} FROM PUBLIC;"
        "CREATE ROLE made_by_another LOGIN; SET LOCAL ROLE plain_owner"
    )
    with pytest.raises(CommandError) as refused:
        call_command("database_role", "made_by_another", verbosity=0)
    assert f'GRANT CONNECT, TEMPORARY ON DATABASE "{name}" TO made_by_another;' in str(refused.value)


def test_a_member_of_the_owner_is_not_made_into_the_role(plain_owner):
    plain_owner.execute("CREATE ROLE member LOGIN IN ROLE plain_owner; SET LOCAL ROLE plain_owner")
    with pytest.raises(CommandError, match="Choose another name"):
        call_command("database_role", "member", verbosity=0)


@pytest.mark.parametrize("setup", ["SELECT", "CREATE ROLE made_by_another LOGIN"])
def test_an_owner_without_rights_over_roles_is_referred_to_who_has_them(plain_owner, monkeypatch, setup):
    monkeypatch.setenv("A_PASSWORD", "hidden-password")
    plain_owner.execute(f"{setup}; SET LOCAL ROLE plain_owner")
    with pytest.raises(CommandError) as refused:
        call_command("database_role", "made_by_another", "--password-from", "A_PASSWORD", verbosity=0)
    assert "ROLE made_by_another " in str(refused.value)
    assert "hidden-password" not in str(refused.value)
