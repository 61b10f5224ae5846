from django.db import migrations, models


class Migration(migrations.Migration):
    """Only the names in Python change: the columns keep theirs, which old code reads and writes."""

    dependencies = [("catalog", "0037_keep_alarms"), ("people", "0013_call_keys_api_keys")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("call", "token", "api_key"),
                migrations.AlterField(
                    model_name="call",
                    name="api_key",
                    field=models.ForeignKey(
                        db_column="token_id",
                        db_index=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="+",
                        to="people.apikey",
                    ),
                ),
            ]
        ),
    ]
