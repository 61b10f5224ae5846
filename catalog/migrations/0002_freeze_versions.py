from django.db import migrations

FREEZE = """
CREATE FUNCTION pegboard_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER catalog_toolversion_frozen BEFORE UPDATE OR DELETE ON catalog_toolversion
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
"""
THAW = """
DROP TRIGGER catalog_toolversion_frozen ON catalog_toolversion;
DROP FUNCTION pegboard_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial")]
    operations = [migrations.RunSQL(FREEZE, THAW)]
