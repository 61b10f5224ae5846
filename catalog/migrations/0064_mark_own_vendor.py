from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0063_find_calls_of_activities"),
    ]

    operations = [
        migrations.AddField(
            model_name="vendor",
            name="is_own",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddConstraint(
            model_name="vendor",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_own", True)), fields=("is_own",), name="one_home_of_definitions"
            ),
        ),
    ]
