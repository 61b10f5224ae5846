from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0058_sign_with_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="reasoning",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
