from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # an index is built beside its users outside of a transaction only

    dependencies = [
        ("catalog", "0050_keep_sites_of_calls"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="call",
            index=models.Index(
                condition=models.Q(("resumes_when_granted", True)),
                fields=["agent", "on_behalf_of"],
                name="call_resumes",
            ),
        ),
    ]
