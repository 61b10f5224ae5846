from django.db import migrations
from django.utils import timezone

from people.audit.hash_chain import NOTED_IDS, digest_of

# From here on the digest of an entry covers its id, too: by that others refer to it. Entries that were
# written before are noted all at once, in an entry that says which id stands at which place.
ENTER = """
CREATE OR REPLACE FUNCTION {schema}.pegboard_audit_enter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.position := NULL;
    NEW.previous := '';
    NEW.hash := '';
    NEW.digest := encode(sha256(convert_to(NEW.id::text || E'\\n' || NEW.digest, 'UTF8')), 'hex');
    RETURN NEW;
END $$;
"""
# As it was before.
CONTENT_ALONE = ENTER.replace(
    "    NEW.digest := encode(sha256(convert_to(NEW.id::text || E'\\n' || NEW.digest, 'UTF8')), 'hex');\n", ""
)
IDS = """
SELECT count(*), encode(sha256(convert_to(coalesce(
    string_agg(position || ':' || id, E'\\n' ORDER BY position), ''), 'UTF8')), 'hex')
FROM {schema}.people_auditentry WHERE position IS NOT NULL
"""


def chain_content_alone(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        cursor.execute(CONTENT_ALONE.format(schema=cursor.fetchone()[0]))


def chain_ids(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        (schema,) = cursor.fetchone()
        # Waits for entries on their way, so that each is either noted or digested with its id.
        cursor.execute("LOCK TABLE people_auditentry IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(ENTER.format(schema=schema))
        cursor.execute(IDS.format(schema=schema))
        count, ids = cursor.fetchone()
    if not count:
        return
    content = {
        "at": timezone.now(),
        "actor": None,
        "actor_name": "Pegboard",
        "action": NOTED_IDS,
        "kind": "auditentry",
        "object_id": str(count),
        "label": "the audit trail",
        "agent": None,
        "before": None,
        "after": {"entries": count, "ids": ids},
        "why": "The numbers of these entries are part of the chain from here on.",
    }
    entry = apps.get_model("people", "AuditEntry")(**{**content, "digest": digest_of(content)})
    entry.save(force_insert=True)


class Migration(migrations.Migration):
    dependencies = [("people", "0010_limit_calls_of_keys")]
    operations = [migrations.RunPython(chain_ids, chain_content_alone)]
