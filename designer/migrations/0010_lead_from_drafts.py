from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("designer", "0009_hold_addresses")]

    operations = [
        migrations.AddField(
            model_name="agentaddress",
            name="is_held",
            field=models.BooleanField(db_default=True, default=True),
        ),
    ]
