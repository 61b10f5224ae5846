from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # an index is built beside its users outside of a transaction only

    dependencies = [
        ("catalog", "0053_keep_threads"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="call",
            index=models.Index(
                condition=models.Q(("thread__isnull", False)),
                fields=["thread", "-id"],
                name="call_by_thread",
            ),
        ),
    ]
