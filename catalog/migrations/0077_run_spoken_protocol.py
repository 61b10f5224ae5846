from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0076_indexes_of_the_queue"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="spoken_protocol",
            field=models.CharField(blank=True, db_default="", default="", max_length=20),
        ),
    ]
