from django.db import migrations

# A function that runs as the owner must find what it names, whatever its caller has made: without a list
# of its own the caller's temporary tables come first, with triggers that would run as the owner.
SAFE = """
CREATE OR REPLACE FUNCTION {schema}.pegboard_audit_link() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
    head {schema}.people_audithead;
    link text;
BEGIN
    LOOP
        SELECT * INTO head FROM {schema}.people_audithead WHERE id = 1 FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.people_audithead (id, position, hash)
            VALUES (1, 0, repeat('0', 64)) ON CONFLICT DO NOTHING;
    END LOOP;
    link := encode(
        sha256(convert_to((head.position + 1)::text || E'\\n' || head.hash || E'\\n' || NEW.digest, 'UTF8')), 'hex');
    UPDATE {schema}.people_auditentry SET position = head.position + 1, previous = head.hash, hash = link
        WHERE id = NEW.id;
    UPDATE {schema}.people_audithead SET position = head.position + 1, hash = link WHERE id = 1;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION {schema}.pegboard_audit_link() FROM PUBLIC;
REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC;
"""


def make_safe(apps, schema_editor):
    """In the schema that the tables are in, which a deployment may have chosen."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema()), quote_ident(current_database())")
        schema, database = cursor.fetchone()
    schema_editor.execute(SAFE.format(schema=schema, database=database), params=None)


class Migration(migrations.Migration):
    dependencies = [("people", "0008_report_keys")]
    operations = [migrations.RunPython(make_safe, migrations.RunPython.noop)]
