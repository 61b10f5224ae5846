from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("designer", "0040_translation_runs")]

    operations = [
        migrations.AddField(
            model_name="release", name="tokens", field=models.PositiveIntegerField(null=True)
        ),
    ]
