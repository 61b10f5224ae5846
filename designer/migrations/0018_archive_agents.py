from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0017_widen_tunings"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="archived_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
