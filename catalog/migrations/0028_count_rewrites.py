from django.db import migrations

# The trigger that freezes versions refuses to fill a new column too, so it is off for this one statement.
COUNT = """
ALTER TABLE catalog_toolversion DISABLE TRIGGER catalog_toolversion_frozen;
UPDATE catalog_toolversion v SET rewrite = earlier.count
FROM (
    SELECT id, row_number() OVER (PARTITION BY tool_id, label ORDER BY ordinal) - 1 AS count
    FROM catalog_toolversion WHERE label <> ''
) earlier
WHERE earlier.id = v.id AND earlier.count > 0;
ALTER TABLE catalog_toolversion ENABLE TRIGGER catalog_toolversion_frozen;
"""


class Migration(migrations.Migration):
    dependencies = [("catalog", "0027_name_versions")]
    operations = [migrations.RunSQL(COUNT, migrations.RunSQL.noop)]
