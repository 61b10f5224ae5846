import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0073_unknown_outcomes"),
        ("designer", "0037_protect_environments"),
    ]

    operations = [
        migrations.AddField(
            model_name="procedurereference",
            name="version",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="catalog.toolversion",
            ),
        ),
    ]
