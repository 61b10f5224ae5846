from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("catalog", "0092_labels_of_fields")]

    operations = [
        AddIndexConcurrently(
            model_name="example",
            index=models.Index(fields=["tool", "name"], name="example_by_name"),
        ),
    ]
