import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0020_name_vendors_for_agents"),
    ]

    operations = [
        migrations.CreateModel(
            name="TokenLimit",
            fields=[
                (
                    "agent",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="token_limit",
                        serialize=False,
                        to="designer.agent",
                    ),
                ),
                ("tokens", models.PositiveIntegerField()),
                ("stops", models.BooleanField(default=False)),
            ],
        ),
    ]
