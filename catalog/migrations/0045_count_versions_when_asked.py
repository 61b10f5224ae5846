from django.db import migrations, models


class Migration(migrations.Migration):
    """Only the name in Python goes: old code still reads the column, and writes it. For rows of new code it has
    a default."""

    dependencies = [("catalog", "0044_ask_for_vendors")]

    operations = [
        migrations.AlterField(
            model_name="toolversion",
            name="tokens",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField(model_name="toolversion", name="tokens")]
        ),
    ]
