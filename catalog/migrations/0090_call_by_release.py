from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("catalog", "0089_sensitive_values")]

    operations = [
        AddIndexConcurrently(
            model_name="call",
            index=models.Index(
                condition=models.Q(("agent__isnull", False)),
                fields=["agent", "release", "-id"],
                name="call_by_release",
            ),
        ),
    ]
