from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0064_mark_own_vendor"),
    ]

    operations = [
        migrations.AddField(
            model_name="activityversion",
            name="is_by_administrator",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
