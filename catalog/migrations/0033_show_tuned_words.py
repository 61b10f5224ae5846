from django.db import migrations, models

from core.migration_operations import AddFieldIfMissing, AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("catalog", "0032_ask_for_more_scope"),
    ]

    operations = [
        AddFieldIfMissing(
            model_name="searchdocument",
            name="worded_at",
            field=models.DateTimeField(help_text="That of the tool whose words were indexed.", null=True),
        ),
        AddFieldIfMissing(
            model_name="tool",
            name="is_tuned",
            field=models.BooleanField(db_default=False, default=False),
        ),
        AddFieldIfMissing(
            model_name="tool",
            name="worded_at",
            field=models.DateTimeField(null=True),
        ),
        AddIndexConcurrently(
            model_name="tool",
            index=models.Index(
                condition=models.Q(("is_tuned", True), ("worded_at__isnull", False), _connector="OR"),
                fields=["-worded_at"],
                name="tool_by_words",
            ),
        ),
    ]
