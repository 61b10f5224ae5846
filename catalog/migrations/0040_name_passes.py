from django.db import migrations, models


class Migration(migrations.Migration):
    """Only the names in Python change: the columns keep theirs, which old code reads and writes."""

    dependencies = [("catalog", "0039_name_clients")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("run", "readings", "passes"),
                migrations.AlterField(
                    model_name="run",
                    name="passes",
                    field=models.JSONField(
                        db_column="readings",
                        db_default=models.Value([], output_field=models.JSONField()),
                        default=list,
                        help_text="A digest of what each whole pass over a list saw that seems to have changed"
                        " meanwhile.",
                    ),
                ),
            ]
        ),
    ]
