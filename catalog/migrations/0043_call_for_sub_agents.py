from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0042_name_parts_of_runs"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="sub_agent",
            field=models.CharField(blank=True, db_default="", default="", max_length=60),
        ),
    ]
