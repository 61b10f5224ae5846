from django.db import migrations

FREEZE = """
CREATE TRIGGER catalog_toolversion_not_truncated BEFORE TRUNCATE ON catalog_toolversion
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
"""
THAW = "DROP TRIGGER catalog_toolversion_not_truncated ON catalog_toolversion"


class Migration(migrations.Migration):
    dependencies = [("catalog", "0018_note_use_of_credentials")]
    operations = [migrations.RunSQL(FREEZE, THAW)]
