from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0042_hidden_guides"),
    ]

    operations = [
        migrations.AlterField(
            model_name="release",
            name="reason",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                max_length=2000,
                verbose_name="Reason for publishing anyway",
            ),
        ),
        migrations.AlterField(
            model_name="retirement",
            name="reason",
            field=models.TextField(
                help_text="Shown on the release, in the audit trail, and in checks of builds.",
                max_length=2000,
                verbose_name="Reason",
            ),
        ),
    ]
