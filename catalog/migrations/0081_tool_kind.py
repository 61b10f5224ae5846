from django.db import migrations, models

from core.migration_operations import AddFieldIfMissing, AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("catalog", "0080_picture_tools")]

    operations = [
        AddFieldIfMissing(
            model_name="tool",
            name="kind",
            field=models.CharField(
                choices=[
                    ("tool", "Tool"),
                    ("prompt", "Prompt"),
                    ("resource", "Resource"),
                    ("resource_template", "Resource template"),
                ],
                db_default="tool",
                default="tool",
                max_length=20,
            ),
        ),
        AddIndexConcurrently(
            model_name="tool",
            index=models.Index(
                condition=models.Q(("kind", "tool"), _negated=True),
                fields=["endpoint", "kind"],
                name="tool_of_other_kind",
            ),
        ),
    ]
