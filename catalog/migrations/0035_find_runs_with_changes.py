from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # an index is built beside its users outside of a transaction only

    dependencies = [
        ("catalog", "0034_weigh_findings"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="run",
            index=models.Index(
                fields=["endpoint", "-id"],
                condition=models.Q(
                    ("added__gt", 0),
                    ("changed__gt", 0),
                    ("withdrawn__gt", 0),
                    ("returned__gt", 0),
                    _connector="OR",
                ),
                name="run_with_changes",
            ),
        ),
    ]
