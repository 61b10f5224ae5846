import django.db.models.deletion
from django.db import migrations, models

FREEZE = """
CREATE TRIGGER designer_effectiveversion_frozen BEFORE UPDATE OR DELETE ON designer_effectiveversion
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_effectiveversion_not_truncated BEFORE TRUNCATE ON designer_effectiveversion
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
"""
THAW = """
DROP TRIGGER designer_effectiveversion_frozen ON designer_effectiveversion;
DROP TRIGGER designer_effectiveversion_not_truncated ON designer_effectiveversion;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0023_count_what_is_written"),
    ]

    operations = [
        migrations.CreateModel(
            name="EffectiveVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("node", models.BigIntegerField()),
                ("tool", models.BigIntegerField()),
                ("child", models.BigIntegerField()),
                ("uuid", models.UUIDField()),
                ("number", models.PositiveIntegerField()),
                ("dotted_name", models.CharField(max_length=400)),
                ("semver", models.CharField(max_length=40)),
                ("digest", models.CharField(max_length=64)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="designer.agent"
                    ),
                ),
                (
                    "release",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="designer.release"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("agent", "node", "uuid", "number"), name="one_effective_version_per_number"
                    ),
                    models.UniqueConstraint(
                        fields=("agent", "node", "dotted_name", "semver"),
                        name="one_effective_version_per_semver",
                    ),
                ],
            },
        ),
        migrations.RunSQL(FREEZE, THAW),
    ]
