import django.db.models.deletion
from django.db import migrations, models

# Where releases are now, then where they were by the trail; living agents before removed ones.
FILL = """
INSERT INTO designer_agentaddress (slug, agent_id)
    SELECT agent.slug, agent.id FROM designer_agent agent
    WHERE EXISTS (SELECT FROM designer_release WHERE agent_id = agent.id)
    ORDER BY agent.removed_at IS NOT NULL, agent.id DESC
ON CONFLICT (slug) DO NOTHING;
INSERT INTO designer_agentaddress (slug, agent_id, left_at)
    SELECT entry.before ->> 'slug', agent.id, entry.at
    FROM people_auditentry entry JOIN designer_agent agent ON agent.id::text = entry.object_id
    WHERE entry.kind = 'agent' AND entry.action = 'edit' AND entry.before ? 'slug'
        AND entry.before ->> 'slug' <> agent.slug
        AND NOT EXISTS (SELECT FROM designer_agent other
            WHERE other.slug = entry.before ->> 'slug' AND other.removed_at IS NULL)
        AND EXISTS (SELECT FROM designer_release WHERE agent_id = agent.id)
    ORDER BY entry.at DESC
ON CONFLICT (slug) DO NOTHING;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0008_show_tuned_words"),
        ("people", "0009_fix_search_path_of_the_chain"),
    ]

    operations = [
        migrations.CreateModel(
            name="AgentAddress",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(max_length=60, unique=True)),
                ("left_at", models.DateTimeField(null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="addresses",
                        to="designer.agent",
                    ),
                ),
            ],
            options={"ordering": ["id"]},
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
