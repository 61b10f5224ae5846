import django.db.models.deletion
from django.db import migrations, models

# A version that was saved before runs what it runs now, until it is saved again.
FILL = """
INSERT INTO catalog_activitycallee (caller_id, callee_id)
SELECT DISTINCT caller.id, callee.current_id
FROM catalog_activityversion caller
CROSS JOIN LATERAL jsonb_array_elements(
    CASE jsonb_typeof(caller.config -> 'steps') WHEN 'array' THEN caller.config -> 'steps' ELSE '[]' END
) AS step
JOIN catalog_activity callee ON callee.id = nullif((step ->> 'activity')::bigint, 0)
WHERE callee.removed_at IS NULL AND callee.agent IS NULL AND callee.current_id IS NOT NULL;

CREATE TRIGGER catalog_activitycallee_frozen BEFORE UPDATE OR DELETE ON catalog_activitycallee
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0070_queue_what_is_not_indexed"),
    ]

    operations = [
        migrations.CreateModel(
            name="ActivityCallee",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "callee",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="catalog.activityversion",
                    ),
                ),
                (
                    "caller",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="callees",
                        to="catalog.activityversion",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("caller", "callee"), name="one_activity_callee_per_caller"
                    )
                ]
            },
        ),
        migrations.RunSQL(FILL, "DROP TRIGGER catalog_activitycallee_frozen ON catalog_activitycallee;"),
    ]
