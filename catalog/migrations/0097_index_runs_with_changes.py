from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("catalog", "0096_label_of_noted_findings")]

    operations = [
        AddIndexConcurrently(
            model_name="run",
            index=models.Index(
                condition=models.Q(
                    ("added__gt", 0),
                    ("changed__gt", 0),
                    ("withdrawn__gt", 0),
                    ("returned__gt", 0),
                    _connector="OR",
                ),
                fields=["-id"],
                name="run_newest_with_changes",
            ),
        ),
    ]
