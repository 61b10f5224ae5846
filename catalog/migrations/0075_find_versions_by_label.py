from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # an index is built beside its users outside of a transaction only

    dependencies = [
        ("catalog", "0074_add_listed_document"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="toolversion",
            index=models.Index(
                condition=models.Q(("label", ""), _negated=True),
                fields=["label", "id"],
                name="version_by_label",
            ),
        ),
    ]
