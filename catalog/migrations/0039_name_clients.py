from django.db import migrations, models


class Migration(migrations.Migration):
    """Only the names in Python change: the columns keep theirs, which old code reads and writes."""

    dependencies = [("catalog", "0038_call_keys_api_keys")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("otheranswer", "guise", "client"),
                migrations.AlterField(
                    model_name="otheranswer",
                    name="client",
                    field=models.CharField(
                        choices=[
                            ("stranger", "a client without our credential"),
                            ("client", "another client than Pegboard"),
                        ],
                        db_column="guise",
                        max_length=10,
                    ),
                ),
            ]
        ),
    ]
