from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0048_state_retries"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="mode",
            field=models.CharField(
                choices=[
                    ("wait", "Waited for"),
                    ("async", "In the background"),
                    ("stream", "Followed as it goes"),
                ],
                db_default="wait",
                default="wait",
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="call",
            name="remote_run",
            field=models.CharField(blank=True, db_default="", default="", max_length=255),
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
                        ],
                    )
                ),
                name="call_outcome_known",
            ),
        ),
    ]
