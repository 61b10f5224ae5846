"""In a transaction of its own, so that nobody waits for the triggers' lock while the catalog is compared."""

from django.db import migrations

QUEUE = """
INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id)
SELECT t.id, t.endpoint_id FROM catalog_tool t
JOIN catalog_endpoint e ON e.id = t.endpoint_id
JOIN catalog_vendor vendor ON vendor.id = e.vendor_id
LEFT JOIN catalog_searchdocument d ON d.tool_id = t.id
WHERE CASE WHEN e.removed_at IS NULL AND vendor.removed_at IS NULL
    THEN d.version_id IS DISTINCT FROM t.current_id OR d.worded_at IS DISTINCT FROM t.worded_at
        OR d.renamed_at IS DISTINCT FROM vendor.renamed_at
    ELSE d.id IS NOT NULL END
ORDER BY t.endpoint_id, t.id
"""


class Migration(migrations.Migration):
    dependencies = [("catalog", "0069_queue_tools_for_the_index")]

    operations = [migrations.RunSQL(QUEUE, migrations.RunSQL.noop)]
