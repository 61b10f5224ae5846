import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

FREEZE = """
CREATE TRIGGER designer_channelmove_frozen BEFORE UPDATE OR DELETE ON designer_channelmove
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_channelmove_not_truncated BEFORE TRUNCATE ON designer_channelmove
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
"""
THAW = """
DROP TRIGGER designer_channelmove_frozen ON designer_channelmove;
DROP TRIGGER designer_channelmove_not_truncated ON designer_channelmove;
"""
# The newest release was live by itself, so that is where `live` leads from now on.
FILL = """
INSERT INTO designer_channel (agent_id, name, release_id)
    SELECT DISTINCT ON (agent_id) agent_id, 'live', id FROM designer_release ORDER BY agent_id, number DESC;
INSERT INTO designer_channelmove (channel_id, release_id, note, moved_by_id, moved_at)
    SELECT channel.id, release.id, '', release.created_by_id, release.created_at
    FROM designer_channel channel JOIN designer_release release ON release.id = channel.release_id;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0011_name_keys_api_keys"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Channel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=30)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="channels",
                        to="designer.agent",
                    ),
                ),
                (
                    "release",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="channels",
                        to="designer.release",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "name"), name="one_channel_per_name")
                ],
            },
        ),
        migrations.CreateModel(
            name="ChannelMove",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("note", models.TextField(blank=True)),
                ("moved_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "before",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="designer.release",
                    ),
                ),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="moves",
                        to="designer.channel",
                    ),
                ),
                (
                    "moved_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "release",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="designer.release",
                    ),
                ),
            ],
            options={"ordering": ["-id"]},
        ),
        migrations.RunSQL(FREEZE, THAW),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
