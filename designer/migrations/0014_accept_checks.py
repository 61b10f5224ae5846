from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("designer", "0013_procedures")]

    operations = [
        migrations.AddField(
            model_name="release",
            name="accepted",
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.AddField(
            model_name="release",
            name="reason",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
