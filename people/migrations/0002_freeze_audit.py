from django.db import migrations

FREEZE = """
CREATE FUNCTION pegboard_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail never changes' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER people_auditentry_frozen BEFORE UPDATE OR DELETE ON people_auditentry
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_audit_change();
"""
THAW = """
DROP TRIGGER people_auditentry_frozen ON people_auditentry;
DROP FUNCTION pegboard_refuse_audit_change();
"""


class Migration(migrations.Migration):
    dependencies = [("people", "0001_initial")]
    operations = [migrations.RunSQL(FREEZE, THAW)]
