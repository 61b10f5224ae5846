from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

OUTCOMES = [
    *("", "ok", "tool_error", "invalid_arguments", "needs_authorization", "needs_input", "unavailable"),
    *("refused", "cancelled", "latent", "unknown"),
]


class Migration(migrations.Migration):
    dependencies = [("catalog", "0072_own_keys_of_calls")]

    operations = [
        migrations.RemoveConstraint("call", "call_outcome_known"),
        AddConstraintNotValid(
            "call",
            models.CheckConstraint(condition=models.Q(("outcome__in", OUTCOMES)), name="call_outcome_known"),
        ),
    ]
