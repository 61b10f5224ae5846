from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # an index is built beside its users outside of a transaction only

    dependencies = [
        ("catalog", "0065_activities_of_administrators"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="call",
            index=models.Index(
                condition=models.Q(("parent__isnull", True), ("status__in", ["queued", "running"])),
                fields=["requested_by"],
                name="call_under_way",
            ),
        ),
    ]
