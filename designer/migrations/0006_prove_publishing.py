import uuid

from django.db import migrations, models

import core.encryption

# The owner of the tables may do everything anyway, and reads no key: `make run` and the tests are one.
GUARD = """
CREATE TABLE {schema}.designer_publishingcheck (
    id integer PRIMARY KEY CHECK (id = 1), inner_key bytea NOT NULL, outer_key bytea NOT NULL
);
CREATE FUNCTION {schema}.pegboard_check_proof() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
    keys {schema}.designer_publishingcheck;
    facts text;
BEGIN
    IF pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RETURN NEW;
    END IF;
    IF TG_TABLE_NAME = 'designer_release' THEN
        IF NEW.digest <> encode(sha256(convert_to(NEW.document, 'UTF8')), 'hex') THEN
            RAISE EXCEPTION 'a release has the digest of its document' USING ERRCODE = 'insufficient_privilege';
        END IF;
        facts := concat_ws(E'\\n', 'release', NEW.agent_id, NEW.number, NEW.digest, NEW.created_by_id);
    ELSE
        facts := concat_ws(E'\\n', 'export', NEW.release_id, NEW.format, encode(sha256(NEW.body), 'hex'));
    END IF;
    SELECT * INTO keys FROM {schema}.designer_publishingcheck WHERE id = 1;
    -- HMAC-SHA256 (RFC 2104), whose two blocks of the key are kept ready.
    IF NEW.proof IS DISTINCT FROM encode(
        sha256(keys.outer_key || sha256(keys.inner_key || convert_to(facts, 'UTF8'))), 'hex')
    THEN
        RAISE EXCEPTION 'rows of % come from publishing alone', TG_TABLE_NAME
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION {schema}.pegboard_check_proof() FROM PUBLIC;
CREATE TRIGGER designer_release_proven BEFORE INSERT ON {schema}.designer_release
    FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_check_proof();
CREATE TRIGGER designer_export_proven BEFORE INSERT ON {schema}.designer_export
    FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_check_proof();
"""
UNGUARD = """
DROP TRIGGER designer_release_proven ON {schema}.designer_release;
DROP TRIGGER designer_export_proven ON {schema}.designer_export;
DROP FUNCTION {schema}.pegboard_check_proof();
DROP TABLE {schema}.designer_publishingcheck;
"""


def _run(schema_editor, sql):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        (schema,) = cursor.fetchone()
    schema_editor.execute(sql.format(schema=schema), params=None)


def guard(apps, schema_editor):
    _run(schema_editor, GUARD)


def unguard(apps, schema_editor):
    _run(schema_editor, UNGUARD)


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0005_name_agents_for_keys"),
        ("people", "0009_fix_search_path_of_the_chain"),
    ]

    operations = [
        migrations.CreateModel(
            name="PublishingKey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.UUID("5ea1ed00-0000-4000-8000-000000000002"),
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("sealed", core.encryption.EncryptedField()),
                ("key_id", core.encryption.KeyIdField("sealed")),
            ],
        ),
        migrations.AddField(
            model_name="export",
            name="proof",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="release",
            name="proof",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.RunPython(guard, unguard),
    ]
