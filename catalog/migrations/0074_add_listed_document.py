import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0073_unknown_outcomes"),
    ]

    operations = [
        migrations.CreateModel(
            name="ListedDocument",
            fields=[
                (
                    "tool",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="listed",
                        serialize=False,
                        to="catalog.tool",
                    ),
                ),
                ("digest", models.CharField(max_length=64)),
                ("raw", models.TextField()),
                ("listed_at", models.DateTimeField()),
            ],
        ),
    ]
