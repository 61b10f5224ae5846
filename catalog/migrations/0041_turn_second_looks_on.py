from django.db import migrations, models


class Migration(migrations.Migration):
    """`is_off` leaves the model. Its column stays, with a default, because old code reads and writes it."""

    dependencies = [("catalog", "0040_name_passes")]

    operations = [
        migrations.AddField(
            model_name="secondlook",
            name="is_on",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="secondlook",
            name="other_name",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=100,
            ),
        ),
        migrations.AlterField(
            model_name="secondlook",
            name="is_off",
            field=models.BooleanField(
                db_default=False,
                default=False,
            ),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField(model_name="secondlook", name="is_off")]
        ),
    ]
