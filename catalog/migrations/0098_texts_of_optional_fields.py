from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0097_index_runs_with_changes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="call",
            name="mode",
            field=models.CharField(
                choices=[
                    ("wait", "While the caller waits"),
                    ("async", "In the background"),
                    ("stream", "Streamed"),
                ],
                db_default="wait",
                default="wait",
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="endpoint",
            name="authorities",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="For a vendor whose certificate a private authority issued, in PEM format. The endpoint then trusts no other authority. If empty, it trusts the public authorities.",
                max_length=65536,
                verbose_name="Certificates of your own authority",
            ),
        ),
    ]
