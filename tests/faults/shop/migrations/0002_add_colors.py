from django.db import migrations, models

from core.migration_operations import (
    AddFieldIfMissing,
    AddIndexConcurrently,
    AddUniqueConstraintConcurrently,
)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0001_initial")]

    operations = [
        AddFieldIfMissing("article", "color", models.CharField(max_length=20, null=True)),
        AddIndexConcurrently("article", models.Index(fields=["price"], name="article_by_price")),
        AddUniqueConstraintConcurrently(
            "article",
            models.UniqueConstraint(
                fields=["color"], condition=models.Q(color__isnull=False), name="one_article_per_color"
            ),
        ),
        # Drops the unique constraint, under a lock that waits for every reader of the table.
        migrations.AlterField("article", "name", models.CharField(max_length=20)),
    ]
