from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0021_limit_tokens"),
    ]

    operations = [
        migrations.AlterField(
            model_name="export",
            name="format",
            field=models.CharField(max_length=100),
        ),
        migrations.AlterField(
            model_name="receipt",
            name="surface",
            field=models.CharField(max_length=100),
        ),
    ]
