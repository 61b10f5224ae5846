import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0043_reasons"),
    ]

    operations = [
        migrations.AlterField(
            model_name="agent",
            name="slug",
            field=models.SlugField(
                help_text="If empty, it is created from the name.", max_length=60, verbose_name="Address"
            ),
        ),
        migrations.AlterField(
            model_name="rehearsalplan",
            name="at_least",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Leave this empty for no minimum.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(200),
                ],
                verbose_name="Tests that must pass",
            ),
        ),
        migrations.AlterField(
            model_name="retirement",
            name="sunset_at",
            field=models.DateTimeField(
                blank=True,
                help_text="If empty, it stays available, and each reply states that it is retired.",
                null=True,
                verbose_name="Available to API keys until (UTC)",
            ),
        ),
        migrations.AlterField(
            model_name="transfer",
            name="description",
            field=models.TextField(
                blank=True,
                help_text="The model reads this with the tools. If empty, it reads the first sentence about the sub-agent.",
                max_length=4000,
                verbose_name="When to transfer",
            ),
        ),
    ]
