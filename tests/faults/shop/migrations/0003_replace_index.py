from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently, RemoveIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0002_add_colors")]

    operations = [
        AddIndexConcurrently("article", models.Index(fields=["price", "id"], name="article_by_price_and_id")),
        RemoveIndexConcurrently("article", "article_by_price"),
    ]
