from django.db import migrations, models


class Migration(migrations.Migration):
    """The name in code and its meaning; the column stays as old code reads it."""

    dependencies = [
        ("catalog", "0041_turn_second_looks_on"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="run",
                    name="put_aside",
                    field=models.BooleanField(
                        db_column="put_aside",
                        db_default=False,
                        default=False,
                        help_text="A part of it has been read, and it goes on among the slow runs.",
                    ),
                ),
                migrations.RenameField(model_name="run", old_name="put_aside", new_name="in_parts"),
            ]
        ),
    ]
