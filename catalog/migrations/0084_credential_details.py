from django.db import migrations, models

# Old code, which runs beside new code during a deployment, knows the columns; new code knows `details`.
# Whichever of the two a writer does not know is filled from the other.
IN_BOTH_FORMS = """
CREATE FUNCTION pegboard_credential_details() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE columns jsonb := jsonb_strip_nulls(jsonb_build_object(
    'header', nullif(NEW.header, ''), 'username', nullif(NEW.username, ''),
    'parameter', nullif(NEW.parameter, ''), 'issuer', nullif(NEW.issuer, ''),
    'subject', nullif(NEW.subject, ''), 'audience', nullif(NEW.audience, ''),
    'lifetime_seconds', NEW.lifetime_seconds));
BEGIN
    IF TG_OP = 'INSERT' AND NEW.details = '{}' OR TG_OP = 'UPDATE' AND NEW.details = OLD.details THEN
        NEW.details := (NEW.details - ARRAY['header', 'username', 'parameter', 'issuer', 'subject',
            'audience', 'lifetime_seconds']) || columns;
    ELSE
        NEW.header := coalesce(NEW.details->>'header', '');
        NEW.username := coalesce(NEW.details->>'username', '');
        NEW.parameter := coalesce(NEW.details->>'parameter', '');
        NEW.issuer := coalesce(NEW.details->>'issuer', '');
        NEW.subject := coalesce(NEW.details->>'subject', '');
        NEW.audience := coalesce(NEW.details->>'audience', '');
        NEW.lifetime_seconds := (NEW.details->>'lifetime_seconds')::integer;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER catalog_credential_details BEFORE INSERT OR UPDATE ON catalog_credential
    FOR EACH ROW EXECUTE FUNCTION pegboard_credential_details();
UPDATE catalog_credential SET name = name;
"""
TEXTS = {"header": 64, "username": 200, "parameter": 64, "issuer": 200, "subject": 200, "audience": 200}


class Migration(migrations.Migration):
    dependencies = [("catalog", "0083_log_changes_of_tools")]

    operations = [
        migrations.AddField(
            model_name="credential",
            name="details",
            field=models.JSONField(default=dict, db_default=models.Value({}, models.JSONField())),
        ),
        *(
            migrations.AlterField(
                model_name="credential",
                name=name,
                field=models.CharField(max_length=length, blank=True, db_default=""),
            )
            for name, length in TEXTS.items()
        ),
        migrations.AlterField(model_name="credential", name="kind", field=models.CharField(max_length=20)),
        migrations.RunSQL(IN_BOTH_FORMS, migrations.RunSQL.noop),
        # The columns stay until no old code runs any more.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name="credential", name=name)
                for name in (*TEXTS, "lifetime_seconds")
            ]
        ),
    ]
