from django.db import migrations, models

STATES = [
    ("open", "Waiting for review"),
    ("accepted", "Accepted"),
    ("blocked", "Blocked"),
    ("noted", "No decision needed"),
]


class Migration(migrations.Migration):
    dependencies = [("catalog", "0095_first_key_of_earlier_calls")]

    operations = [
        migrations.AlterField(
            model_name="finding",
            name="state",
            field=models.CharField(choices=STATES, default="open", max_length=10),
        ),
    ]
