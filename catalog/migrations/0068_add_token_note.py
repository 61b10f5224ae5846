from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0067_remove_calls"),
    ]

    operations = [
        migrations.AddField(
            model_name="grant",
            name="token_note",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="What was odd in the reply that brought the token.",
                max_length=300,
            ),
        ),
    ]
