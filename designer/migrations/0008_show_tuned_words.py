from django.db import migrations


def mark(apps, schema_editor):
    """A worker writes the words onto these tools within a minute (catalog.tools.effective_texts.catch_up)."""
    tuned = apps.get_model("designer", "Tuning").objects.filter(tool__isnull=False)
    tools = apps.get_model("catalog", "Tool").objects
    tools.filter(pk__in=tuned.values("tool")).update(is_tuned=True)


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0007_remember_drafts"),
        ("catalog", "0033_show_tuned_words"),
    ]

    operations = [migrations.RunPython(mark, migrations.RunPython.noop)]
