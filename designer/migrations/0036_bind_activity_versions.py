import django.db.models.deletion
from django.db import migrations, models

# What is bound or runs by its name goes on in the version that runs now. The trees of sub-agents are walked
# upwards, because the environments of an agent hold for all below it.
FILL = """
UPDATE designer_binding binding SET activity_version_id = activity.current_id
FROM catalog_activity activity WHERE activity.id = binding.activity_id;

WITH RECURSIVE user_of (agent, tool, name) AS (
    SELECT pin.agent_id, pin.tool_id, coalesce(
        nullif(version.raw::jsonb #>> '{properties,_activity,const}', ''), version.signature::jsonb ->> 'name'
    )
    FROM designer_pin pin
    JOIN catalog_toolversion version ON version.id = pin.version_id
    JOIN catalog_tool tool ON tool.id = pin.tool_id
    JOIN catalog_endpoint endpoint ON endpoint.id = tool.endpoint_id
    JOIN catalog_vendor vendor ON vendor.id = endpoint.vendor_id AND vendor.is_own
    WHERE pin.removed_at IS NULL
    UNION
    SELECT agent.parent_id, user_of.tool, user_of.name
    FROM user_of JOIN designer_agent agent ON agent.id = user_of.agent
    WHERE agent.parent_id IS NOT NULL
)
INSERT INTO designer_namedactivity (agent_id, tool_id, name, activity_version_id)
SELECT user_of.agent, user_of.tool, user_of.name, activity.current_id
FROM user_of JOIN catalog_activity activity ON activity.name = user_of.name
    AND activity.agent IS NULL AND activity.removed_at IS NULL AND activity.current_id IS NOT NULL;
"""
CONSTRAINT = models.UniqueConstraint(fields=("agent", "tool", "name"), name="one_named_activity_per_tool")


def reference(to: str, **options: object) -> models.ForeignKey:
    return models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to=to, **options)


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0071_pin_callees"),
        ("designer", "0035_remember_pins_of_drafts"),
    ]

    operations = [
        migrations.AddField(
            model_name="binding",
            name="activity_version",
            field=reference("catalog.activityversion", null=True),
        ),
        migrations.CreateModel(
            name="NamedActivity",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=150)),
                ("activity_version", reference("catalog.activityversion")),
                ("agent", reference("designer.agent", db_index=False)),
                ("tool", reference("catalog.tool")),
            ],
            options={"constraints": [CONSTRAINT]},
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
