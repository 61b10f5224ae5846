import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

FREEZE = """
CREATE TRIGGER catalog_activityversion_frozen BEFORE UPDATE OR DELETE ON catalog_activityversion
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
"""
THAW = "DROP TRIGGER catalog_activityversion_frozen ON catalog_activityversion;"


def reference(to: str, **options: object) -> models.ForeignKey:
    return models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to=to, **options)


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0061_keep_marks"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Activity",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=150)),
                ("agent", models.BigIntegerField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("removed_at", models.DateTimeField(null=True)),
                ("tool", reference("catalog.tool", null=True, related_name="+")),
            ],
            options={"ordering": ["name", "id"]},
        ),
        migrations.CreateModel(
            name="ActivityVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("kind", models.CharField(max_length=20)),
                ("config", models.JSONField(default=dict)),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("activity", reference("catalog.activity", related_name="versions", db_index=False)),
                ("created_by", reference(settings.AUTH_USER_MODEL, related_name="+", db_index=False)),
                ("interface", reference("catalog.toolversion", null=True, related_name="+")),
            ],
            options={"ordering": ["-number"]},
        ),
        migrations.AddField(
            model_name="activity",
            name="current",
            field=reference("catalog.activityversion", null=True, related_name="+", db_index=False),
        ),
        migrations.AddConstraint(
            model_name="activityversion",
            constraint=models.UniqueConstraint(
                fields=("activity", "number"), name="one_activity_version_per_number"
            ),
        ),
        migrations.AddConstraint(
            model_name="activity",
            constraint=models.UniqueConstraint(
                condition=models.Q(("agent", None), ("removed_at", None)),
                fields=("name",),
                name="one_live_activity_per_name",
            ),
        ),
        migrations.AddConstraint(
            model_name="activity",
            constraint=models.UniqueConstraint(
                condition=models.Q(("agent__isnull", False), ("removed_at", None)),
                fields=("agent", "tool"),
                name="one_live_activity_per_tool_in_agent",
            ),
        ),
        migrations.RunSQL(FREEZE, THAW),
        migrations.AddField(
            model_name="call",
            name="activity",
            field=reference("catalog.activityversion", null=True, related_name="calls", db_index=False),
        ),
        migrations.AddField(
            model_name="call",
            name="environment",
            field=models.CharField(blank=True, db_default="", default="", max_length=60),
        ),
        migrations.AddField(
            model_name="call",
            name="parent",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="steps",
                to="catalog.call",
            ),
        ),
        migrations.RemoveConstraint(model_name="call", name="call_outcome_known"),
        AddConstraintNotValid(
            model_name="call",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "outcome__in",
                        [
                            "",
                            "ok",
                            "tool_error",
                            "invalid_arguments",
                            "needs_authorization",
                            "needs_input",
                            "unavailable",
                            "refused",
                            "cancelled",
                            "latent",
                        ],
                    )
                ),
                name="call_outcome_known",
            ),
        ),
    ]
