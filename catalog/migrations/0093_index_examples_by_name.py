from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("catalog", "0091_first_key_of_calls")]

    operations = [
        AddIndexConcurrently(
            model_name="example",
            index=models.Index(fields=["tool", "name"], name="example_by_name"),
        ),
    ]
