from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0049_call_in_background"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="site",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
