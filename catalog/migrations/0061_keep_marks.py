from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0060_read_lists_once"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="mark",
            field=models.CharField(blank=True, db_default="", default="", max_length=255),
        ),
    ]
