from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0066_count_calls_under_way"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="removed_at",
            field=models.DateTimeField(null=True),
        ),
    ]
