from django.db import migrations

FREEZE = """
CREATE TRIGGER designer_release_frozen BEFORE UPDATE OR DELETE ON designer_release
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_export_frozen BEFORE UPDATE OR DELETE ON designer_export
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
"""
THAW = """
DROP TRIGGER designer_release_frozen ON designer_release;
DROP TRIGGER designer_export_frozen ON designer_export;
"""


class Migration(migrations.Migration):
    dependencies = [("designer", "0001_initial"), ("catalog", "0002_freeze_versions")]
    operations = [migrations.RunSQL(FREEZE, THAW)]
