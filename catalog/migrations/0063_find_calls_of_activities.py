from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # an index is built beside its users outside of a transaction only

    dependencies = [
        ("catalog", "0062_activities"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="call",
            index=models.Index(
                condition=models.Q(("activity__isnull", False)),
                fields=["activity", "-id"],
                name="call_by_activity",
            ),
        ),
        AddIndexConcurrently(
            model_name="call",
            index=models.Index(
                condition=models.Q(("parent__isnull", False)), fields=["parent"], name="call_by_parent"
            ),
        ),
    ]
