import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0059_keep_reasoning"),
    ]

    operations = [
        migrations.CreateModel(
            name="ListFetch",
            fields=[
                ("claim", models.UUIDField(null=True)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("read_at", models.DateTimeField(null=True)),
                ("next_at", models.DateTimeField(null=True)),
                ("error_code", models.CharField(blank=True, max_length=40)),
                ("error_message", models.TextField(blank=True)),
                (
                    "endpoint",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="last_fetch",
                        serialize=False,
                        to="catalog.endpoint",
                    ),
                ),
            ],
            options={"abstract": False},
        ),
    ]
