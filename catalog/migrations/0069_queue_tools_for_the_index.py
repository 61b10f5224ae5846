from django.db import migrations, models
from django.db.models.functions import Now

# A statement that adds tools appends them at once. Of an update only the tools that a search shows differently.
TRIGGERS = """
CREATE FUNCTION pegboard_queue_new_tools() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id) SELECT id, endpoint_id FROM new_tools ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_tool_queue_new AFTER INSERT ON catalog_tool
    REFERENCING NEW TABLE AS new_tools FOR EACH STATEMENT EXECUTE FUNCTION pegboard_queue_new_tools();

CREATE FUNCTION pegboard_queue_tool() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id) VALUES (NEW.id, NEW.endpoint_id);
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_tool_queue_changed AFTER UPDATE ON catalog_tool FOR EACH ROW
    WHEN (OLD.current_id IS DISTINCT FROM NEW.current_id OR OLD.worded_at IS DISTINCT FROM NEW.worded_at)
    EXECUTE FUNCTION pegboard_queue_tool();

CREATE FUNCTION pegboard_queue_tools_of_endpoint() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id)
        SELECT id, endpoint_id FROM catalog_tool WHERE endpoint_id = NEW.id ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_endpoint_queue_tools AFTER UPDATE ON catalog_endpoint FOR EACH ROW
    WHEN (OLD.removed_at IS DISTINCT FROM NEW.removed_at OR OLD.vendor_id <> NEW.vendor_id)
    EXECUTE FUNCTION pegboard_queue_tools_of_endpoint();

CREATE FUNCTION pegboard_queue_tools_of_vendor() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id)
        SELECT t.id, t.endpoint_id FROM catalog_tool t JOIN catalog_endpoint e ON e.id = t.endpoint_id
        WHERE e.vendor_id = NEW.id ORDER BY t.id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_vendor_queue_tools AFTER UPDATE ON catalog_vendor FOR EACH ROW
    WHEN (OLD.removed_at IS DISTINCT FROM NEW.removed_at OR OLD.renamed_at IS DISTINCT FROM NEW.renamed_at)
    EXECUTE FUNCTION pegboard_queue_tools_of_vendor();
"""
NO_TRIGGERS = """
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
    dependencies = [("catalog", "0068_add_token_note")]

    operations = [
        migrations.CreateModel(
            name="IndexQueueEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tool_id", models.BigIntegerField()),
                ("endpoint_id", models.BigIntegerField()),
                ("queued_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "verbose_name_plural": "index queue entries",
                "indexes": [models.Index(fields=["endpoint_id", "id"], name="index_queue_by_endpoint")],
            },
        ),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
        migrations.AddField(
            model_name="run",
            name="inspecting",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                help_text="The revision of the inspection that has begun and has not ended.",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="inspected_through",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="The last version that this inspection has covered."
            ),
        ),
    ]
