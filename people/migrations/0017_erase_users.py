from django.db import migrations, models

# The owner of the tables may erase the names of a user from entries. All that the chain consists of stays as it is.
ERASABLE = """
CREATE OR REPLACE FUNCTION {schema}.pegboard_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_LEVEL = 'ROW' THEN
        -- An entry gets its place, once.
        IF OLD.position IS NULL AND NEW.position IS NOT NULL
            AND to_jsonb(NEW) - '{{position,previous,hash}}'::text[] = to_jsonb(OLD) - '{{position,previous,hash}}'::text[]
        THEN
            RETURN NEW;
        END IF;
        IF current_setting('pegboard.erases', true) = 'on'
            AND to_jsonb(NEW) - '{{actor_name,label,before,after,why,salt}}'::text[]
                = to_jsonb(OLD) - '{{actor_name,label,before,after,why,salt}}'::text[]
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit trail never changes' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER people_erasedentry_frozen BEFORE UPDATE OR DELETE ON {schema}.people_erasedentry
    FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_refuse_audit_change();
CREATE TRIGGER people_erasedentry_not_truncated BEFORE TRUNCATE ON {schema}.people_erasedentry
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.pegboard_refuse_audit_change();
"""


def allow_erasure(apps, schema_editor):
    """In the schema that the tables are in, which a deployment may have chosen."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        (schema,) = cursor.fetchone()
    schema_editor.execute(ERASABLE.format(schema=schema), params=None)


class Migration(migrations.Migration):
    dependencies = [("people", "0016_remember_idempotent_writes")]
    operations = [
        migrations.AddField(
            model_name="auditentry",
            name="salt",
            field=models.CharField(db_default="", default="", editable=False, max_length=32),
        ),
        migrations.CreateModel(
            name="ErasedEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("entry", models.BigIntegerField()),
                ("erasure", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("covers_id", models.BooleanField()),
            ],
            options={
                "verbose_name_plural": "erased entries",
                "constraints": [
                    models.UniqueConstraint(fields=("entry", "erasure"), name="one_row_per_erased_entry")
                ],
            },
        ),
        migrations.RunPython(allow_erasure, migrations.RunPython.noop),
    ]
