from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0036_bind_activity_versions"),
    ]

    operations = [
        migrations.AddField(
            model_name="environment",
            name="is_protected",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="release",
            name="bindings",
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
