"""Changes of tools are logged for the index of each host. The tables of the index that was in the database stay for
the release before this one, and go with the next.
"""

from django.db import migrations, models
from django.db.models.functions import Now

TRIGGERS = """
CREATE FUNCTION pegboard_log_new_tools() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_toolchange (tool_id, is_new_version, transaction)
        SELECT id, true, pg_current_xact_id()::text::bigint FROM new_tools ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_tool_log_new AFTER INSERT ON catalog_tool
    REFERENCING NEW TABLE AS new_tools FOR EACH STATEMENT EXECUTE FUNCTION pegboard_log_new_tools();

CREATE FUNCTION pegboard_log_tool() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_toolchange (tool_id, is_new_version, transaction)
        VALUES (NEW.id, OLD.current_id IS DISTINCT FROM NEW.current_id, pg_current_xact_id()::text::bigint);
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_tool_log_changed AFTER UPDATE ON catalog_tool FOR EACH ROW
    WHEN (OLD.current_id IS DISTINCT FROM NEW.current_id OR OLD.worded_at IS DISTINCT FROM NEW.worded_at
        OR OLD.status <> NEW.status)
    EXECUTE FUNCTION pegboard_log_tool();

CREATE FUNCTION pegboard_log_tools_of_endpoint() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_toolchange (tool_id, is_new_version, transaction)
        SELECT id, NEW.removed_at IS NULL, pg_current_xact_id()::text::bigint
        FROM catalog_tool WHERE endpoint_id = NEW.id ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_endpoint_log_tools AFTER UPDATE ON catalog_endpoint FOR EACH ROW
    WHEN (OLD.removed_at IS DISTINCT FROM NEW.removed_at OR OLD.vendor_id <> NEW.vendor_id)
    EXECUTE FUNCTION pegboard_log_tools_of_endpoint();

CREATE FUNCTION pegboard_log_tools_of_vendor() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_toolchange (tool_id, is_new_version, transaction)
        SELECT t.id, OLD.removed_at IS DISTINCT FROM NEW.removed_at, pg_current_xact_id()::text::bigint
        FROM catalog_tool t JOIN catalog_endpoint e ON e.id = t.endpoint_id
        WHERE e.vendor_id = NEW.id ORDER BY t.id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_vendor_log_tools AFTER UPDATE ON catalog_vendor FOR EACH ROW
    WHEN (OLD.removed_at IS DISTINCT FROM NEW.removed_at OR OLD.renamed_at IS DISTINCT FROM NEW.renamed_at)
    EXECUTE FUNCTION pegboard_log_tools_of_vendor();

DROP TRIGGER catalog_vendor_queue_tools ON catalog_vendor;
DROP TRIGGER catalog_endpoint_queue_tools ON catalog_endpoint;
DROP TRIGGER catalog_tool_queue_changed ON catalog_tool;
DROP TRIGGER catalog_tool_queue_new ON catalog_tool;
DROP FUNCTION pegboard_queue_tools_of_vendor();
DROP FUNCTION pegboard_queue_tools_of_endpoint();
DROP FUNCTION pegboard_queue_tool();
DROP FUNCTION pegboard_queue_new_tools();
"""


class Migration(migrations.Migration):
    dependencies = [("catalog", "0082_record_searches")]

    operations = [
        migrations.CreateModel(
            name="ToolChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tool_id", models.BigIntegerField()),
                (
                    "is_new_version",
                    models.BooleanField(help_text="The tool has to be indexed to be found as it is now."),
                ),
                ("transaction", models.BigIntegerField(help_text="The database transaction that made it.")),
                ("changed_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "indexes": [models.Index(fields=["transaction"], name="tool_change_by_transaction")],
            },
        ),
        migrations.RunSQL(TRIGGERS),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name=name)
                for name in (
                    *("SearchDocument", "SearchPosting", "SearchWord", "SearchLexeme", "SearchSegment"),
                    "IndexQueueEntry",
                )
            ]
        ),
    ]
