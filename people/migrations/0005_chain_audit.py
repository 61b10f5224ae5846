from django.db import migrations

from people.audit.hash_chain import CONTENT, GENESIS, digest_of, hash_of

# The database links an entry when its transaction commits, so that a chain has one order and none waits
# for longer than a commit takes. It runs as the owner of the tables: the product's own role may add
# entries and read them, and nothing else. docs/decisions/0017-audit-chain.md.
CHAIN = """
CREATE OR REPLACE FUNCTION pegboard_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_LEVEL = 'ROW' THEN
        -- The one change there is: an entry gets its place, once.
        IF OLD.position IS NULL AND NEW.position IS NOT NULL
            AND to_jsonb(NEW) - '{position,previous,hash}'::text[] = to_jsonb(OLD) - '{position,previous,hash}'::text[]
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit trail never changes' USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION pegboard_audit_enter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.position := NULL;
    NEW.previous := '';
    NEW.hash := '';
    RETURN NEW;
END $$;

CREATE FUNCTION pegboard_audit_link() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    head people_audithead;
    link text;
BEGIN
    LOOP
        SELECT * INTO head FROM people_audithead WHERE id = 1 FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO people_audithead (id, position, hash) VALUES (1, 0, repeat('0', 64)) ON CONFLICT DO NOTHING;
    END LOOP;
    link := encode(
        sha256(convert_to((head.position + 1)::text || E'\\n' || head.hash || E'\\n' || NEW.digest, 'UTF8')), 'hex');
    UPDATE people_auditentry SET position = head.position + 1, previous = head.hash, hash = link
        WHERE id = NEW.id;
    UPDATE people_audithead SET position = head.position + 1, hash = link WHERE id = 1;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION pegboard_audit_link() FROM PUBLIC;

-- Each entry is updated once, when it gets its place: with room for that on its own page no index is touched.
ALTER TABLE people_auditentry SET (fillfactor = 60);

CREATE TRIGGER people_auditentry_enter BEFORE INSERT ON people_auditentry
    FOR EACH ROW EXECUTE FUNCTION pegboard_audit_enter();
CREATE CONSTRAINT TRIGGER people_auditentry_link AFTER INSERT ON people_auditentry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pegboard_audit_link();
CREATE TRIGGER people_auditentry_not_truncated BEFORE TRUNCATE ON people_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_audit_change();
"""
LOOSE = """
ALTER TABLE people_auditentry RESET (fillfactor);
DROP TRIGGER people_auditentry_not_truncated ON people_auditentry;
DROP TRIGGER people_auditentry_link ON people_auditentry;
DROP TRIGGER people_auditentry_enter ON people_auditentry;
DROP FUNCTION pegboard_audit_link();
DROP FUNCTION pegboard_audit_enter();
"""
THAW = "ALTER TABLE people_auditentry DISABLE TRIGGER people_auditentry_frozen"
FREEZE = "ALTER TABLE people_auditentry ENABLE TRIGGER people_auditentry_frozen"
BATCH = 1_000


def chain_existing(apps, schema_editor):
    """In the order of their ids."""
    entries = apps.get_model("people", "AuditEntry").objects
    position, previous, batch = 0, GENESIS, []
    for entry in entries.order_by("pk").iterator(BATCH):
        content = {name: getattr(entry, name) for name in CONTENT if name != "actor"}
        entry.digest = digest_of({**content, "actor": entry.actor_id})
        position += 1
        entry.position, entry.previous = position, previous
        entry.hash = previous = hash_of(position, previous, entry.digest)
        batch.append(entry)
        if len(batch) == BATCH:
            entries.bulk_update(batch, ["digest", "position", "previous", "hash"])
            batch.clear()
    entries.bulk_update(batch, ["digest", "position", "previous", "hash"])
    head = {"position": position, "hash": previous}
    apps.get_model("people", "AuditHead").objects.update_or_create(pk=1, defaults=head)


class Migration(migrations.Migration):
    dependencies = [
        ("people", "0004_teams_and_what_is_chained"),
        ("designer", "0003_teams"),
    ]
    operations = [
        migrations.RunSQL(THAW, FREEZE),
        migrations.RunPython(chain_existing, migrations.RunPython.noop),
        migrations.RunSQL(FREEZE, THAW),
        migrations.RunSQL(CHAIN, LOOSE),
    ]
